"""A script touches only the keys that it declares, all of one slot: on a node that has no other slot."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Callable, Iterator

import pytest
import redis as redis_py

from redisjobs.base import scripts
from redisjobs.broker import Publication
from redisjobs.broker.client import run_sync
from tests.support.binaries import redis_7_0, redis_8, valkey_9
from tests.support.builders import finish
from tests.support.eventually import eventually_now
from tests.support.net import free_port
from tests.support.queue import QueueByHand
from tests.support.script_calls import CALLS, Stage
from tests.support.servers import RedisServer

_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.)", re.DOTALL)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}


@pytest.fixture(params=[redis_7_0, redis_8, valkey_9])
def node(request: pytest.FixtureRequest, start_redis) -> RedisServer:
    """A cluster node that serves the slot of the queue `q` alone: it refuses every other key."""
    settings = {"cluster_enabled": "yes", "cluster_port": str(free_port()), "cluster_require_full_coverage": "no"}
    server: RedisServer = start_redis(request.param(), **settings)
    with server.client() as client:
        client.execute_command("CLUSTER", "ADDSLOTS", client.execute_command("CLUSTER", "KEYSLOT", "{q}"))
        eventually_now(lambda: client.set("{q}", 1), "it serves the slot", despite=(redis_py.ResponseError,))
        client.delete("{q}")
    return server


class Monitor:
    """The commands that a server ran, in order: each whether a script called it, and its words."""

    def __init__(self, server: RedisServer) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        self._file = self._socket.makefile("rb")
        self._socket.sendall(b"MONITOR\r\n")
        assert self._file.readline() == b"+OK\r\n"

    def until(self, mark: bytes) -> Iterator[tuple[bool, list[bytes]]]:
        while True:
            line = self._file.readline()
            words = [_ESCAPE.sub(_unescape, word) for word in _WORD.findall(line)]
            if words == [b"ECHO", mark]:
                return
            yield b" lua] " in line, words

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def _unescape(found: re.Match[bytes]) -> bytes:
    what = found[1]
    return bytes([int(what[1:], 16)]) if len(what) == 3 else _NAMED.get(what, what)


async def test_scripts_touch_what_they_declare_and_nothing_else(node: RedisServer):
    seen: set[str] = set()
    async with QueueByHand(node.url) as q:
        with contextlib.closing(Monitor(node)) as monitor:
            for call in CALLS.values():
                await _fresh(q)
                stage = Stage(q)
                await stage.set()
                name, arguments = call(stage)
                q.script(name, *arguments)
                seen.add(name)
            await _results_are_declared_too(q)
            q.redis.execute_command("ECHO", "end")
            commands = list(monitor.until(b"end"))

        assert seen == set(scripts.names())
        declared: set[bytes] = set()
        touched: set[bytes] = set()
        for by_script, words in commands:
            if not by_script:
                declared = set(words[3 : 3 + int(words[2])]) if words[0].startswith(b"EVAL") else set()
            elif words[0].upper() != b"TIME":
                keys = {key.encode() for key in q.redis.execute_command("COMMAND GETKEYS", *words)}
                assert keys <= declared, f"{words} touches a key that its script does not declare"
                touched |= keys
    assert len(touched) >= 13
    assert all(b"{q}" in key for key in touched)


async def _fresh(q: QueueByHand) -> None:
    q.redis.flushall()
    q.settled = b"0-0"
    await q.open()


async def _results_are_declared_too(q: QueueByHand) -> None:
    await _fresh(q)
    await q.publish(Publication(bytes(16), b"body"))
    held = await q.take_one()
    assert await q.broker.finish("q", "w1", [finish(held, keep_ms=1000)]) == ["ok"]


def test_a_key_of_another_slot_is_refused_by_such_a_node(node: RedisServer):
    undeclared: Callable[[], object]
    with node.client() as client:
        for undeclared in (
            lambda: client.eval("return redis.call('GET', 'rj:{other}:jobs')", 0),
            lambda: run_sync(client, scripts.load("holder"), [b"rj:{other}:jobs", b"k", b"w"], [b"key"]),
        ):
            with pytest.raises(Exception, match=r"(?i)slot|non local|CLUSTERDOWN|CROSSSLOT"):
                undeclared()
