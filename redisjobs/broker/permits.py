"""What travels between an attempt and the limiter, as plain values."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from redisjobs.errors import OptionError
from redisjobs.limits import MOST, check_limit_name

Argument: TypeAlias = bytes | str | int

LONGEST_PERIOD_MS = 366 * 86_400_000
LONGEST_KEY = 200
"""Bytes of a limit key; the digest of a longer one stands for it."""
GONE = 0
"""The start that `Limiter.release` is given for a job that is not there any more: whatever was kept for it goes."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Rate:
    """So many starts in a period.

    Args:
        period_ms: the period. burst: how many may come sooner than evenly spaced. In any period, wherever it
            begins, there are at most `count` + `burst` starts.
    """

    count: int
    period_ms: int
    burst: int = 0

    def __post_init__(self) -> None:
        _check("count", self.count, 1)
        _check("period_ms", self.period_ms, 1, LONGEST_PERIOD_MS)
        _check("burst", self.burst, 0)


@dataclass(frozen=True, slots=True)
class Want:
    """One limit that an attempt wants to pass: a share of `most` at once, or one start of a rate.

    Args:
        key: as `limit_key` makes it. name: of the limit; what is set at run time counts for all keys of a name.
        weight: how much of `most` the attempt takes; more than the whole counts as the whole.
    """

    key: str
    name: str
    weight: int = 1
    most: int | None = None
    rate: Rate | None = None

    def __post_init__(self) -> None:
        if (self.most is None) == (self.rate is None):
            raise OptionError("most", self.most, "must be given, or a rate, and not both")
        _check("weight", self.weight, 1)
        if self.most is not None:
            _check("most", self.most, 0)
        check_limit_name(self.name)
        if self.key != limit_key(self.key, None):
            raise OptionError("key", self.key, "is no limit key: make it with limit_key")

    def line(self) -> str:
        """How the scripts read it."""
        if self.rate is None:
            return f"l {self.weight} {self.most} 0 {self.name} {self.key}\n"
        return f"r {self.rate.count} {self.rate.period_ms} {self.rate.burst} {self.name} {self.key}\n"


@dataclass(frozen=True, slots=True)
class Ask:
    """An attempt that wants to begin: under the start of its delivery, with all that it wants."""

    job_id: bytes
    start: int
    queue: str
    wants: tuple[Want, ...]

    def __post_init__(self) -> None:
        if len(self.wants) > 1 and len({want.key for want in self.wants}) < len(self.wants):
            raise OptionError("wants", [want.key for want in self.wants], "names a limit key twice: add up the weights")

    @property
    def holds(self) -> bool:
        """Whether it holds a permit while it runs, to be renewed by `hold`; a rate needs none, only its `release`."""
        return any(want.most is not None for want in self.wants)

    def arguments(self) -> tuple[Argument, ...]:
        """The four values that `admit` reads."""
        return self.job_id, self.start, self.queue, "".join([want.line() for want in self.wants])


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of an attempt.

    Args:
        word: ok: it may begin. wait: it stands in the line of `key`, and `release` or `sweep` of any worker wakes
            it. later: its place is kept, and it is to come back in `delay_ms`.
    """

    word: Literal["ok", "wait", "later"]
    delay_ms: int = 0
    key: str = ""


@dataclass(frozen=True, slots=True)
class Woken:
    """A job that may begin: what it waited for is kept for it for a while.

    Args:
        delay_ms: it is to come back in so many ms; 0: to the front of its queue, now.
    """

    queue: str
    job_id: bytes
    delay_ms: int = 0


def limit_key(name: str, key: str | None) -> str:
    """The key of one limit: its name, and behind it what was computed from the arguments.

    What is long, or has characters in it that would end a line, is named by its digest.
    """
    whole = name if key is None else f"{name}:{key}"
    try:
        fits = len(whole.encode()) <= LONGEST_KEY and not _CONTROL.search(whole)
    except UnicodeEncodeError:  # a lone surrogate
        fits = False
    return whole if fits else f"{name}:#{hashlib.sha256(whole.encode(errors='surrogatepass')).hexdigest()}"


def rule_text(most: int | None, rate: Rate | None) -> str:
    """What is set for a limit at run time, as the scripts read it.

    Raises:
        OptionError: neither or both were given, or `most` is out of range.
    """
    if (most is None) == (rate is None):
        raise OptionError("most", most, "must be given, or a rate, and not both")
    if most is not None:
        _check("most", most, 0)
    return f"max {most}" if rate is None else f"rate {rate.count} {rate.period_ms} {rate.burst}"


def _check(name: str, value: int, least: int, most: int = MOST) -> int:
    if type(value) is not int or not least <= value <= most:
        raise OptionError(name, value, f"is out of range: pass a whole number from {least} to {most}")
    return value
