"""A primary with replicas, and sentinels that watch them, on free ports of 127.0.0.1.

with Sentinels(folder, redis_7_0()) as watched:
    App(redis_url=watched.url)
    watched.fail_over()                       # kills the primary
    watched.fail_over(losing=lambda: …)       # and loses what is written meanwhile
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import redis

from tests.support.eventually import eventually_now
from tests.support.servers import RedisServer, cut_off_replicas

NAME = "shop"
DOWN_AFTER_MS = 1000

_CONF = f"""\
sentinel monitor {NAME} 127.0.0.1 {{port}} 2
sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}
sentinel failover-timeout {NAME} 3000
sentinel parallel-syncs {NAME} 2
"""


class Sentinel(RedisServer):
    """One sentinel, which agrees with the others on who is primary."""

    name = "sentinel"

    def __init__(self, folder: Path, binary: Path, primary: RedisServer, **options: str) -> None:
        super().__init__(folder, binary)
        self.options = options
        (folder / "sentinel.conf").write_text(_CONF.format(port=primary.port))

    def command(self) -> list[str]:
        _, *others = super().command()
        return [self.binary, str(self.folder / "sentinel.conf"), "--sentinel", *others]

    def primary_port(self) -> int:
        with self.client() as client:
            told: Any = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
        return int(told[1])

    def knows(self) -> tuple[int, int]:
        """How many replicas that are well, and how many other sentinels."""
        with self.client() as client:
            primary = _named(client.execute_command("SENTINEL", "MASTER", NAME))
            listed: Any = client.execute_command("SENTINEL", "REPLICAS", NAME)
        replicas = [_named(each) for each in listed]
        well = sum(each["flags"] == "slave" and each["master-link-status"] == "ok" for each in replicas)
        return well, int(primary["num-other-sentinels"])


class Sentinels:
    """One primary, its replicas and their sentinels.

    Args:
        folder: for their data.
        binary: the server program, which is the sentinel's too.
        replicas, sentinels: how many.
        options: settings of primary and replicas, `_` for `-`.
    """

    def __init__(self, folder: Path, binary: Path, *, replicas: int = 2, sentinels: int = 3, **options: str) -> None:
        self._folder, self._binary = folder, binary
        first = RedisServer(folder / "redis-0", binary, **options)
        follow = {"replicaof": f"127.0.0.1 {first.port}"}
        others = [RedisServer(folder / f"redis-{n}", binary, **(options | follow)) for n in range(1, replicas + 1)]
        self.servers = [first, *others]
        self.sentinels = [Sentinel(folder / f"sentinel-{n}", binary, first) for n in range(sentinels)]

    @property
    def url(self) -> str:
        """For `redis_url`: all sentinels, and the name of what they watch."""
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels)
        return f"redis+sentinel://{hosts}/{NAME}"

    def start(self) -> Self:
        """Start all of them; returns when the sentinels know each other and the replicas."""
        with ThreadPoolExecutor(len(self.servers)) as threads:
            list(threads.map(RedisServer.start, self.servers))
        eventually_now(self._is_followed, "the replicas hear the primary", 30)
        with ThreadPoolExecutor(len(self.sentinels)) as threads:
            list(threads.map(Sentinel.start, self.sentinels))
        everybody = (len(self.servers) - 1, len(self.sentinels) - 1)
        eventually_now(lambda: all(each.knows() == everybody for each in self.sentinels), "the sentinels know all", 30)
        return self

    def stop(self) -> None:
        """End everything at once."""
        for server in (*self.sentinels, *self.servers):
            server.kill()

    def primary(self) -> RedisServer:
        """Whom the sentinels name, most of them."""
        ports = [each.primary_port() for each in self.sentinels if each.process]
        port = max(set(ports), key=ports.count)
        return next(server for server in self.servers if server.port == port)

    def replicas(self) -> list[RedisServer]:
        """The others that run."""
        primary = self.primary()
        return [server for server in self.servers if server.process and server is not primary]

    def fail_over(self, *, losing: Callable[[], object] | None = None, within: float = 30) -> RedisServer:
        """Kill the primary; the one that was promoted.

        Args:
            losing: called after the replicas were cut off: what is written to the primary meanwhile is lost.
        """
        lost, replicas = self.primary(), self.replicas()
        if losing is not None:
            for each in replicas:
                each.freeze()
            cut_off_replicas(lost)
            losing()
        lost.kill()
        if losing is not None:
            for each in replicas:
                each.thaw()
        return self.promoted(instead_of=lost, within=within)

    def promoted(self, *, instead_of: RedisServer, within: float = 30) -> RedisServer:
        """Wait until all sentinels name another primary, and it is one; that server."""

        def new() -> RedisServer | None:
            ports = {each.primary_port() for each in self.sentinels if each.process}
            found = next((server for server in self.servers if ports == {server.port}), None)
            return found if found is not instead_of and found is not None and _is_primary(found) else None

        found = eventually_now(new, "another is primary", within, despite=(AssertionError, redis.RedisError))
        assert found is not None
        return found

    def _is_followed(self) -> bool:
        with self.servers[0].client() as client:
            role: Any = client.execute_command("ROLE")
        return len(role[2]) == len(self.servers) - 1

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()


def _is_primary(server: RedisServer) -> bool:
    with server.client() as client:
        role: Any = client.execute_command("ROLE")
    return bool(role[0] == b"master")


def _named(told: Any) -> dict[str, str]:
    """Names and values: a flat list of both, or already a mapping."""
    pairs = told.items() if isinstance(told, dict) else zip(told[::2], told[1::2], strict=True)
    return {name.decode(): value.decode() for name, value in pairs}
