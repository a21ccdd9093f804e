"""What a cron expression means on the clocks of a zone, by brute force: every minute around a change of the clocks.

Nothing here is shared with what it judges: expressions are read anew, and each minute is asked by itself, in both
passings of a repeated hour.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
BEFORE, BEHIND = timedelta(hours=5), timedelta(hours=7)
_MONTHS = {"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
           "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12}  # fmt: skip
_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


@dataclass(frozen=True)
class Window:
    """The minutes around a change: each instant with what the clocks show and whether they showed it before.

    Args:
        skipped: what the clocks never show.
        changed: the instant of the change.
    """

    start: datetime
    end: datetime
    changed: datetime
    minutes: tuple[tuple[datetime, datetime, bool], ...]
    skipped: tuple[datetime, ...]


@cache
def changes(zone: str, first: int, last: int) -> list[datetime]:
    """The instants of these years at which the offset of a zone changes, to the minute."""
    found, known = [], ZoneInfo(zone)
    moment, end = datetime(first, 1, 1, tzinfo=UTC), datetime(last + 1, 1, 1, tzinfo=UTC)
    offset = moment.astimezone(known).utcoffset()
    while moment < end:
        following = moment + timedelta(hours=12)
        if following.astimezone(known).utcoffset() != offset:
            while moment.astimezone(known).utcoffset() == offset:
                moment += MINUTE
            found.append(moment)
            offset = moment.astimezone(known).utcoffset()
        else:
            moment = following
    return found


def window(zone: str, changed: datetime) -> Window:
    """The minutes in the hours around a change."""
    known, seen, minutes = ZoneInfo(zone), set[datetime](), list[tuple[datetime, datetime, bool]]()
    start, end = changed - BEFORE, changed + BEHIND
    moment = start
    while moment < end:
        moment += MINUTE
        wall = moment.astimezone(known).replace(tzinfo=None, fold=0)
        minutes.append((moment, wall, wall in seen))
        seen.add(wall)
    last = (changed - MINUTE).astimezone(known).replace(tzinfo=None, fold=0)
    first = changed.astimezone(known).replace(tzinfo=None, fold=0)
    skipped = tuple(last + MINUTE * each for each in range(1, (first - last) // MINUTE))
    return Window(start, end, changed, tuple(minutes), skipped)


class Written:
    """A cron expression of five fields, read by the book: values, lists, ranges, steps, names."""

    def __init__(self, expression: str) -> None:
        fields = expression.lower().split()
        self.minutes, self.hours, self.days, self.months, weekdays = (
            _values(field, place) for place, field in enumerate(fields)
        )
        self.weekdays = {each % 7 for each in weekdays}
        self.any_day, self.any_weekday = fields[2] == "*", fields[4] == "*"
        self.fixed = not fields[0].startswith("*") and not fields[1].startswith("*")
        self._on = cache(self._falls_on)

    def _falls_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, (day.weekday() + 1) % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return of_month and of_week
        return of_month or of_week

    def matches(self, wall: datetime) -> bool:
        """Whether it names this minute."""
        return wall.minute in self.minutes and wall.hour in self.hours and self._on(wall.date())

    def due(self, around: Window) -> list[datetime]:
        """Every instant of the window, its first excluded, at which a schedule is due."""
        if not self.fixed:
            return [instant for instant, wall, _ in around.minutes if self.matches(wall)]
        found = {instant for instant, wall, again in around.minutes if not again and self.matches(wall)}
        if any(self.matches(wall) for wall in around.skipped):
            found.add(around.changed)
        return sorted(found)


def never_comes(expression: str) -> bool:
    """Whether no calendar has such a day."""
    written = Written(expression)
    if not written.any_weekday:
        return False
    longest = {month: calendar.monthrange(2028, month)[1] for month in written.months}
    return all(min(written.days) > days for days in longest.values())


def _values(field: str, place: int) -> set[int]:
    found: set[int] = set()
    low, high = _RANGES[place]
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            begin, end = low, min(high, 6) if place == 4 else high
        else:
            begin = _value(first, place)
            end = _value(last, place) if last else high if step else begin
        found.update(range(begin, end + 1, int(step or 1)))
    return found


def _value(text: str, place: int) -> int:
    if place == 3 and text in _MONTHS:
        return _MONTHS[text]
    if place == 4 and text in _DAYS:
        return _DAYS[text]
    return int(text)
