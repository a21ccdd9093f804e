"""What workers do for their queues beside running jobs: start what is due, take over what was left, find new queues."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Callable, Sequence

from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.service import Service
from redisjobs.broker import Broker
from redisjobs.lane import Attempt, Lane

LOOK_S = 1.0
"""A promoter looks at least so often: for jobs that others made due, and for cancels."""
AT_ONCE = 1000
QUEUES_S = 5.0


class Promoter(Service):
    """Moves due jobs to their stream at the time of the next one, and cancels running bodies.

    Args:
        cancel: ends a running attempt whose cancel was asked for.
    """

    def __init__(
        self, broker: Broker, lane: Lane, cancel: Callable[[Attempt], None], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(f"promoter of {lane.queue}", LOOK_S, clock)
        self._broker = broker
        self._lane = lane
        self._cancel = cancel
        self._next_due_s = LOOK_S
        self.waiting = 0
        """Entries that no worker had read at the last look."""

    def expect(self, delay: float) -> None:
        """A job of this worker's own is due in so many seconds."""
        if delay < LOOK_S and self.state == "running":
            asyncio.get_running_loop().call_later(delay, self.wake)

    async def _round(self) -> int:
        promoted = await self._broker.promote(self._lane.queue, AT_ONCE)
        if promoted.cancelled:
            asked_for = set(promoted.cancelled)
            for attempt in self._lane.running_attempts():
                if attempt.delivery.job_id in asked_for:
                    self._cancel(attempt)
        self.waiting = promoted.waiting
        due = promoted.next_due_ms
        self._next_due_s = LOOK_S if due is None else min(LOOK_S, max(due, 1) / 1000)
        return promoted.moved

    def _pause(self, did: int) -> float:
        return 0.0 if did >= AT_ONCE else self._next_due_s


class Reclaimer(Service):
    """Takes over deliveries whose lease has ended, for free slots only; Redis sees to it that few look in vain.

    Args:
        begin: starts an attempt.
        max_losses: lost leases while running after which a job is a dead letter.
    """

    def __init__(
        self, broker: Broker, lane: Lane, begin: Callable[[Attempt], None], max_losses: int, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(f"reclaimer of {lane.queue}", lane.lease / 3, clock)
        self._broker = broker
        self._lane = lane
        self._begin = begin
        self._max_losses = max_losses
        self._asked = 0

    async def _round(self) -> int:
        lane = self._lane
        async with lane.asking:
            with lane.reserve(lane.slots) as self._asked:
                if not self._asked:
                    return 0
                asked_at = self.clock.monotonic()
                try:
                    deliveries = await self._broker.reclaim(
                        lane.queue, lane.consumer, self._asked, lease_ms=lane.lease_ms, max_losses=self._max_losses
                    )
                except BaseException:
                    lane.unsure = True  # the reader recalls what this may have brought
                    raise
            for delivery in deliveries:
                if self.state == "draining":
                    lane.hand_back(delivery, asked_at)
                else:
                    self._begin(lane.hold(delivery, asked_at))
        return len(deliveries)

    def _pause(self, did: int) -> float:
        return 0.0 if did and did >= self._asked else self.interval


class QueueFinder(Service):
    """Finds the queues that the worker's globs name.

    Args:
        found: called with each name that matches, again and again.
    """

    def __init__(
        self, broker: Broker, globs: Sequence[str], found: Callable[[str], None], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__("finder of queues", QUEUES_S, clock)
        self._broker = broker
        self._globs = globs
        self._found = found

    async def _round(self) -> int:
        names = [
            name
            for name in sorted(await self._broker.queues())
            if any(fnmatch.fnmatchcase(name, glob) for glob in self._globs)
        ]
        for name in names:
            self._found(name)
        return len(names)
