"""Writes of many runs in one commit: what is ready in one turn of the loop travels in one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.postgres import was_rolled_back
from redisjobs.errors import DatabaseUnavailable, RedisjobsError

Q = TypeVar("Q")
A = TypeVar("A")

MOST = 500
MOST_BYTES = 4 * 1024 * 1024
REPEATS = 10
"""How often a batch is sent again that Postgres rolled back for the sake of another transaction."""
BUSY_S = 20.0
"""How long a row may be locked by somebody else before its write is given up."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.2


class Busy:
    """The answer for a write whose row somebody else has locked: it is asked again, the others of its batch are not."""


BUSY = Busy()


@dataclass(slots=True)
class _Asked(Generic[Q, A]):
    question: Q
    future: asyncio.Future[A]
    since: float
    pause: float = field(default=FIRST_PAUSE_S)


class Writer(Generic[Q, A]):
    """Questions of one kind to the store, the next batch gathering while one is in flight. A lone one waits for none.

    A question that is refused is refused alone: a batch that fails as a whole is sent again in halves. One whose
    waiter was cancelled is not sent any more, unless it is on its way.

    Args:
        what: names it in errors.
        send: asks some at once; its answers stand in the order of the questions.
        key: no two questions with the same key travel together.
        size: bytes of a question.
        most: so many travel together at most.
    """

    def __init__(
        self,
        what: str,
        send: Callable[[Sequence[Q]], Awaitable[Sequence[A | Busy]]],
        key: Callable[[Q], Hashable],
        size: Callable[[Q], int] = lambda _: 0,
        *,
        most: int = MOST,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._what = what
        self._send = send
        self._key = key
        self._size = size
        self._most = most
        self._clock = clock
        self._waiting: list[_Asked[Q, A]] = []
        self._flight: asyncio.Task[None] | None = None
        self._called = False

    async def ask(self, question: Q) -> A:
        """The store's answer, committed.

        Raises:
            DatabaseUnavailable: no answer; whether it was written is not known.
            RedisjobsError: as the store refuses it.
        """
        loop = asyncio.get_running_loop()
        asked = _Asked[Q, A](question, loop.create_future(), self._clock.monotonic())
        self._add(asked)
        return await asked.future

    async def drained(self) -> None:
        """Return when nothing waits and nothing is in flight."""
        while self._called:
            await asyncio.wait([self._flight]) if self._flight is not None else await asyncio.sleep(0)

    def _add(self, asked: _Asked[Q, A]) -> None:
        self._waiting.append(asked)
        if not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._take_off)

    def _take_off(self) -> None:
        self._flight = asyncio.create_task(self._fly(), name=self._what)

    async def _fly(self) -> None:
        try:
            while batch := self._next_batch():
                await self._carry(batch)
        finally:
            self._flight, self._called = None, False

    def _next_batch(self) -> list[_Asked[Q, A]]:
        batch: list[_Asked[Q, A]] = []
        later: list[_Asked[Q, A]] = []
        keys: set[Hashable] = set()
        size = 0
        for asked in self._waiting:
            key = self._key(asked.question)
            if asked.future.done():
                continue
            if key in keys or len(batch) >= self._most or size > MOST_BYTES:
                later.append(asked)
                continue
            keys.add(key)
            size += self._size(asked.question)
            batch.append(asked)
        self._waiting = later
        return batch

    async def _carry(self, batch: list[_Asked[Q, A]]) -> None:
        try:
            answers = await self._repeated([asked.question for asked in batch])
        except DatabaseUnavailable as error:
            for asked in batch:
                _fail(asked, DatabaseUnavailable(str(error)), error)
        except RedisjobsError as error:
            if len(batch) == 1:
                _fail(batch[0], error)
                return
            half = len(batch) // 2
            await self._carry(batch[:half])
            await self._carry(batch[half:])
        except BaseException as error:
            for asked in batch:
                _fail(asked, error if isinstance(error, Exception) else DatabaseUnavailable(f"{self._what}: given up"))
            if not isinstance(error, Exception):
                raise
        else:
            for asked, answer in zip(batch, answers, strict=True):
                self._settle(asked, answer)

    async def _repeated(self, questions: list[Q]) -> Sequence[A | Busy]:
        pause = FIRST_PAUSE_S
        for _ in range(REPEATS):
            try:
                return await self._send(questions)
            except DatabaseUnavailable as error:
                if not was_rolled_back(error):
                    raise
            await self._clock.sleep(pause)
            pause = min(LONGEST_PAUSE_S, 2 * pause)
        return await self._send(questions)

    def _settle(self, asked: _Asked[Q, A], answer: A | Busy) -> None:
        if not isinstance(answer, Busy):
            if not asked.future.done():
                asked.future.set_result(answer)
        elif self._clock.monotonic() - asked.since > BUSY_S:
            why = f"{self._what}: another transaction has had the run's row locked for {BUSY_S:g} s"
            _fail(asked, DatabaseUnavailable(why))
        else:
            asyncio.get_running_loop().call_later(asked.pause, self._add, asked)
            asked.pause = min(LONGEST_PAUSE_S, 2 * asked.pause)


def _fail(asked: _Asked[Q, A], error: Exception, cause: Exception | None = None) -> None:
    if not asked.future.done():
        if cause is not None:
            error.__cause__ = cause
        asked.future.set_exception(error)
