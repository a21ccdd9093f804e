"""Durable operations of a body that is called directly, outside of any worker: nothing is recorded."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TypeVar

from redisjobs.durable.engine import Refusing
from redisjobs.durable.values import StepOptions, Work

T = TypeVar("T")

_in_thread: ContextVar[bool] = ContextVar("redisjobs_detached_in_thread", default=False)


class Detached(Refusing):
    """Steps simply run, and sleeps sleep. What needs a run is refused.

    Args:
        job: its name.
    """

    def __init__(self, job: str) -> None:
        super().__init__(
            f"job {job!r} was called directly, outside of a worker, where nothing is recorded: enqueue it, "
            "or run it in a test with redisjobs.testing"
        )

    async def step(self, name: str, work: Work, options: StepOptions) -> Any:
        value = work()
        return await value if inspect.isawaitable(value) else value

    async def sleep(self, name: str, seconds: float) -> None:
        if _in_thread.get():
            time.sleep(max(0.0, seconds))  # noqa: ASYNC251 - there is no loop: `perform` drives this
        else:
            await asyncio.sleep(max(0.0, seconds))

    async def sleep_until(self, name: str, moment: datetime) -> None:
        await self.sleep(name, (moment - datetime.now(UTC)).total_seconds())

    async def gather(self, branches: Sequence[Awaitable[Any]], *, return_exceptions: bool) -> list[Any]:
        return list(await asyncio.gather(*branches, return_exceptions=return_exceptions))

    def perform(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        token = _in_thread.set(True)
        try:
            return super().perform(make)
        finally:
            _in_thread.reset(token)
