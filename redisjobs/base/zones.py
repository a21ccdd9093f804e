"""Time zones: when their clocks change, and which instant a time on the wall is."""

from __future__ import annotations

import difflib
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from redisjobs.errors import OptionError

_PROBE = timedelta(hours=6)
"""Between two looks for a change of the clocks: less than any zone keeps an offset."""
_SECOND = timedelta(seconds=1)
_OF_THE_HOST = ("localtime", "Factory")
"""Names that mean another zone on each machine, or none."""

Change = Literal["skipped", "repeated"]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in which a zone's clocks run evenly.

    Args:
        start: its first instant in UTC; the clocks changed here, or nobody looked further back.
        end: the first instant behind it.
        offset: from UTC to the wall.
    """

    start: datetime
    end: datetime
    offset: timedelta

    def wall(self, instant: datetime) -> datetime:
        """What the clocks show at this instant of the span, without a zone."""
        return instant.replace(tzinfo=None) + self.offset

    def instant(self, wall: datetime) -> datetime:
        """When these clocks would show this time, be it in the span or not."""
        return (wall - self.offset).replace(tzinfo=UTC)


def find_zone(name: object) -> ZoneInfo:
    """The zone of this name in the IANA database.

    Raises:
        OptionError: there is none, or the name means something else on another machine.
    """
    if isinstance(name, str) and name not in _OF_THE_HOST:
        try:
            return ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass
    known = zoneinfo.available_timezones().difference(_OF_THE_HOST)
    near = difflib.get_close_matches(str(name).title(), known, 1)
    like = f": do you mean {near[0]}?" if near else ": pass one such as Europe/Berlin or UTC"
    raise OptionError("zone", str(name)[:60], f"is no zone of the IANA database{like}")


@lru_cache(maxsize=4096)
def changes(zone: tzinfo, year: int) -> tuple[datetime, ...]:
    """The instants of a year, in UTC, at which the zone's clocks were put forward or back."""
    found: list[datetime] = []
    before, last = datetime(year, 1, 1, tzinfo=UTC) - _SECOND, datetime(year + 1, 1, 1, tzinfo=UTC) - _SECOND
    while before < last:
        after = min(before + _PROBE, last)
        if _offset(zone, before) != _offset(zone, after):
            found.append(_change_between(zone, before, after))
        before = after
    return tuple(found)


@lru_cache(maxsize=4096)
def _spans(zone: tzinfo, year: int) -> tuple[Span, ...]:
    edges = [each for near in (year - 1, year, year + 1) for each in changes(zone, near)]
    starts = [datetime(year - 1, 1, 1, tzinfo=UTC), *edges]
    ends = [*edges, datetime(year + 2, 1, 1, tzinfo=UTC)]
    return tuple(Span(start, end, _offset(zone, start)) for start, end in zip(starts, ends, strict=True))


def span_at(zone: tzinfo, instant: datetime) -> Span:
    """The span around an instant; a zone that never changes has many, of some years each."""
    return next(span for span in _spans(zone, instant.astimezone(UTC).year) if span.start <= instant < span.end)


def first_passing(zone: tzinfo, wall: datetime) -> datetime:
    """The first instant at which the clocks show this time; where they skip it, the instant of the skip."""
    instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    span = span_at(zone, instant)
    return instant if span.wall(instant) == wall else span.start


def is_ambiguous(zone: tzinfo, wall: datetime) -> bool:
    """Whether the clocks show this time twice."""
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first < second


def change_within(zone: tzinfo, after: datetime, until: datetime) -> tuple[datetime, Change] | None:
    """The last change of the clocks in (after, until], and whether they skipped or repeated a while."""
    for year in range(until.year, after.year - 1, -1):
        for instant in reversed(changes(zone, year)):
            if after < instant <= until:
                forward = _offset(zone, instant) > _offset(zone, instant - _SECOND)
                return instant, "skipped" if forward else "repeated"
    return None


def _offset(zone: tzinfo, instant: datetime) -> timedelta:
    offset = instant.astimezone(zone).utcoffset()
    return timedelta(0) if offset is None else offset


def _change_between(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    """The first second with another offset than `before` has, found by halving."""
    offset = _offset(zone, before)
    while after - before > _SECOND:
        middle = before + timedelta(seconds=(after - before) // _SECOND // 2)
        if _offset(zone, middle) == offset:
            before = middle
        else:
            after = middle
    return after


@cache
def rules_version() -> str:
    """Which release of the IANA database the zones of this machine come from."""
    for folder in zoneinfo.TZPATH:
        try:
            with Path(folder, "tzdata.zi").open() as file:
                return file.readline().removeprefix("# version ").strip()[:40]
        except OSError:
            continue
    try:
        return version("tzdata")
    except PackageNotFoundError:
        return "unknown"
