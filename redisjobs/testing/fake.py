"""A Redis in memory: fakeredis with our own scripts, by the clock of the test, and with its faults."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from redisjobs.base import scripts
from redisjobs.broker import Broker, Carrier, Heart, Keys
from redisjobs.errors import ConfigurationError
from redisjobs.testing.clock import TurnedClock
from redisjobs.testing.faults import Faults

try:
    import fakeredis
    import lupa
except ImportError as error:
    raise ConfigurationError(
        "the stores in memory need fakeredis and lupa: install them with pip install 'redisjobs-pg[testing]'"
    ) from error

del lupa  # fakeredis runs the scripts with it

_NAMES = {text: name for name in scripts.names() for text in (scripts.load(name).sha, scripts.load(name).text)}


class _Hands:
    """Stands in fakeredis for the module `time`: a test's clock during one of its commands, else the machine's."""

    def __init__(self) -> None:
        self._here = threading.local()

    def time(self) -> float:
        clock: TurnedClock | None = getattr(self._here, "clock", None)
        return time.time() if clock is None else clock.time()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    @contextmanager
    def of(self, clock: TurnedClock) -> Generator[None]:
        """What this thread does in the block happens by this clock."""
        before = getattr(self._here, "clock", None)
        self._here.clock = clock
        try:
            yield
        finally:
            self._here.clock = before


_HANDS = _Hands()


def _give_hands() -> None:
    """Every module of fakeredis that asks for the time asks us from now on."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "fakeredis" and getattr(module, "time", None) is time:
            module.time = _HANDS  # type: ignore[attr-defined]


class FakeRedis:
    """One server in memory, and the ways to it. Other servers of fakeredis in this process keep their own time.

    Args:
        prefix: what every key begins with.
    """

    def __init__(self, clock: TurnedClock, faults: Faults, prefix: str) -> None:
        _give_hands()
        self.prefix = prefix
        self.keys = Keys(prefix)
        self._clock = clock
        self._faults = faults
        self._server = fakeredis.FakeServer()
        self.client = self._async_client()

    async def start(self) -> None:
        """Load the scripts, as a Redis that has been running for a while has them.

        Raises:
            ConfigurationError: this fakeredis does not go by our clock.
        """
        for name in scripts.names():
            await self.client.execute_command("SCRIPT LOAD", scripts.load(name).text)
        seconds, micros = await self.client.execute_command("TIME")
        if abs(int(seconds) + int(micros) / 1e6 - self._clock.time()) > 0.001:
            raise ConfigurationError(
                "this release of fakeredis takes the time from elsewhere than redisjobs knows: install fakeredis 2.41"
            )

    async def close(self) -> None:
        """Give the connections back; the data is gone with the last of them."""
        await self.client.aclose()

    async def flushall(self) -> None:
        """Everything is lost, as after a restart without persistence."""
        await self.client.execute_command("FLUSHALL")

    def broker(self) -> Broker:
        """For the event loop that runs here."""
        return Broker(self._async_client(), self._async_client(), self.prefix)

    def carrier(self) -> Carrier:
        """For the relay."""
        return _FakeCarrier(self._async_client(), self.prefix)

    def heart(self) -> Heart:
        """For the heartbeat's thread."""
        client: Any = fakeredis.FakeRedis(server=self._server, protocol=2)
        pool = client.connection_pool
        pool.connection_class = _clocked(pool.connection_class, self._clock)
        return _FakeHeart(client, self.prefix)

    async def next_due(self, queues: Sequence[str]) -> list[float]:
        """When the next job of each queue is due, in seconds since 1970; queues without one are left out."""
        found: list[float] = []
        for queue in queues:
            first = await self.client.execute_command("ZRANGE", self.keys.key(queue, "due"), 0, 0, "WITHSCORES")
            found += [float(first[1]) / 1000] if first else []
        return found

    async def next_look(self) -> list[float]:
        """When a limit or a rate lets somebody begin, or a permit lapses, likewise."""
        found: list[float] = []
        for name in ("look", "expiry"):
            first = await self.client.execute_command("ZRANGE", self.keys.key("-", name), 0, 0, "WITHSCORES")
            found += [float(first[1]) / 1000] if first else []
        return found

    async def held(self, queues: Sequence[str]) -> int:
        """How many deliveries workers hold, dead ones included."""
        count = 0
        for stream in [stream for queue in queues for stream in self.keys.streams(queue)]:
            if await self.client.execute_command("EXISTS", stream):
                count += int((await self.client.execute_command("XPENDING", stream, "workers"))["pending"])
        return count

    def _async_client(self) -> Any:
        client: Any = _Client(server=self._server, protocol=2)
        client.faults = self._faults
        pool = client.connection_pool
        pool.connection_class = _clocked_async(pool.connection_class, self._clock)
        return client


class _Client(fakeredis.FakeAsyncRedis):
    faults: Faults

    async def execute_command(self, *words: Any, **options: Any) -> Any:
        """A command; those that run our scripts go through the fault plan."""
        parent: Any = super()
        call = _NAMES.get(words[1], "") if words[0] in ("EVALSHA", "EVAL") else ""
        if not call:
            return await parent.execute_command(*words, **options)
        return await self.faults.through(call, lambda: parent.execute_command(*words, **options))


class _FakeCarrier(Carrier):
    async def info(self, section: str) -> dict[str, str]:
        """There is no INFO in fakeredis: it is always the same server, and never full."""
        return {}


class _FakeHeart(Heart):
    def __init__(self, redis: Any, prefix: str) -> None:
        self._redis = redis
        self._keys = Keys(prefix)


def _clocked_async(connection: Any, clock: TurnedClock) -> Any:
    """This class of connections, each of whose commands happens by this clock."""

    async def connect(self: Any) -> None:
        await connection._connect(self)  # noqa: SLF001 - where redis-py has its connections begin
        _turn(self._sock, clock)

    return type("ClockedAsyncConnection", (connection,), {"_connect": connect})


def _clocked(connection: Any, clock: TurnedClock) -> Any:
    """As `_clocked_async`, for a client of a thread."""

    def connect(self: Any) -> Any:
        return _turn(connection._connect(self), clock)  # noqa: SLF001 - likewise

    return type("ClockedConnection", (connection,), {"_connect": connect})


def _turn(sock: Any, clock: TurnedClock) -> Any:
    """A socket of fakeredis runs a command while it is sent."""
    sendall = sock.sendall

    def sendall_by_the_clock(data: Any) -> None:
        with _HANDS.of(clock):
            sendall(data)

    sock.sendall = sendall_by_the_clock
    return sock
