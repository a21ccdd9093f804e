"""Outcomes on their way to Redis: whatever is ready in one turn of the loop travels in one call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.service import backoff
from redisjobs.broker import Broker, Finish
from redisjobs.errors import RedisjobsError, StoreUnavailable
from redisjobs.lane import Attempt, Lane
from redisjobs.logs import event

MOST = 500
MOST_BYTES = 4 * 1024 * 1024
TELL_EVERY_S = 0.05
"""The relay is told of new outcomes at most so often."""

log = logging.getLogger("redisjobs.worker")


class Batcher:
    """Sends the finishes of one lane, the next batch gathering while one is in flight.

    A batch is repeated until Redis has answered: a finish is safe to repeat, and only its answer frees what the
    lane holds. So an outage bounds memory, and loses no outcome.
    """

    def __init__(self, broker: Broker, lane: Lane, clock: Clock = SYSTEM_CLOCK) -> None:
        self._broker = broker
        self._lane = lane
        self._clock = clock
        self._waiting: list[Attempt] = []
        self._flight: asyncio.Task[None] | None = None
        self._called = False
        self._empty = asyncio.Event()
        self._empty.set()
        self._news = False
        self._telling: asyncio.Task[None] | None = None

    def add(self, attempt: Attempt) -> None:
        """Take an attempt whose finish is set; it goes out with all that ends in this turn of the loop."""
        self._waiting.append(attempt)
        if not self._called:
            self._called = True
            self._empty.clear()
            asyncio.get_running_loop().call_soon(self._take_off)

    async def drained(self) -> None:
        """Return when every finish was answered, and the relay knows of it."""
        await self._empty.wait()
        if self._news:
            await self._tell()

    def abandon(self) -> None:
        """Send nothing more: what is unanswered lapses with its lease."""
        for task in (self._flight, self._telling):
            if task is not None:
                task.cancel()

    def _take_off(self) -> None:
        if self._flight is None:
            self._flight = asyncio.create_task(self._fly(), name=f"finishes of {self._lane.queue}")

    async def _fly(self) -> None:
        try:
            while self._waiting:
                batch = self._next_batch()
                answers = await self._send(batch)
                for attempt, answer in zip(batch, answers, strict=True):
                    self._lane.forget(attempt, answer)
                    if answer in ("lost", "gone"):
                        _log_lost(attempt, answer)
                self._announce()
        finally:
            self._flight = None
            self._called = False
            self._empty.set()

    def _announce(self) -> None:
        self._news = True
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell_and_pause(), name=f"news of {self._lane.queue}")

    async def _tell_and_pause(self) -> None:
        try:
            while self._news:
                await self._tell()
                await self._clock.sleep(TELL_EVERY_S)
        finally:
            self._telling = None

    async def _tell(self) -> None:
        self._news = False
        try:
            await self._broker.mark_dirty([self._lane.queue])
        except RedisjobsError as error:  # the relay looks by itself too, only later
            event(log, logging.DEBUG, "worker.news_failed", queue=self._lane.queue, error=str(error))

    def _next_batch(self) -> list[Attempt]:
        count, size = 0, 0
        for attempt in self._waiting[:MOST]:
            size += len(_finish_of(attempt).record)
            if count and size > MOST_BYTES:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    async def _send(self, batch: list[Attempt]) -> Sequence[str]:
        finishes = [_finish_of(attempt) for attempt in batch]
        failures = 0
        while True:
            try:
                return await self._broker.finish(self._lane.queue, self._lane.consumer, finishes)
            except Exception as error:  # noqa: BLE001 - an outcome is never dropped, whatever went wrong
                failures += 1
                pause = backoff(failures)
                level = logging.WARNING if isinstance(error, StoreUnavailable) else logging.ERROR
                event(
                    log, level, "worker.finish_failed", queue=self._lane.queue, outcomes=len(batch),
                    failures=failures, pause_s=pause, error=f"{type(error).__name__}: {error}",
                )  # fmt: skip
                await self._clock.sleep(pause)


def _finish_of(attempt: Attempt) -> Finish:
    if attempt.finish is None:
        raise AssertionError("an attempt goes to the batcher with its finish")
    return attempt.finish


def _log_lost(attempt: Attempt, answer: str) -> None:
    outcome = _finish_of(attempt).word
    event(log, logging.WARNING, "attempt.lost", **attempt.told(), answer=answer, outcome=outcome)
