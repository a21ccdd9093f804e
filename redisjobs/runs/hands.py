"""The thread of a body lends its hands: coroutines run in the loop, and the functions of its steps in the thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar, cast

T = TypeVar("T")


@dataclass(slots=True)
class _Order:
    """Something to be done in the thread."""

    work: Callable[[], Any]
    answer: asyncio.Future[tuple[Any, BaseException | None]]


@dataclass(slots=True)
class _End:
    """The coroutine has ended."""

    value: Any = None
    error: BaseException | None = None


class Hands:
    """Those of one thread, for the time of one coroutine.

    Args:
        loop: where the coroutine runs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._orders: SimpleQueue[_Order | _End] = SimpleQueue()
        self._task: asyncio.Task[None] | None = None

    def perform(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the coroutine answers, or raises; for the thread."""
        variables = copy_context()
        self._loop.call_soon_threadsafe(self._begin, make, variables)
        while isinstance(order := self._orders.get(), _Order):
            outcome = _done(order.work)
            self._loop.call_soon_threadsafe(_resolve, order.answer, outcome)
            del order, outcome
        if order.error is not None:
            try:
                raise order.error
            finally:
                del order  # the frame and the error must not hold each other
        return cast("T", order.value)

    async def call(self, work: Callable[[], Any]) -> Any:
        """Have the thread do something; for the coroutine."""
        answer: asyncio.Future[tuple[Any, BaseException | None]] = self._loop.create_future()
        self._orders.put(_Order(work, answer))
        value, error = await answer
        if error is not None:
            raise error
        return value

    def _begin(self, make: Callable[[], Coroutine[Any, Any, Any]], variables: Any) -> None:
        self._task = self._loop.create_task(self._run(make), context=variables)

    async def _run(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        HANDS.set(self)
        try:
            end = _End(await make())
        except BaseException as error:  # noqa: BLE001 - it is the thread's, whatever it is
            end = _End(error=error)
        self._orders.put(end)


HANDS: ContextVar[Hands | None] = ContextVar("redisjobs_hands", default=None)
"""Those that run the functions of steps here; None: a thread of their own does."""


def _done(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:  # noqa: BLE001 - it is the coroutine's, whatever it is
        return None, error


def _resolve(
    answer: asyncio.Future[tuple[Any, BaseException | None]], outcome: tuple[Any, BaseException | None]
) -> None:
    if not answer.done():
        answer.set_result(outcome)
