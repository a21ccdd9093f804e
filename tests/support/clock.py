"""A clock whose hands a test turns."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any


class FakeClock:
    """Stands still until `advance` is called."""

    def __init__(self) -> None:
        self._seconds = 1000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def monotonic(self) -> float:
        return self._seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._seconds)

    async def sleep(self, seconds: float) -> None:
        await self._sleeper(seconds)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        waiting: asyncio.Future[Any] = asyncio.ensure_future(event.wait())
        sleeper: asyncio.Future[Any] = self._sleeper(seconds)
        try:
            await asyncio.wait({waiting, sleeper}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeper.cancel()
        return event.is_set()

    async def advance(self, seconds: float) -> None:
        """Turn the hands forward, and let run whoever waited for a moment on the way, in order."""
        target = self._seconds + seconds
        await settle()
        while due := [pair for pair in self._sleepers if pair[0] <= target]:
            first = min(due, key=lambda pair: pair[0])
            self._sleepers.remove(first)
            self._seconds = max(self._seconds, first[0])
            if not first[1].done():
                first[1].set_result(None)
            await settle()
        self._seconds = target

    def _sleeper(self, seconds: float) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._seconds + seconds, future))
        return future


async def settle(turns: int = 20) -> None:
    """Let everything run that can run without the time moving."""
    for _ in range(turns):
        await asyncio.sleep(0)
