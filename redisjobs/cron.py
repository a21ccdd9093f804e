"""When a schedule is due: cron expressions on the clocks of a zone, and even intervals. No clock is asked here.

croniter reads expressions and walks the calendar, without any zone. What the clocks of a zone make of that is decided
here: a time that they skip is due once, right after the skip; one that they show twice is due at its first passing; and
an expression whose minute or hour begins with `*` follows the clocks through each real passing.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, CroniterError, croniter

from redisjobs.base.durations import Duration, seconds
from redisjobs.base.zones import find_zone, first_passing, span_at
from redisjobs.errors import OptionError

SECOND = timedelta(seconds=1)
LONGEST_EXPRESSION = 200
LONGEST_INTERVAL_S = 366 * 86_400.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = timedelta(days=60 * 366)
"""What does not come within this time never does: 29 February can be a Monday after 40 years."""
_FIELDS = ("minute", "hour", "day of month", "month", "day of week")
_ALIAS = re.compile(r"@(midnight|hourly|daily|weekly|monthly|yearly|annually)")
_UNSTEADY = re.compile(r"(?<![a-z])[hr](?![a-z])")
_EQUAL_RANGE = re.compile(r"(?<!\w)(\w+)-\1(?!\w)")
_SPECIAL_DAY = re.compile(r"[#lw]")


class Cadence(ABC):
    """A row of instants in UTC, each on a whole second or, for an interval, where the interval puts it."""

    @abstractmethod
    def next(self, after: datetime) -> datetime | None:
        """The first instant later than this one; None: there is none within 60 years."""

    @abstractmethod
    def latest(self, after: datetime, until: datetime, *, first: datetime | None = None) -> datetime | None:
        """The last instant in (after, until]; None: there is none.

        Args:
            first: the first later than `after`, where it is known.
        """

    @abstractmethod
    def previous(self, before: datetime) -> datetime | None:
        """The last instant earlier than this one; None: there is none within 60 years."""

    def occurrences(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Those in (after, until], the oldest first."""
        moment = self.next(after)
        while moment is not None and moment <= until:
            yield moment
            moment = self.next(moment)

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """How many there are in (after, until], counted up to `most`."""
        return sum(1 for _ in zip(range(most), self.occurrences(after, until), strict=False))


class Cron(Cadence):
    """A cron expression on the clocks of a zone; made by `cron`, which checks it.

    Args:
        expression: five fields, or six with the second in front.
    """

    def __init__(self, expression: str, zone: ZoneInfo) -> None:
        self.expression = expression
        self.zone = zone
        self._walker = croniter(expression, datetime(2000, 1, 1), datetime, second_at_beginning=True)  # noqa: DTZ001
        self._lock = threading.Lock()  # a walker remembers where it is
        minute, hour = self._walker.expressions[:2]
        self.follows_clocks = minute.startswith("*") or hour.startswith("*")
        self._remembered = lru_cache(maxsize=4)(self._next)

    def next(self, after: datetime) -> datetime | None:
        return self._remembered(after.astimezone(UTC).replace(microsecond=0))

    def _next(self, after: datetime) -> datetime | None:
        try:
            return self._next_passing(after) if self.follows_clocks else self._next_fixed(after)
        except OverflowError:  # the calendar ends
            return None

    def latest(self, after: datetime, until: datetime, *, first: datetime | None = None) -> datetime | None:
        """As `Cadence.latest`, by halving.

        `next(x) <= until` holds up to some x and not behind it, so the number of steps grows with the logarithm of
        the seconds between, whatever the period.
        """
        found = first or self.next(after)
        if found is None or found > until:
            return None
        following = self.next(found)
        if following is None or following > until:  # as it mostly is: nothing was missed
            return found
        low, high = following, until  # next(high) is later than `until`; `found` is the last that is known to be due
        found = following
        while high - low > SECOND:
            middle = low + timedelta(seconds=(high - low) // SECOND // 2)
            following = self.next(middle)
            if following is not None and following <= until:
                low = found = following
            else:
                high = middle
        following = self.next(low)
        return following if following is not None and following <= until else found

    def previous(self, before: datetime) -> datetime | None:
        before = before.astimezone(UTC)
        until = before.replace(microsecond=0)
        until = until if until < before else until - SECOND
        reach = timedelta(hours=1)
        while reach < _NEVER:
            found = self.latest(until - reach, until)
            if found is not None:
                return found
            reach *= 4
        return self.latest(until - _NEVER, until)

    def names(self, wall: datetime) -> bool:
        """Whether a time on the wall, without a zone, is one of the expression."""
        return self._walk(wall - SECOND) == wall

    def _next_passing(self, after: datetime) -> datetime | None:
        """The next instant at which the clocks show a time of the expression."""
        moment = after
        while moment - after < _NEVER:
            span = span_at(self.zone, moment + SECOND)
            wall = self._walk(span.wall(moment))
            if wall is None:
                return None
            instant = span.instant(wall)
            if instant < span.end:
                return instant
            moment = span.end - SECOND
        return None

    def _next_fixed(self, after: datetime) -> datetime | None:
        """The next first passing of a time of the expression."""
        span = span_at(self.zone, after)
        before = span_at(self.zone, span.start - SECOND)
        # in the second passing of a repeated hour, all that the first has shown is over
        wall: datetime | None = max(span.wall(after), before.wall(span.start) - SECOND)
        while wall is not None:
            wall = self._walk(wall)
            if wall is not None and (instant := first_passing(self.zone, wall)) > after:
                return instant
        return None

    def _walk(self, wall: datetime) -> datetime | None:
        """The next time of the expression on a calendar without zones."""
        try:
            with self._lock:
                found: datetime = self._walker.get_next(datetime, start_time=wall)
        except CroniterBadDateError:
            return None
        return found


class Every(Cadence):
    """An even interval, counted from an instant; made by `every`, which checks it."""

    def __init__(self, interval: timedelta, start: datetime) -> None:
        self.interval = interval
        self.start = start

    def next(self, after: datetime) -> datetime | None:
        try:
            return self.start + ((after - self.start) // self.interval + 1) * self.interval
        except OverflowError:
            return None

    def latest(self, after: datetime, until: datetime, *, first: datetime | None = None) -> datetime | None:
        found = self.start + (until - self.start) // self.interval * self.interval
        return found if found > after else None

    def previous(self, before: datetime) -> datetime | None:
        return self.latest(datetime.min.replace(tzinfo=UTC), before - timedelta(microseconds=1))


@lru_cache(maxsize=32_768)
def cron(expression: str, zone: str = "UTC") -> Cron:
    """The cadence of a cron expression on the clocks of a zone.

    Raises:
        OptionError: the expression cannot be read or is never due, or there is no such zone.
    """
    if not isinstance(expression, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # whatever a caller passes
        raise OptionError("cron", expression, 'is no text: pass an expression such as "0 9 * * 1-5"')
    if len(expression) > LONGEST_EXPRESSION:
        raise OptionError(
            "cron", expression[:60], f"has {len(expression)} characters: pass at most {LONGEST_EXPRESSION}"
        )
    found = find_zone(zone)
    _check_form(expression)
    try:
        made = Cron(expression.lower().strip(), found)
    except (CroniterError, ValueError, TypeError, KeyError, IndexError) as error:
        raise OptionError("cron", expression[:100], f"cannot be read: {error}") from None
    if made.next(EPOCH + timedelta(days=20_000)) is None:
        raise OptionError("cron", expression[:100], "is never due: there is no such day; pass one that comes")
    return made


def every(interval: Duration, start: datetime | None = None) -> Every:
    """The cadence of an even interval.

    Args:
        interval: 1 s to 366 days.
        start: counted from here; None: from 1970 in UTC, so that an hour's interval is due at each full hour.

    Raises:
        OptionError: the interval is out of its range.
    """
    checked = seconds("every", interval, least=1.0, most=LONGEST_INTERVAL_S)
    return Every(timedelta(seconds=checked), (start or EPOCH).astimezone(UTC))


def _check_form(expression: str) -> None:
    """Refuse what croniter takes and a schedule must not: unsteady values, years, days that read two ways."""
    text = expression.lower().strip()
    if _ALIAS.fullmatch(text):
        return
    fields = text.split()
    if len(fields) not in (5, 6):
        why = f"has {len(fields)} fields: pass five ({', '.join(_FIELDS)}), or six with the second in front"
        raise OptionError("cron", expression[:100], why)
    if any(_UNSTEADY.search(field) for field in fields):
        raise OptionError("cron", expression[:100], "has H or R in it: write the value, and spread runs by jitter=…")
    if equal := _EQUAL_RANGE.search(text):
        why = f"has {equal[0]} in it, which some read as {equal[1]} and some as all: write {equal[1]} or *"
        raise OptionError("cron", expression[:100], why)
    day, weekday = fields[-3], fields[-1]
    special = _SPECIAL_DAY.search(day) or re.search(r"#|l\d|\dl", weekday)
    if special and (day not in ("*", "?") and weekday not in ("*", "?")):
        why = "limits days of the month and of the week, one of them by L, W or #: make a schedule of each"
        raise OptionError("cron", expression[:100], why)
    plain = {"*", "?"}
    if not {day, weekday} & plain and (stepped := [each for each in (day, weekday) if each.startswith(("*", "?"))]):
        why = (
            f"limits days of the month and of the week, one of them by {stepped[0]}, which some read as either and some"
            " as both: write that one as a range, such as 1-31/2, so that either is enough, or make a schedule of each"
        )
        raise OptionError("cron", expression[:100], why)
    if "," in day and _SPECIAL_DAY.search(day):
        raise OptionError("cron", expression[:100], "has L or W in a list of days: make a schedule of each")
