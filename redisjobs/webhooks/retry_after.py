"""Reads `Retry-After`: seconds, or a date in one of the three forms that HTTP has had."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

LONGEST_S = 86_400.0
"""What a receiver asks for beyond it is cut to it."""
LEAST_S = 1.0

_SECONDS = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DATES = tuple(
    re.compile(form)
    for form in (
        rf"[A-Z][a-z]{{2}}, (?P<day>[0-9]{{2}}) (?P<month>[A-Z][a-z]{{2}}) (?P<year>[0-9]{{4}}) {_TIME} GMT",
        rf"[A-Z][a-z]{{5,8}}, (?P<day>[0-9]{{2}})-(?P<month>[A-Z][a-z]{{2}})-(?P<year>[0-9]{{2}}) {_TIME} GMT",
        rf"[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})",
    )
)
"""IMF-fixdate, RFC 850, asctime (RFC 9110, 5.6.7); by hand, for strptime reads months in this machine's language."""


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that a receiver asks to be left alone for, within bounds; None: it asks for nothing that can be read.

    A date is measured from the receiver's own `Date`, so that two clocks that disagree change nothing. It has no
    fractions: the second that it names is waited for to its end.

    Args:
        headers: of the answer, by name in lower case.
        now: seconds since 1970, for an answer without a date.
    """
    asked = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(asked):
        return _within_bounds(float(asked))
    until = read_date(asked, now)
    if until is None:
        return None
    sent = read_date(headers.get("date", "").strip(), now)
    return _within_bounds(until - (now if sent is None else sent) + 1.0)


def read_date(text: str, now: float) -> float | None:
    """Seconds since 1970 of a date of HTTP; None: it is none."""
    found = next((match for form in _DATES if (match := form.fullmatch(text))), None)
    if found is None or found["month"] not in _MONTHS:
        return None
    year, month = int(found["year"]), _MONTHS.index(found["month"]) + 1
    day, hour, minute, second = (int(found[name]) for name in ("day", "hour", "minute", "second"))
    try:
        if len(found["year"]) == 2:
            year = _of_two_digits(year, datetime.fromtimestamp(now, UTC).year)
        return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _of_two_digits(year: int, this_year: int) -> int:
    """What seems to be more than 50 years ahead is a year of the past (RFC 9110, 5.6.7)."""
    found = this_year - this_year % 100 + year
    return found - 100 if found > this_year + 50 else found


def _within_bounds(seconds: float) -> float:
    return min(LONGEST_S, max(LEAST_S, seconds))
