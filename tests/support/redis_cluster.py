"""A Redis Cluster of a test's own: three primaries and a replica for each, on free ports of 127.0.0.1.

    with RedisCluster(folder, redis_7_0()) as cluster:
        App(redis_url=cluster.url)
        cluster.move("default", cluster.another("default"))   # its slot, with all keys in it
        lost = cluster.owner("default")
        lost.kill()
        cluster.promoted("default", instead_of=lost)          # within seconds

A *name* is what stands between the braces of a hash tag: a queue, or `-` for limits.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import redis
from redis.crc import key_slot

from tests.support.binaries import version
from tests.support.certificates import Certificate
from tests.support.eventually import eventually_now
from tests.support.net import free_port
from tests.support.servers import RedisServer, cut_off_replicas

SLOTS = 16_384
NODE_TIMEOUT_MS = 1000
BUS_BEHIND = 10_000  # so far behind the port of clients lies that of the bus, where it cannot be named


class ClusterNode(RedisServer):
    """One node. Whether it is a primary changes with every failover."""

    name = "cluster node"

    def __init__(self, folder: Path, binary: Path, tls: Certificate | None, **options: str) -> None:
        cluster = {
            "cluster_enabled": "yes", "cluster_node_timeout": str(NODE_TIMEOUT_MS),
            "cluster_replica_validity_factor": "0", "repl_ping_replica_period": "1",
        }  # fmt: skip
        super().__init__(folder, binary, **(cluster | options))
        self.tls, self.tls_port, self.was_up = tls, 0, False
        self._choose_ports()

    def _choose_ports(self) -> None:
        if int(version(self.binary).split(".")[0]) >= 7:
            self.port, self.bus = free_port(), free_port()
            self.options |= {"cluster_port": str(self.bus)}
        else:
            self.port, self.bus = _ports_with_bus()
        if self.tls is not None:
            self.tls_port = free_port()
            self.options |= self.tls.redis_options(self.tls_port) | {"tls_cluster": "yes", "tls_replication": "yes"}

    def start(self) -> Self:
        """As every server; where somebody else took a port meanwhile, with others, as long as nobody knows them."""
        for _ in range(5):
            try:
                return super().start()
            except RuntimeError as error:
                if "Address already in use" not in str(error) or self.was_up:
                    raise
                self._choose_ports()
        return super().start()

    @property
    def client_port(self) -> int:
        """Where clients of the cluster are expected: with TLS, if there is any."""
        return self.tls_port or self.port

    def ask(self, *words: str | bytes | int) -> Any:
        """One command to this node, without TLS, and without a way to another."""
        with self.client() as client:
            return client.execute_command(*words)

    def id(self) -> str:
        return _text(self.ask("CLUSTER", "MYID"))

    def is_primary(self) -> bool:
        with self.client() as client:
            role: Any = client.execute_command("ROLE")
        return bool(role[0] == b"master")


class RedisCluster:
    """Its nodes, the first of which begin as primaries.

    Args:
        folder: for their data.
        binary: the server program.
        primaries: how many; replicas: how many each has.
        tls: their certificate; clients then come by TLS.
        options: settings of every node, `_` for `-`.
    """

    def __init__(
        self,
        folder: Path,
        binary: Path,
        *,
        primaries: int = 3,
        replicas: int = 1,
        tls: Certificate | None = None,
        **options: str,
    ) -> None:
        self._tls, self._primaries, self._replicas = tls, primaries, replicas
        count = primaries * (1 + replicas)
        self.nodes = [ClusterNode(folder / f"node-{number}", binary, tls, **options) for number in range(count)]

    @property
    def url(self) -> str:
        """For `redis_url`: all nodes; with TLS, and the authority that is to be trusted, where there is."""
        hosts = ",".join(f"127.0.0.1:{node.client_port}" for node in self.nodes)
        if self._tls is None:
            return f"redis+cluster://{hosts}"
        return f"rediss+cluster://{hosts}?ssl_ca_certs={self._tls.cert}"

    def start(self) -> Self:
        """Start the nodes and make a cluster of them; returns when every node says that it is whole."""
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            list(threads.map(ClusterNode.start, self.nodes))
        firsts = self.nodes[: self._primaries]
        for number, node in enumerate(firsts):
            share = range(number * SLOTS // len(firsts), (number + 1) * SLOTS // len(firsts))
            node.ask("CLUSTER", "ADDSLOTS", *share)
        for number, node in enumerate(self.nodes, 1):
            node.was_up = True
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number)
            for other in self.nodes[: number - 1]:
                node.ask("CLUSTER", "MEET", "127.0.0.1", other.client_port, other.bus)
        eventually_now(self._all_have_met, "the nodes know each other", 30)
        for number, node in enumerate(self.nodes[self._primaries :]):
            node.ask("CLUSTER", "REPLICATE", firsts[number % len(firsts)].id())
        eventually_now(self.is_whole, "the cluster is whole", 30)
        return self

    def is_whole(self) -> bool:
        """Every node runs, serves all slots and knows who follows whom, and every replica hears its primary."""
        return all(node.process and self._is_well(node) for node in self.nodes)

    def stop(self) -> None:
        """End all nodes at once, whatever they hold."""
        for node in self.nodes:
            node.kill()

    def running(self) -> list[ClusterNode]:
        return [node for node in self.nodes if node.process]

    def primaries(self) -> list[ClusterNode]:
        """The nodes that hold slots, as the others see it."""
        ports = {int(primary[1]) for _, _, primary, *_ in self._slots()}
        return [node for node in self.running() if ports & {node.port, node.tls_port}]

    def owner(self, name: str) -> ClusterNode:
        """The node that has the keys of this queue, as most see it."""
        slot = key_slot(name.encode())
        for first, last, primary, *_ in self._slots():
            if first <= slot <= last:
                return self._at(int(primary[1]))
        raise AssertionError(f"nobody has slot {slot} of {name!r}")

    def replica(self, name: str) -> ClusterNode:
        """A replica of the node that has the keys of this queue."""
        slot = key_slot(name.encode())
        (found,) = (others for first, last, _, *others in self._slots() if first <= slot <= last)
        return self._at(int(found[0][1]))

    def another(self, name: str) -> ClusterNode:
        """A primary that does not have the keys of this queue."""
        owner = self.owner(name)
        return next(node for node in self.primaries() if node is not owner)

    def promoted(self, name: str, *, instead_of: ClusterNode, within: float = 30) -> ClusterNode:
        """Wait until another node has the keys of this queue, and the cluster serves all slots; that node."""

        def new_owner() -> ClusterNode | None:
            owner = self.owner(name)
            return owner if owner is not instead_of and all(map(_serves, self.running())) else None

        found = eventually_now(new_owner, f"another has {name!r}", within, despite=_NOT_YET)
        assert found is not None
        return found

    def fail_over(self, name: str, *, losing: Callable[[], object] | None = None) -> ClusterNode:
        """Kill the node that has the keys of this queue; the one that was promoted.

        Args:
            losing: called after its replica was cut off: what is written to the primary meanwhile is lost.
        """
        lost, replica = self.owner(name), self.replica(name)
        if losing is not None:
            replica.freeze()
            cut_off_replicas(lost)
            losing()
        lost.kill()
        if losing is not None:
            replica.thaw()
        return self.promoted(name, instead_of=lost)

    def move(self, name: str, to: ClusterNode) -> None:
        """Move the slot of this queue with all its keys, as an operator does while it is used."""
        with self.moving(name, to) as move_keys:
            while move_keys(10):
                pass

    @contextlib.contextmanager
    def moving(self, name: str, to: ClusterNode) -> Iterator[Callable[[int], int]]:
        """The slot of this queue between two nodes; gives what moves so many of its keys, and says how many went.

        At the end the slot is the other node's, whose keys must all have been moved.
        """
        slot, source = key_slot(name.encode()), self.owner(name)
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id())
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id())

        def move_keys(count: int) -> int:
            keys: list[bytes] = source.ask("CLUSTER", "GETKEYSINSLOT", slot, count)
            if keys:
                source.ask("MIGRATE", "127.0.0.1", to.client_port, "", 0, 5000, "KEYS", *keys)
            return len(keys)

        yield move_keys
        for node in (to, source, *(each for each in self.primaries() if each not in (to, source))):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", to.id())

    def each(self, *words: str | bytes | int) -> None:
        """A command to every node that runs: rights and settings are each node's own."""
        for node in self.running():
            node.ask(*words)

    def flushall(self) -> None:
        """Empty every primary."""
        for node in self.primaries():
            node.ask("FLUSHALL")

    def keys(self) -> list[bytes]:
        """All keys of all primaries."""
        return [key for node in self.primaries() for key in node.ask("KEYS", "*")]

    def _slots(self) -> list[list[Any]]:
        """CLUSTER SLOTS, as that running node tells it which has heard of the latest change."""
        told = [(_epoch(node), number) for number, node in enumerate(self.nodes) if node.process]
        found: list[list[Any]] = self.nodes[max(told)[1]].ask("CLUSTER", "SLOTS")
        return found

    def _at(self, port: int) -> ClusterNode:
        return next(node for node in self.nodes if port in (node.port, node.tls_port))

    def _all_have_met(self) -> bool:
        return all(_cluster_info(node)["cluster_known_nodes"] == str(len(self.nodes)) for node in self.nodes)

    def _is_well(self, node: ClusterNode) -> bool:
        if not _serves(node) or any(len(part) < 3 + self._replicas for part in node.ask("CLUSTER", "SLOTS")):
            return False
        role: Any = node.ask("ROLE")
        return bool(role[0] == b"master" or role[3] == b"connected")

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()


_NOT_YET = (AssertionError, redis.RedisError, StopIteration)


def _serves(node: ClusterNode) -> bool:
    return _cluster_info(node)["cluster_state"] == "ok"


def _epoch(node: ClusterNode) -> int:
    try:
        return int(_cluster_info(node)["cluster_current_epoch"])
    except redis.RedisError:
        return -1


def _cluster_info(node: ClusterNode) -> dict[str, str]:
    said: Any = node.ask("CLUSTER", "INFO")
    if isinstance(said, dict):
        return {_text(key): _text(value) for key, value in said.items()}
    return dict(line.split(":", 1) for line in _text(said).splitlines() if ":" in line)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _ports_with_bus() -> tuple[int, int]:
    """A free port, and the one of the bus that goes with it, free too."""
    while True:
        port = free_port()
        with contextlib.suppress(OSError, OverflowError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port + BUS_BEHIND))
            return port, port + BUS_BEHIND
