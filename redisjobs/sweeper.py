"""The deadlines of all attempts with one timer: a timer of its own for each job costs more than the job."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from redisjobs.lane import Attempt

FINEST_S = 0.005


class Sweeper:
    """Calls `passed` for each attempt whose deadline has passed, once; a look at all of them costs microseconds.

    Args:
        passed: may set the next deadline by `watch`.
    """

    def __init__(self, passed: Callable[[Attempt], None]) -> None:
        self._passed = passed
        self._watched: set[Attempt] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = math.inf

    def watch(self, attempt: Attempt, deadline: float) -> None:
        """Set an attempt's deadline, in monotonic seconds."""
        attempt.deadline = deadline
        self._watched.add(attempt)
        if deadline < self._rings_at:
            self._ring(deadline)

    def forget(self, attempt: Attempt) -> None:
        """Its deadline means nothing any more."""
        attempt.deadline = None
        self._watched.discard(attempt)

    def stop(self) -> None:
        """Give the timer back."""
        self._watched.clear()
        self._rings_at = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = deadline
        wait = max(FINEST_S, deadline - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(wait, self._sweep)

    def _sweep(self) -> None:
        self._timer, self._rings_at = None, math.inf
        now = time.monotonic()
        for attempt in [each for each in self._watched if each.deadline is not None and each.deadline <= now]:
            self.forget(attempt)
            self._passed(attempt)
        if self._watched:
            next_one = min(each.deadline for each in self._watched if each.deadline is not None)
            if next_one < self._rings_at:
                self._ring(next_one)
