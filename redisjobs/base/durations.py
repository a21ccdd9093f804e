"""Durations and counts as callers give them, checked at the door, and both as people read them."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import overload

from redisjobs.errors import OptionError

Duration = float | timedelta

LONGEST = 100 * 366 * 86_400.0
"""100 years in seconds: what every store can still add to a date."""


def seconds(name: str, value: object, *, least: float = 0.0, most: float = LONGEST) -> float:
    """The seconds of a duration given as a number of seconds or a timedelta.

    Raises:
        OptionError: a bool, no number, not finite, or outside `least` to `most`.
    """
    number = _number(name, value)
    if math.isnan(number) or math.isinf(number):
        raise OptionError(name, value, "is not finite, so it would never come or never end: pass a number of seconds")
    if number < least:
        raise OptionError(name, value, f"is below {least:g} s: pass {least:g} s or more")
    if number > most:
        raise OptionError(name, value, f"is above {most:g} s: pass {most:g} s or less")
    return number


def positive(name: str, value: object, *, most: float = LONGEST) -> float:
    """Like `seconds`, and more than nothing: what a timeout or a lease needs.

    Raises:
        OptionError: also for 0.
    """
    number = seconds(name, value, most=most)
    if number == 0:
        raise OptionError(name, value, "would be over before it began: pass more than 0 s")
    return number


def optional(name: str, value: object, *, most: float = LONGEST) -> float | None:
    """Like `positive`, with None for none."""
    return None if value is None else positive(name, value, most=most)


def whole(name: str, value: object, *, least: int = 1, most: int | None = None) -> int:
    """A count: a whole number in its range.

    Raises:
        OptionError: a bool, a float (also 3.0), a text, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(name, value, f"is a {type(value).__name__}: pass a whole number")
    if value < least:
        raise OptionError(name, value, f"is below {least}: pass {least} or more")
    if most is not None and value > most:
        raise OptionError(name, value, f"is above {most}: pass {most} or less")
    return value


@overload
def age(seconds: float) -> str: ...
@overload
def age(seconds: None) -> None: ...
def age(seconds: float | None) -> str | None:
    """A distance in time, as short as it can be read."""
    if seconds is None:
        return None
    for size, unit in ((86_400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if abs(seconds) < 10 else f"{seconds:.0f} s"


def many(count: int, one: str, several: str = "") -> str:
    """So many of something: `1 job`, `2 jobs`, `0 jobs`; or `1 job waits`, `2 jobs wait`.

    Args:
        several: where it is more than one with an s behind it.
    """
    return f"{count:d} {one}" if count == 1 else f"{count:d} {several or f'{one}s'}"


def _number(name: str, value: object) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise OptionError(name, value, f"is a {type(value).__name__}: pass a number of seconds or a timedelta")
    try:
        return float(value)
    except OverflowError:
        raise OptionError(name, "a huge number", f"is above {LONGEST:g} s: pass {LONGEST:g} s or less") from None
