"""How long a trial waits on a machine that is busy with other things: the time that it would wait alone, stretched."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

AT_REST_S = 15.0
"""On a machine with a core to spare."""
AUDIT_S = 95.0
"""What Redis lost without losing all is found by the audit: a walk each minute, of rows that are half a minute old."""
MOST = 8.0
LOOK_S = 0.1


def load() -> float:
    """How many processes want each core, of the last minute; at least 1. So much longer does everything take."""
    return min(MOST, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


class Patience:
    """A deadline that moves on while the machine is busy: each second counts for as much as the load leaves of it."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._looked = time.monotonic()

    def is_over(self) -> bool:
        """Look at least every second or so."""
        now = time.monotonic()
        self._left -= (now - self._looked) / load()
        self._looked = now
        return self._left < 0

    async def until(self, condition: Callable[[], Awaitable[object]]) -> bool:
        """Whether it came true before patience was over."""
        while not await condition():
            if self.is_over():
                return False
            await asyncio.sleep(LOOK_S)
        return True
