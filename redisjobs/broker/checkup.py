"""Redis looked over: what it says of itself, what this user may do, and how fast it answers. Nothing is changed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from redis import exceptions

from redisjobs.broker.client import connect_sync, in_our_words, sync_nodes_of
from redisjobs.broker.coverage import Coverage, coverage
from redisjobs.broker.keys import Keys
from redisjobs.errors import BrokerUnavailable

TIMEOUT_S = 5.0
PINGS = 5

NEEDED = (
    "ping", "eval", "evalsha", "time", "hdel", "hexists", "hget", "hmget", "hscan", "hset", "pexpire",
    "sadd", "smembers", "smismember", "srandmember", "srem",
    "xack", "xadd", "xclaim", "xdel", "xgroup", "xinfo", "xlen", "xpending", "xrange", "xread", "xreadgroup",
    "zadd", "zcard", "zcount", "zlexcount", "zmscore", "zrange", "zrangebyscore", "zrem", "zscore",
)  # fmt: skip
"""Every command that relays, workers and scripts use."""

_NOWHERE = (
    "hdel", "hexists", "hget", "hmget", "smembers", "srem", "xdel", "xlen", "zcard", "zlexcount", "zmscore", "zrem",
    "zscore",
)  # fmt: skip
_TAILS: dict[str, tuple[str, ...]] = {
    "hdel": ("f",), "hexists": ("f",), "hget": ("f",), "hmget": ("f",), "srem": ("m",), "xdel": ("0-1",),
    "zlexcount": ("-", "+"), "zmscore": ("m",), "zrem": ("m",), "zscore": ("m",),
}  # fmt: skip
"""What changes nothing on a key that is not there."""


@dataclass(frozen=True, slots=True)
class RedisFacts:
    """All of one Redis server.

    Args:
        info: INFO, by name; empty where it is forbidden. config: CONFIG GET, likewise.
        forbidden: what this user was refused to look at, with what Redis said.
        lacks: commands that this user may not use. other_keys: what Redis said where the key pattern is not granted.
        untried: commands that could not be tried without changing something.
        ping_s: the median of a few. now_s: its clock; host_now_s: this machine's at that moment.
        host: the address that it was reached at; empty for a socket file.
        node: of a cluster, where it is; empty for one server.
    """

    url: str
    prefix: str
    host: str
    ping_s: float
    now_s: float
    host_now_s: float
    info: dict[str, Any] = field(default_factory=dict[str, Any])
    config: dict[str, str] = field(default_factory=dict[str, str])
    forbidden: dict[str, str] = field(default_factory=dict[str, str])
    lacks: list[str] = field(default_factory=list[str])
    other_keys: str | None = None
    untried: list[str] = field(default_factory=list[str])
    node: str = ""

    def number(self, name: str) -> int:
        """A number of INFO; 0 where it is not told."""
        try:
            return int(self.info.get(name, 0))
        except (TypeError, ValueError):
            return 0


@dataclass(frozen=True, slots=True)
class Checkup:
    """What was found of every server that jobs are on.

    Args:
        nodes: one server, or the primaries of a cluster that answer.
        coverage: how whole the cluster is; None: it is one server.
        silent: primaries that do not answer, each with what was said.
    """

    nodes: list[RedisFacts]
    coverage: Coverage | None = None
    silent: list[str] = field(default_factory=list[str])


def check_up(url: str, prefix: str) -> Checkup:
    """Look a Redis over; of a cluster, each primary.

    Raises:
        BrokerUnavailable, StoreRefused, ConfigurationError: not even one can be pinged.
    """
    redis: Any = connect_sync(url, timeout=TIMEOUT_S)
    try:
        nodes = sync_nodes_of(redis)
        if nodes == [redis]:
            return Checkup([_look_at(url, prefix, redis, _a_queue(redis, prefix))])
        queue, silent, found = _a_queue(redis, prefix), list[str](), list[RedisFacts]()
        for node in nodes:
            try:
                found.append(_look_at(url, prefix, node, queue, on_cluster=True))
            except BrokerUnavailable as error:
                silent.append(f"{_address(node)}: {error}")
                if len(silent) == len(nodes):
                    raise
        return Checkup(found, coverage(redis), silent)
    finally:
        redis.close()


def _look_at(url: str, prefix: str, redis: Any, queue: bytes | None, *, on_cluster: bool = False) -> RedisFacts:
    """One server."""
    with in_our_words("PING"):
        pings = [_timed(redis) for _ in range(PINGS + 1)][1:]
    with in_our_words("TIME"):
        before = time.time()
        seconds, micros = redis.execute_command("TIME")
        host_now_s = (before + time.time()) / 2
    forbidden: dict[str, str] = {}
    info = _allowed(forbidden, "INFO", redis.info)
    config = _allowed(forbidden, "CONFIG", lambda: redis.config_get("*"))
    lacks, other_keys, untried = _try_rights(redis, Keys(prefix), queue, on_cluster=on_cluster)
    return RedisFacts(
        url, prefix, _host(redis), statistics.median(pings), int(seconds) + int(micros) / 1e6, host_now_s,
        info, {_text(name): _text(value) for name, value in config.items()}, forbidden, lacks, other_keys, untried,
        _address(redis) if on_cluster else "",
    )  # fmt: skip


def ungrouped(url: str, prefix: str, queues: list[str]) -> dict[str, int]:
    """Entries in streams that have no group to be read by, for each queue, in one round trip.

    Raises:
        BrokerUnavailable, StoreRefused: no answer.
    """
    redis: Any = connect_sync(url, timeout=TIMEOUT_S)
    keys = Keys(prefix)
    streams = [(queue, stream) for queue in queues for stream in keys.streams(queue)]
    try:
        pipeline = redis.pipeline(transaction=False)
        for _, stream in streams:
            pipeline.execute_command("XLEN", stream)
            pipeline.execute_command("XINFO", "GROUPS", stream)
        with in_our_words("XINFO"):
            replies: list[Any] = pipeline.execute(raise_on_error=False) if queues else []
    finally:
        redis.close()
    found: dict[str, int] = dict.fromkeys(queues, 0)
    for (queue, _), length, groups in zip(streams, replies[::2], replies[1::2], strict=True):
        if isinstance(length, int) and length and not groups:
            found[queue] += length
    return found


def _timed(redis: Any) -> float:
    began = time.perf_counter()
    redis.execute_command("PING")
    return time.perf_counter() - began


def _allowed(forbidden: dict[str, str], what: str, ask: Callable[[], Any]) -> dict[Any, Any]:
    """What was asked for, or nothing where this user may not ask, or a managed server has no such command."""
    try:
        told: dict[Any, Any] = ask()
    except exceptions.ResponseError as error:
        forbidden[what] = str(error)
        return {}
    return told


def _host(redis: Any) -> str:
    """The address that the server was reached at."""
    connection = redis.connection_pool.get_connection()
    try:
        sock = getattr(connection, "_sock", None)
        peer: object = sock.getpeername() if sock is not None else ""
        return str(cast("tuple[object, ...]", peer)[0]) if isinstance(peer, tuple) else ""
    finally:
        redis.connection_pool.release(connection)


def _address(node: Any) -> str:
    known = node.connection_pool.connection_kwargs
    return f"{known.get('host')}:{known.get('port')}"


def _try_rights(
    redis: Any, keys: Keys, queue: bytes | None, *, on_cluster: bool
) -> tuple[list[str], str | None, list[str]]:
    """Each command is tried in a way that changes nothing: on a key that is not there, or with words it must refuse.

    Rights come first: a node that has not the key says so only to those who may use the command.
    """
    probes = _probes(keys, queue) | ({"asking": ("asking",)} if on_cluster else {})
    pipeline = redis.pipeline(transaction=False)
    for words in probes.values():
        pipeline.execute_command(*words, **({"parse_detail": True} if words[0] == "xpending" else {}))
    replies = pipeline.execute(raise_on_error=False)
    lacks: list[str] = []
    other_keys: str | None = None
    for name, reply in zip(probes, replies, strict=True):
        if isinstance(reply, exceptions.ResponseError) and _is_refusal(reply):
            if " key" in str(reply) and "command" not in str(reply):
                other_keys = str(reply)
            else:
                lacks.append(name)
    return lacks, other_keys, [name for name in NEEDED if name not in probes]


def _is_refusal(reply: exceptions.ResponseError) -> bool:
    return isinstance(reply, exceptions.NoPermissionError) or "NOPERM" in str(reply)


def _probes(keys: Keys, queue: bytes | None) -> dict[str, tuple[Any, ...]]:
    key = f"{keys.prefix}:{{doctor}}:nothing"
    probes: dict[str, tuple[Any, ...]] = {name: (name, key, *_TAILS.get(name, ())) for name in _NOWHERE}
    probes |= {
        "ping": ("ping",), "time": ("time",), "eval": ("eval", "return 0", 0), "evalsha": ("evalsha", "0" * 40, 0),
        "hscan": ("hscan", key, 0), "hset": ("hset", key, "f", "v", "odd"), "pexpire": ("pexpire", key, 1),
        "smismember": ("smismember", key, "m"), "srandmember": ("srandmember", key, 1),
        "xack": ("xack", key, "workers", "0-1"), "xadd": ("xadd", key, "no-id", "f", "v"),
        "xclaim": ("xclaim", key, "workers", "c", 0, "0-1"), "xgroup": ("xgroup", "create", key, "workers", 0),
        "xinfo": ("xinfo", "groups", key), "xpending": ("xpending", key, "workers", "-", "+", 1),
        "xrange": ("xrange", key, "-", "+", "count", 1), "xread": ("xread", "count", 1, "streams", key, 0),
        "xreadgroup": ("xreadgroup", "group", "workers", "c", "count", 1, "streams", key, ">"),
        "zadd": ("zadd", key, "no-score", "m"), "zcount": ("zcount", key, 0, 0), "zrange": ("zrange", key, 0, 0),
        "zrangebyscore": ("zrangebyscore", key, 0, 0),
    }  # fmt: skip
    if queue is not None:  # it is a member already
        probes["sadd"] = ("sadd", keys.queues, queue)
    return {name: probes[name] for name in NEEDED if name in probes}


def _a_queue(redis: Any, prefix: str) -> bytes | None:
    try:
        found: list[bytes] = redis.execute_command("SRANDMEMBER", Keys(prefix).queues, 1)
    except exceptions.RedisError:  # a look of its own tells
        return None
    return found[0] if found else None


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
