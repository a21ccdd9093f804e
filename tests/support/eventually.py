"""Waiting for a condition instead of for a time: the one place where polling sleeps live.

await eventually(lambda: broker.depth() == 0, "the queue is empty")
eventually_now(lambda: worker.log_has("ready"), "the worker says that it is ready")
await always(lambda: ledger.starts(job) == 1, "the job started only once", lasting=2)
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar, overload

T = TypeVar("T")
Errors: TypeAlias = tuple[type[Exception], ...]

PAUSE = 0.01  # seconds between two looks


@overload
async def eventually(
    condition: Callable[[], Awaitable[T]], what: str, within: float = 10, *, despite: Errors = ...
) -> T: ...
@overload
async def eventually(condition: Callable[[], T], what: str, within: float = 10, *, despite: Errors = ...) -> T: ...
async def eventually(
    condition: Callable[[], object], what: str, within: float = 10, *, despite: Errors = (AssertionError,)
) -> object:
    """The first truthy answer of `condition`, which may be async.

    Args:
        what: the condition in words, for the message.
        within: seconds.
        despite: errors that mean "not yet", such as those of a store that is coming back.

    Raises:
        AssertionError: the condition did not come true in time; tells its last value or error.
    """
    watch = _Watch(what, within)
    while True:
        try:
            value = condition()
            if inspect.isawaitable(value):
                value = await value
            if value:
                return value
        except despite as error:
            value = error
        watch.saw(value)
        await asyncio.sleep(PAUSE)


def eventually_now(
    condition: Callable[[], T], what: str, within: float = 10, *, despite: Errors = (AssertionError,)
) -> T:
    """`eventually` for tests without a loop."""
    watch = _Watch(what, within)
    while True:
        seen: object
        try:
            if value := condition():
                return value
            seen = value
        except despite as error:
            seen = error
        watch.saw(seen)
        time.sleep(PAUSE)


async def always(condition: Callable[[], object | Awaitable[object]], what: str, lasting: float) -> None:
    """`condition` holds at every look for `lasting` seconds. For what must *not* happen.

    Raises:
        AssertionError: at the first look at which it does not.
    """
    end = time.monotonic() + lasting
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        assert value, f"it should have stayed so, but did not: {what} (value: {value!r})"
        if time.monotonic() > end:
            return
        await asyncio.sleep(PAUSE)


class _Watch:
    """The end of the wait, and what was last seen."""

    def __init__(self, what: str, within: float) -> None:
        self.what, self.within = what, within
        self.end = time.monotonic() + within

    def saw(self, value: object) -> None:
        if time.monotonic() > self.end:
            cause = value if isinstance(value, Exception) else None
            raise AssertionError(f"not within {self.within:g} s: {self.what} (last: {value!r})") from cause
