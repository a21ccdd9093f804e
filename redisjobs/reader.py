"""The reader of one queue: takes as many jobs as there are free slots, and waits where there are none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.service import Service
from redisjobs.broker import Broker, Delivery
from redisjobs.lane import Attempt, Lane
from redisjobs.logs import event

BLOCK_MS = 5000
PAUSED_S = 1.0
CANCEL_AGAIN_S = 0.1
READ_SHARE = 3
"""A read asks for this part of the slots: while Redis hands out one part, the bodies of another run."""
SMALLEST_READ = 16
"""Below this, calls would cost more than working side by side gains."""
LOW_FIRST_EVERY = 10
"""Each so many reads begin at the low band, so that it moves while the high one is busy."""

log = logging.getLogger("redisjobs.worker")


class Reader(Service):
    """Reads one queue; a round is one read, and where it brings nothing, one wait.

    What a call with an unknown end may have brought is recalled before the next one, so nothing lies unseen
    until its lease ends.

    Args:
        begin: starts an attempt.
        block_ms: the longest wait.
    """

    def __init__(
        self,
        broker: Broker,
        lane: Lane,
        begin: Callable[[Attempt], None],
        *,
        clock: Clock = SYSTEM_CLOCK,
        block_ms: int = BLOCK_MS,
    ) -> None:
        super().__init__(f"reader of {lane.queue}", 0.0, clock)
        self._broker = broker
        self._lane = lane
        self._begin = begin
        self._block_ms = block_ms
        self._reads = 0
        self._most = max(SMALLEST_READ, -(-lane.slots // READ_SHARE))
        self._paused = False
        self._open_wait = False
        self._waiting: asyncio.Task[int] | None = None
        self.dry = False
        """The last read found the queue empty."""

    async def look(self) -> int:
        """Take what is there for the free slots, without waiting; answers how many."""
        try:
            if self._lane.unsure or self._open_wait:
                await self._recall()
            async with self._lane.asking:
                with self._lane.reserve(self._most) as room:
                    return await self._take(room) if room else 0
        except Exception:
            self._lane.unsure = True
            raise

    async def _round(self) -> int:
        try:
            if self._lane.free <= 0:
                await self._freed()
                return 0
            asked, took = min(self._lane.free, self._most), await self.look()
            if self._paused:
                await self.clock.wait(self._awake, PAUSED_S)
            elif took < asked and self._lane.free > 0 and self.state == "running":
                took += await self._or_cut_off(self._wait())
            return took
        except Exception:
            self._lane.unsure = True
            raise

    async def _freed(self) -> None:
        self._lane.freed.clear()
        if self.state == "running":
            await self._lane.freed.wait()

    async def _take(self, room: int) -> int:
        self._reads += 1
        asked_at = self.clock.monotonic()
        taken = await self._broker.take(
            self._lane.queue,
            self._lane.consumer,
            room,
            lease_ms=self._lane.lease_ms,
            low_first=self._reads % LOW_FIRST_EVERY == 0,
        )
        self._paused = taken.paused
        self.dry = not taken.deliveries
        self._start(taken.deliveries, asked_at)
        return len(taken.deliveries)

    async def _wait(self) -> int:
        lane = self._lane
        # From here on an entry may be ours that nobody has seen: whoever is cut off must recall it.
        self._open_wait = True
        entries = await self._broker.wait(lane.queue, lane.consumer, self._block_ms)
        if not entries:
            self._open_wait = False
            return 0
        async with lane.asking:
            with lane.reserve(len(entries)) as room:
                known, asked_at = lane.tokens(), self.clock.monotonic()
                taken = await self._broker.begin(lane.queue, lane.consumer, entries, lease_ms=lane.lease_ms, room=room)
            self._open_wait = False
            self._paused, self.dry = taken.paused, False
            # an entry comes again that this worker has begun, where a group was lost or it reclaimed what it had read
            # itself, and it may have ended by now: that is a repeat, not a start
            self._start(lane.unheard_of(taken.deliveries, known), asked_at)
        return len(taken.deliveries)

    async def _recall(self) -> None:
        lane = self._lane
        async with lane.asking:
            known, asked_at = lane.tokens(), self.clock.monotonic()
            deliveries = await self._broker.recall(lane.queue, lane.consumer, lease_ms=lane.lease_ms)
            lane.unsure = self._open_wait = False
            unheard_of = lane.unheard_of(deliveries, known)
            self._start(unheard_of, asked_at)
        if unheard_of:
            event(log, logging.INFO, "reader.recalled", queue=lane.queue, jobs=len(unheard_of))

    def _start(self, deliveries: list[Delivery], asked_at: float) -> None:
        """Begin what came; what came too late or beyond the slots goes back at once, uncounted."""
        room = self._lane.slots - self._lane.running
        for delivery in deliveries:
            if room > 0 and self.state != "draining":
                room -= 1
                self._begin(self._lane.hold(delivery, asked_at))
            else:
                self._lane.hand_back(delivery, asked_at)

    async def _or_cut_off(self, wait: Coroutine[None, None, int]) -> int:
        """Await something that `stop` may cut off."""
        self._waiting = asyncio.create_task(wait)
        try:
            await asyncio.wait({self._waiting})
            return 0 if self._waiting.cancelled() else self._waiting.result()
        finally:
            self._waiting.cancel()
            self._waiting = None

    async def _cut_off(self) -> None:
        """End the wait; a client that is just connecting may swallow a cancel, so ask until it has ended."""
        while (waiting := self._waiting) is not None and not waiting.done():
            waiting.cancel()
            await asyncio.wait({waiting}, timeout=CANCEL_AGAIN_S)

    def _pause(self, did: int) -> float:
        return 0.0

    async def _close(self) -> None:
        self._lane.freed.set()
        await self._cut_off()
        await super()._close()
        if self._lane.unsure or self._open_wait:
            try:
                await self._recall()
            except Exception as error:  # noqa: BLE001 - what is not recalled lapses with its lease
                event(log, logging.WARNING, "reader.recall_failed", queue=self._lane.queue, error=str(error))
