"""The clock of the stores in memory: it stands still until a test turns it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from redisjobs.base.clock import SystemClock
from redisjobs.errors import OptionError


class TurnedClock:
    """The one time of Postgres and Redis in memory: due times, leases, expiry and windows go by it.

    It begins with the time of the machine, at a whole millisecond: Redis knows no shorter ones, and what is due in an
    hour must be due when the clock was turned by an hour. Bodies see the machine's own time, and timeouts run by it.
    """

    def __init__(self) -> None:
        now = datetime.now(UTC)
        self._now = now.replace(microsecond=now.microsecond // 1000 * 1000)

    def now(self) -> datetime:
        """The moment, in UTC."""
        return self._now

    def time(self) -> float:
        """Seconds since 1970."""
        return self._now.timestamp()

    def advance(self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0) -> datetime:
        """Turn it forward; nothing runs by that. Answers the new moment.

        Raises:
            OptionError: it would go back.
        """
        distance = timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days)
        if distance < timedelta():
            raise OptionError("advance", distance, "would turn the clock back: pass a positive duration")
        return self.set(self._now + distance)

    def set(self, moment: datetime) -> datetime:
        """Turn it to a moment that is not past."""
        if moment < self._now:
            raise OptionError("moment", moment, f"lies before the clock's {self._now}: pass a later one")
        self._now = moment
        return moment


class RelayClock(SystemClock):
    """The relay's own time: it goes with the stores', and each round takes so long that all intervals are over.

    Args:
        round_s: seconds.
    """

    def __init__(self, clock: TurnedClock, round_s: float) -> None:
        self._clock = clock
        self._round_s = round_s
        self._rounds = 0

    def begin_round(self) -> None:
        """Another round begins."""
        self._rounds += 1

    def monotonic(self) -> float:
        return self._clock.time() + self._rounds * self._round_s

    def now(self) -> datetime:
        return self._clock.now()


class WorkerClock(SystemClock):
    """The worker's own time is the machine's; the moments that it writes down are the stores', and it never rests."""

    def __init__(self, clock: TurnedClock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now()

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.001))
