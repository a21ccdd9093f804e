"""The strands of a run, its body and the branches of its gathers: once none can go on by itself, it is suspended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from contextvars import ContextVar
from typing import Any

from redisjobs.errors import StepFailed, Suspend
from redisjobs.runs.ends import Rewound, combined

_branch: ContextVar[asyncio.Task[Any] | None] = ContextVar("redisjobs_branch", default=None)
"""The task of the branch that runs here; a task that the body makes by itself is none."""


class Strands:
    """Which strands of a run move, and which are blocked.

    Attributes:
        suspended: nothing could go on; whoever asks for more is told so again.
    """

    def __init__(self) -> None:
        self.suspended: Suspend | None = None
        self._moving = 1
        self._blocked = 0
        self._halt = asyncio.Event()

    async def blocked(self, left: float | None, *, waits: bool) -> None:
        """This strand cannot go on for so long; None: not in this attempt. Returns when the time has come.

        Raises:
            Suspend: no other strand can go on either.
        """
        branch = _branch.get()
        if branch is None or branch is not asyncio.current_task():
            raise self._suspend(left, waits=waits, all_of_it=branch is None)
        loop = asyncio.get_running_loop()
        until = None if left is None else loop.time() + left
        self._moving -= 1
        self._blocked += 1
        self._look()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._halt.wait()
                raise Suspend(None if until is None else until - loop.time(), waits=waits)
        finally:
            self._blocked -= 1
            self._moving += 1

    async def gather(self, branches: Sequence[Awaitable[Any]], *, return_exceptions: bool) -> list[Any]:
        """The results of all branches."""
        if not branches:
            return []
        tasks = [asyncio.ensure_future(_as_branch(each)) for each in branches]
        open_ones = len(tasks)
        self._moving += open_ones - 1

        def ended(_: object) -> None:
            nonlocal open_ones
            open_ones -= 1
            if open_ones:  # the last one's place is taken by who gathers
                self._moving -= 1
                self._look()

        for task in tasks:
            task.add_done_callback(ended)
        try:
            await self._all_of(tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
        return self._results(tasks, return_exceptions=return_exceptions)

    async def _all_of(self, tasks: list[asyncio.Task[Any]]) -> None:
        """Wait for all; one that steers the job, or was told to stop, ends the others."""
        left = set(tasks)
        while left:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                error = None if task.cancelled() else task.exception()
                if error is not None and not isinstance(error, (Exception, Suspend, Rewound)):
                    raise error

    def _results(self, tasks: list[asyncio.Task[Any]], *, return_exceptions: bool) -> list[Any]:
        errors = [asyncio.CancelledError() if each.cancelled() else each.exception() for each in tasks]
        suspensions = [each for each in errors if isinstance(each, Suspend)]
        if suspensions:
            suspension = combined(suspensions)
            if _branch.get() is None:
                self.suspended = suspension
            raise suspension
        leaving = [each for each in errors if isinstance(each, Rewound)]
        if leaving:
            raise leaving[0]
        failed = [each for each in errors if each is not None]
        if failed and not return_exceptions:
            if isinstance(failed[0], StepFailed):
                failed[0].beside = tuple(failed[1:])
            raise failed[0]
        return [each.result() if error is None else error for each, error in zip(tasks, errors, strict=True)]

    def _suspend(self, left: float | None, *, waits: bool, all_of_it: bool) -> Suspend:
        suspension = Suspend(left, waits=waits)
        if all_of_it and self._moving == 1:
            self.suspended = suspension
        return suspension

    def _look(self) -> None:
        if self._moving == 0 and self._blocked:
            self.suspended = Suspend(0.0, waits=False)  # until it is known how long: what asks for more has caught it
            self._halt.set()


async def _as_branch(awaitable: Awaitable[Any]) -> Any:
    _branch.set(asyncio.current_task())
    return await awaitable
