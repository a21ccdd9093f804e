"""Permits on their way back, and the word to those who waited for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.service import Service, backoff
from redisjobs.broker import GONE, Broker, Limiter, Woken
from redisjobs.errors import StoreUnavailable
from redisjobs.lane import Attempt
from redisjobs.logs import event

T = TypeVar("T")

MOST = 200
"""Attempts in one call."""
MOST_WAITING = 20_000
"""What is above it is not given back: it lapses with its lease, and a sweep finds it."""
TELL_S = 8.0
"""For so long somebody is told that he may come; then a sweep tells him again."""
SWEEP_S = 1.0
"""Between two sweeps of the whole fleet: rates go on by them."""

log = logging.getLogger("redisjobs.worker")


class Returns:
    """Gives back what the ended attempts of one worker held, and wakes who may begin for it, in whatever queue.

    Each call is repeated until Redis has answered. What is lost all the same lapses with its lease.

    Args:
        consumer: the worker.
        soon: called with a queue and the seconds after which a job of it comes.
    """

    def __init__(
        self,
        limiter: Limiter,
        broker: Broker,
        consumer: str,
        clock: Clock = SYSTEM_CLOCK,
        soon: Callable[[str, float], None] | None = None,
    ) -> None:
        self._limiter = limiter
        self._broker = broker
        self._consumer = consumer
        self._clock = clock
        self._soon = soon
        self._waiting: list[tuple[bytes, int]] = []
        self._flight: asyncio.Task[None] | None = None
        self._called = False
        self._empty = asyncio.Event()
        self._empty.set()
        self.told = 0
        """How many were told to come."""

    @property
    def busy(self) -> bool:
        """Whether something is on its way back."""
        return not self._empty.is_set()

    def add(self, attempt: Attempt) -> None:
        """Give back what an ended attempt may hold; that of all who end in this turn of the loop goes in one call."""
        permit, attempt.permit = attempt.permit, None
        if permit is None:
            return
        self._waiting.append((permit.ask.job_id, permit.ask.start))
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[0]
        if not self._called:
            self._called = True
            self._empty.clear()
            asyncio.get_running_loop().call_soon(self._take_off)

    async def drained(self) -> None:
        """Return when all was given back, and everybody told."""
        await self._empty.wait()

    def abandon(self) -> None:
        """Give nothing more back."""
        self._waiting.clear()
        if self._flight is not None:
            self._flight.cancel()

    async def sweep(self, every_ms: int) -> int:
        """Look for what was lost, once in so long for the whole fleet; answers how many are to come."""
        woken = await self._limiter.sweep(self._consumer, every_ms)
        await self._wake(woken)
        return len(woken)

    def _take_off(self) -> None:
        if self._flight is None:
            self._flight = asyncio.create_task(self._fly(), name="returns of permits")

    async def _fly(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                await self._wake(await self._release(batch, None))
        finally:
            self._flight = None
            self._called = False
            self._empty.set()

    async def _release(self, ended: list[tuple[bytes, int]], until: float | None) -> Sequence[Woken]:
        async def release() -> Sequence[Woken]:
            return await self._limiter.release(self._consumer, ended)

        return await self._answered("release", release, until) or ()

    async def _wake(self, woken: Sequence[Woken]) -> None:
        """Tell those who may begin; what was kept for jobs that are not there any more goes to others."""
        until = self._clock.monotonic() + TELL_S
        while woken:
            self.told += len(woken)
            by_queue: dict[str, list[tuple[bytes, int]]] = {}
            for each in woken:
                by_queue.setdefault(each.queue, []).append((each.job_id, each.delay_ms))
            gone: list[tuple[bytes, int]] = []
            for queue, jobs in by_queue.items():
                gone += [(job_id, GONE) for job_id in await self._tell(queue, jobs, until)]
            woken = await self._release(gone, until) if gone else ()

    async def _tell(self, queue: str, jobs: list[tuple[bytes, int]], until: float) -> list[bytes]:
        """Wake jobs of one queue; answers those of which it knows nothing."""

        async def wake() -> Sequence[str]:
            return await self._broker.wake(queue, jobs)

        words = await self._answered("wake", wake, until) or ()
        if self._soon is not None:
            for _, delay_ms in jobs:
                if delay_ms:
                    self._soon(queue, delay_ms / 1000)
        return [job_id for (job_id, _), word in zip(jobs, words, strict=False) if word == "gone"]

    async def _answered(self, what: str, call: Callable[[], Awaitable[T]], until: float | None) -> T | None:
        """Make a call until it is answered; None: its time is over, and a sweep sees to it."""
        failures = 0
        while True:
            try:
                return await call()
            except Exception as error:  # noqa: BLE001 - what is not given back is missed by others
                failures += 1
                pause = backoff(failures)
                level = logging.WARNING if isinstance(error, StoreUnavailable) else logging.ERROR
                event(log, level, "limits.failed", call=what, failures=failures, pause_s=pause,
                      error=f"{type(error).__name__}: {error}")  # fmt: skip
                if until is not None and self._clock.monotonic() + pause > until:
                    return None
                await self._clock.sleep(pause)


class Sweep(Service):
    """Has limits looked over, where a worker's app declares some.

    Args:
        limited: whether it does.
    """

    def __init__(self, returns: Returns, limited: Callable[[], bool], clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__("sweep of limits", SWEEP_S, clock)
        self._returns = returns
        self._limited = limited

    async def _round(self) -> int:
        return await self._returns.sweep(round(SWEEP_S * 900)) if self._limited() else 0
