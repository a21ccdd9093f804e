"""The time of this process: how long something took, and waiting. It never decides a due time or a lease."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the parts of redisjobs ask of time; tests turn the hands themselves."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; they only grow."""
        ...

    def now(self) -> datetime:
        """The wall clock in UTC, for people to read and nothing else."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that time."""
        ...

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Return True once the event is set, False when the time passed first."""
        ...


class SystemClock:
    """The clock of the machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        if event.is_set():
            return True
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return event.is_set()
        return True


SYSTEM_CLOCK = SystemClock()
