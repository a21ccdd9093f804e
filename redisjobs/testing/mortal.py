"""A worker that can die as a killed process does: at once, with all that it holds, and without a word to Redis."""

from __future__ import annotations

import asyncio

from redisjobs.lane import Attempt
from redisjobs.worker import Worker

LIFESPAN_S = 5.0
"""What a killed process leaves open is closed here: the test's process lives on."""


class MortalWorker(Worker):
    """A worker that is only ticked, and may die."""

    async def die(self) -> None:
        """Run nothing more and say nothing more. What it held stays its own in Redis, until its leases have lapsed."""
        if not self._made:
            return
        tasks: list[asyncio.Task[None]] = []
        for serving in self._servings.values():
            serving.lane.send = serving.lane.give_back = _say_nothing
            serving.batcher.abandon()
            tasks += [attempt.task for attempt in serving.lane.held if attempt.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)
        self._release()
        await self._lifespan.stop(LIFESPAN_S)
        await self._heartbeat.stopped(self.clock)
        await self._broker.close()

    def running(self) -> list[str]:
        """The names of the jobs whose bodies run."""
        return sorted(attempt.job for serving in self._servings.values() for attempt in serving.lane.running_attempts())


def _say_nothing(attempt: Attempt) -> None:
    del attempt
