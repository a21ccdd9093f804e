"""The one loop for everything that ticks, and the one way to start and stop whatever lives long."""

from __future__ import annotations

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from typing import Literal, TypeAlias

from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.errors import RedisjobsError, StoreUnavailable
from redisjobs.logs import event

State: TypeAlias = Literal["idle", "running", "draining", "stopped"]

FIRST_BACKOFF_S = 0.05
LONGEST_BACKOFF_S = 2.0
LAST_CHANCE_S = 1.0
"""How long a round that was cut off may take to answer its cancellation."""

log = logging.getLogger("redisjobs.service")


def backoff(failures: int) -> float:
    """Seconds to wait after so many failures in a row (from 1): doubling, capped, half of it random."""
    longest: float = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(failures - 1, 16))
    return longest * random.uniform(0.5, 1.0)


class Part(ABC):
    """Something long-lived with a state: started and stopped once, however often it is asked.

    A subclass says what opening and closing mean. `stop` returns when the closing has really ended; stops at
    the same time join it, and each may shorten its deadline. After `stop` it can be started again.
    """

    def __init__(self, name: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name = name
        self.clock = clock
        self.state: State = "idle"
        self._ends_at: float | None = None
        self._hurried = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None

    @property
    def works(self) -> bool:
        """It runs, and does what it is for."""
        return self.state == "running"

    @property
    def last_turn(self) -> float | None:
        """When a round of it ended last, well or not, in monotonic seconds; None: it has no rounds."""
        return None

    async def start(self) -> None:
        """Begin to work. A second call changes nothing.

        Raises:
            RedisjobsError: while it is draining; wait for `stop` to return first.
        """
        if self.state == "running":
            return
        if self.state == "draining":
            raise RedisjobsError(f"{self.name} is draining: wait for its stop() to return, then start it again")
        self.state = "running"
        self._ends_at = None
        self._hurried.clear()
        try:
            await self._open()
        except BaseException:
            self.state = "stopped"
            self._release()
            raise

    async def stop(self, deadline: float | None = None) -> None:
        """Take no more work, and return when what was in flight has ended.

        Args:
            deadline: seconds from now after which what is still in flight is abandoned; None: no limit.
        """
        if self.state in ("idle", "stopped"):
            self.state = "stopped"
            return
        if deadline is not None:
            self._shorten(self.clock.monotonic() + deadline)
        if self._ending is None:
            self.state = "draining"
            self._ending = asyncio.create_task(self._end(), name=f"{self.name}: stop")
        await asyncio.shield(self._ending)

    def _shorten(self, ends_at: float) -> None:
        if self._ends_at is None or ends_at < self._ends_at:
            self._ends_at = ends_at
            self._hurried.set()

    async def _end(self) -> None:
        closing = asyncio.create_task(self._close(), name=f"{self.name}: close")
        try:
            if not await self._ended(closing):
                event(log, logging.WARNING, "drain-abandoned", part=self.name, remedy=self._remedy())
                self._abandon()
                closing.cancel()
                await asyncio.wait({closing}, timeout=LAST_CHANCE_S)
            if closing.done() and not closing.cancelled() and (error := closing.exception()):
                event(log, logging.ERROR, "service.stop_failed", part=self.name, exc_info=error)
        finally:
            self.state = "stopped"
            self._ending = None
            self._release()

    async def _ended(self, closing: asyncio.Task[None]) -> bool:
        """Wait for the closing, under a deadline that may come and get shorter meanwhile."""
        closing.add_done_callback(lambda _: self._hurried.set())
        while not closing.done():
            self._hurried.clear()
            if self._ends_at is None:
                await self._hurried.wait()
            elif not await self.clock.wait(self._hurried, max(0.0, self._ends_at - self.clock.monotonic())):
                break
        return closing.done()

    @abstractmethod
    async def _open(self) -> None:
        """Begin; when it raises, the part is stopped."""

    @abstractmethod
    async def _close(self) -> None:
        """Return when what is in flight has ended. Cancelled when the deadline passes."""

    def _abandon(self) -> None:
        """The deadline has passed: let go of what is in flight."""

    def _release(self) -> None:
        """Give back every hook; called at the end of each stop, in any case."""

    def _remedy(self) -> str:
        return "give stop() a longer deadline, or look for what hangs"


class Service(Part):
    """A part that works in rounds.

    Rounds never overlap, also when `tick` is called from outside. A round that raises is logged, and the next
    one comes after a backoff: no error ends the loop.

    Args:
        interval: seconds from the end of a round to the next, at the latest; `wake` calls it earlier, save after a
            failure: callers must not turn a store that is away into a tight loop.
    """

    def __init__(self, name: str, interval: float, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(name, clock)
        self.interval = interval
        self.failures = 0
        self.last_round: float | None = None
        self._turned_at = 0.0
        self._turn = asyncio.Lock()
        self._awake, self._closing = asyncio.Event(), asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    @abstractmethod
    async def _round(self) -> int:
        """One bounded round of work; answers how much it did."""

    async def tick(self) -> int:
        """Do one bounded round, after the one in flight if there is one; answers how much it did."""
        async with self._turn:
            did = await self._round()
        self.last_round = self.clock.monotonic()
        return did

    @property
    def works(self) -> bool:
        """It runs, and its last round succeeded."""
        return self.state == "running" and self.last_round is not None and not self.failures

    @property
    def last_turn(self) -> float | None:
        """When its last round ended, well or not; before the first, when it started."""
        return max(self._turned_at, self.last_round or 0.0) or None

    def wake(self) -> None:
        """Ask for the next round now."""
        self._awake.set()

    def _pause(self, did: int) -> float:
        """Seconds until the next round, after one that did so much; 0: go on at once."""
        return self.interval

    async def _open(self) -> None:
        self._awake.clear()
        self._closing.clear()
        self._turned_at = self.clock.monotonic()
        self._loop = asyncio.create_task(self._run(), name=self.name)

    async def _close(self) -> None:
        self._closing.set()
        self.wake()
        if self._loop is not None:
            await asyncio.wait({self._loop})

    def _abandon(self) -> None:
        if self._loop is not None:
            self._loop.cancel()

    def _release(self) -> None:
        self._loop = None

    async def _run(self) -> None:
        while self.state == "running":
            self._awake.clear()
            pause = await self._guarded()
            if pause > 0:
                await self.clock.wait(self._closing if self.failures else self._awake, pause)
            else:
                await asyncio.sleep(0)

    async def _guarded(self) -> float:
        try:
            did = await self.tick()
        except Exception as error:  # noqa: BLE001 - no error of a round may end the loop
            self.failures += 1
            self._turned_at = self.clock.monotonic()
            pause = backoff(self.failures)
            level = logging.WARNING if isinstance(error, StoreUnavailable) else logging.ERROR
            trace = None if isinstance(error, RedisjobsError) else error
            event(log, level, "service.round_failed", part=self.name, error=f"{type(error).__name__}: {error}",
                  failures=self.failures, pause_s=pause, exc_info=trace)  # fmt: skip
            return pause
        self.failures = 0
        return self._pause(did)
