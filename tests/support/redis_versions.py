"""The servers that redisjobs promises to run on, one after the other.

    def test_a_finish_is_accepted_once(any_redis: AnyRedis): ...

runs on Redis 6.2, Redis 7.0 (Debian's), Redis 8, Valkey 9 and fakeredis, each emptied before. Those on
fakeredis carry the mark `fakeredis`; `any_real_redis` leaves it out.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from fakeredis import TcpFakeServer

from tests.support.binaries import redis_6_2, redis_7_0, redis_8, valkey_9, version
from tests.support.servers import RedisServer

BINARIES: dict[str, Callable[[], Path]] = {
    "redis-6.2": redis_6_2,
    "redis-7.0": redis_7_0,
    "redis-8": redis_8,
    "valkey-9": valkey_9,
}
REAL = tuple(BINARIES)
ALL = (*REAL, pytest.param("fakeredis", marks=pytest.mark.fakeredis))


@dataclass(frozen=True, slots=True)
class AnyRedis:
    """One of them.

    Attributes:
        name: `redis-6.2`, …, `fakeredis`.
        version: of the server program; (0,) for fakeredis.
    """

    name: str
    url: str
    version: tuple[int, ...]

    @property
    def is_fake(self) -> bool:
        return self.name == "fakeredis"


class RedisFarm:
    """Starts each of them once, when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._running: dict[str, AnyRedis] = {}

    def get(self, name: str) -> AnyRedis:
        """This server, emptied of keys and scripts.

        Raises:
            MissingBinary: it cannot be had here; tells what to install.
        """
        if name not in self._running:
            self._running[name] = self._fake() if name == "fakeredis" else self._real(name)
        found = self._running[name]
        with redis.Redis.from_url(found.url, socket_timeout=10) as client:
            client.flushall()
            client.script_flush()
        return found

    def close(self) -> None:
        self._stack.close()

    def _real(self, name: str) -> AnyRedis:
        binary = BINARIES[name]()
        server = self._stack.enter_context(RedisServer(self._folder / name, binary))
        return AnyRedis(name, server.url, tuple(int(part) for part in version(binary).split(".")))

    def _fake(self) -> AnyRedis:
        server = TcpFakeServer(("127.0.0.1", 0), server_version=(7,))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        return AnyRedis("fakeredis", f"redis://127.0.0.1:{server.server_address[1]}/0", (0,))


@pytest.fixture(scope="session")
def redis_farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisFarm]:
    """Servers of all versions, for a test that picks its own."""
    farm = RedisFarm(tmp_path_factory.mktemp("redis-versions"))
    yield farm
    farm.close()


@pytest.fixture(params=ALL)
def any_redis(request: pytest.FixtureRequest, redis_farm: RedisFarm) -> AnyRedis:
    """Each supported server in turn, and fakeredis."""
    return redis_farm.get(str(request.param))


@pytest.fixture(params=REAL)
def any_real_redis(request: pytest.FixtureRequest, redis_farm: RedisFarm) -> AnyRedis:
    """Each supported server in turn, without fakeredis."""
    return redis_farm.get(str(request.param))
