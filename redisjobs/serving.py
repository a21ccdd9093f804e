"""Everything that a worker has for one queue, started and stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from redisjobs.base.clock import Clock
from redisjobs.batcher import Batcher
from redisjobs.broker import Broker
from redisjobs.lane import Attempt, Lane
from redisjobs.outcome import Ended
from redisjobs.reader import BLOCK_MS, Reader
from redisjobs.runner import Runner
from redisjobs.upkeep import Promoter, Reclaimer

ACCEPT_S = 5.0
"""How long a call to Redis in flight may keep a drain from its second phase."""


class Serving:
    """One queue: its lane, and who fills and empties it."""

    def __init__(
        self,
        broker: Broker,
        runner: Runner,
        lane: Lane,
        *,
        max_losses: int,
        clock: Clock,
        block_ms: int = BLOCK_MS,
    ) -> None:
        begin: Callable[[Attempt], None] = runner.begin
        self.lane = lane
        self._runner = runner
        self.batcher = Batcher(broker, lane, clock)
        self.reader = Reader(broker, lane, begin, clock=clock, block_ms=block_ms)
        self.promoter = Promoter(broker, lane, lambda attempt: runner.cancel(attempt, Ended.CANCELLED), clock)
        self.reclaimer = Reclaimer(broker, lane, begin, max_losses, clock)
        lane.send = self.batcher.add
        lane.on_delay = self.promoter.expect

    async def start(self) -> None:
        """Begin to take jobs."""
        for part in (self.promoter, self.reclaimer, self.reader):
            await part.start()

    async def stop_taking(self) -> None:
        """Take nothing more; return when nothing can come any more."""
        await asyncio.gather(self.reader.stop(ACCEPT_S), self.reclaimer.stop(ACCEPT_S))

    async def close(self) -> None:
        """Stop the rest, once the lane is empty or given up."""
        self.batcher.abandon()
        await self.promoter.stop(ACCEPT_S)

    async def look(self) -> None:
        """One bounded round: what is due, what was left, what waits."""
        await self.promoter.tick()
        await self.reclaimer.tick()
        await self.reader.look()

    async def quiet(self) -> None:
        """Return when no body runs and every finish was answered."""
        await asyncio.sleep(0)  # who was begun just now may be one of a batch
        if self.lane.gathered:
            await self._fill_batches()
        self.lane.hurries = True  # who comes late, from a line of limits, does not wait for more
        try:
            await self._until_nothing_is_held()
        finally:
            self.lane.hurries = False

    async def _until_nothing_is_held(self) -> None:
        while self.lane.held:
            tasks = [attempt.task for attempt in self.lane.held if attempt.task is not None]
            if tasks:
                await asyncio.wait(tasks)
            await self.batcher.drained()

    async def _fill_batches(self) -> None:
        """Take what there is for the batches that gather, and have them run: no round waits for what may come."""
        took = await self.reader.look()
        while took:
            await asyncio.sleep(0)  # those begin to gather, and leave their slots
            took = await self.reader.look()
        self._runner.flush(self.lane)

    async def is_done(self) -> bool:
        """Nothing waits, is due or runs here; a batch that gathers runs, where nothing more can come."""
        if self.lane.gathered and self.reader.dry:
            self._runner.flush(self.lane)
        if self.lane.held or not self.reader.dry:
            return False
        moved = await self.promoter.tick()
        return not moved and not self.lane.held and self.reader.dry
