"""Hands events to the runs that wait for them. Any relay does it, one at a time; a busy sender pays no NOTIFY."""

from __future__ import annotations

from redisjobs.base import statements
from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.postgres import Database
from redisjobs.dozing import BUSY_WAKES, DOZE_S
from redisjobs.leases import Leases

_NAMES = ("deliver", "fall_asleep", "wake_up", "clean_events")
statements.load("deliverer").require(*_NAMES)

EVENTS_AT_ONCE = 1000
CLEANED_AT_ONCE = 10_000


class Deliverer:
    """The events' part of a relay's round. As with a queue: asleep until it is called, polling while much is sent.

    Args:
        retention: seconds for which an event that was taken is kept.

    Attributes:
        polled: looks in every round, and nobody notifies.
        left: the last pass left events for another time, whose runs' rows somebody had locked.
    """

    def __init__(
        self,
        database: Database,
        leases: Leases,
        *,
        retention: float = 3600.0,
        schema: str = "redisjobs",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.polled = False
        self.left = False
        self._database = database
        self._leases = leases
        self._retention = retention
        self._clock = clock
        self._sql = statements.load("deliverer", schema).require(*_NAMES)
        self._calls = 0
        self._last_work = 0.0
        self._asleep_since: int | None = None

    @property
    def hurries(self) -> bool:
        """Events are found by polling alone."""
        return self.polled and self._asleep_since is None

    @property
    def asks(self) -> bool:
        """It was called, or polls."""
        return self.polled or self._calls > 0

    def call(self) -> None:
        """An event was sent, or one is to be handed out once more."""
        self._calls += 1

    async def deliver(self) -> int:
        """Hand out what was sent, some hundreds of events at once; answers how many it looked at.

        Raises:
            StoreUnavailable: nothing is known of this pass; the next one finds what it did not do.
        """
        calls, self._calls = self._calls, 0
        try:
            looked, busy, asleep = (
                await self._database.run("deliver events", self._sql.deliver, {"most": EVENTS_AT_ONCE})
            )[0]
        except BaseException:
            self._calls = max(1, calls)
            raise
        self.left = busy > 0
        now = self._clock.monotonic()
        if looked:
            self._last_work = now
        if looked >= EVENTS_AT_ONCE:
            self._calls = max(1, self._calls)
        await self._doze(now, busy=calls >= BUSY_WAKES or looked >= EVENTS_AT_ONCE, asleep=asleep)
        return int(looked)

    async def _doze(self, now: float, *, busy: bool, asleep: bool) -> None:
        """Between polling and sleeping, as `dozing.doze` decides it for a queue.

        Args:
            asleep: senders notify. If they do not, and nobody polls here, the relay that did may be gone.
        """
        if busy and asleep:
            await self._database.change("wake up for events", self._sql.wake_up)
        if (busy and asleep) or not (self.polled or asleep):
            self.polled, self._asleep_since, self._last_work = True, None, now
        elif not self.polled:
            return
        elif self._asleep_since is not None:
            # an older transaction may have looked before the flag was set: poll on until none is left; look once more
            if await self._leases.oldest_running() > self._asleep_since:
                self.polled, self._asleep_since = False, None
                self.call()
        elif now - self._last_work > DOZE_S:
            rows = await self._database.run("fall asleep for events", self._sql.fall_asleep)
            self._asleep_since = int(rows[0][0])

    async def clean(self) -> int:
        """Forget events that expired, and those that were taken longer ago than the retention; answers how many."""
        given = {"limit": CLEANED_AT_ONCE, "retention": self._retention}
        return await self._database.change("clean events", self._sql.clean_events, given)
