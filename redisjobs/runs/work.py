"""Runs the functions of steps and undos: async ones in the loop, plain ones in a thread."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from redisjobs.base.threads import Threads
from redisjobs.runs.hands import HANDS


async def perform(work: Callable[[], Any], threads: Threads, *, is_async: bool, timeout: float | None = None) -> Any:
    """What a function answers.

    Args:
        work: calls it.
        is_async: whether it is an async function; a plain one runs in the body's own thread, if the body has one.
        timeout: seconds, for an async one.

    Raises:
        TimeoutError: it was cancelled at its timeout; `TriedTooLong` where it is ours and not its own.
    """
    if is_async:
        return await _timed(work(), timeout)
    hands = HANDS.get()
    value = await (_in_thread(work, threads) if hands is None else hands.call(work))
    return await value if inspect.isawaitable(value) else value


class TriedTooLong(TimeoutError):
    """A try ran past the timeout of its step."""


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it only makes a coroutine."""
    while isinstance(function, functools.partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType]  # of whatever function
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def _timed(coroutine: Any, timeout: float | None) -> Any:
    if timeout is None:
        return await coroutine
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await coroutine
    except TimeoutError as error:
        if limit.expired():
            raise TriedTooLong(f"it ran past its timeout ({timeout:g} s)") from error
        raise


async def _in_thread(work: Callable[[], Any], threads: Threads) -> Any:
    """In a thread, which is waited for even if this is cancelled: what it does must not go on behind its run's end."""
    variables = copy_context()
    running = asyncio.ensure_future(threads.call(lambda: variables.run(work)))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if not running.cancelled():
            await asyncio.wait({running})
            if not running.cancelled():
                running.exception()  # nobody asks any more
        raise
