"""How fast a replay goes, and when it stops by itself: decisions alone."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from redisjobs.errors import OptionError

_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/(s|m|h))?")
_PERIODS = {"s": 1.0, "m": 60.0, "h": 3600.0}
WINDOW = 1_000
"""The jobs redriven last that are watched."""
ENOUGH = 20
"""So many must have ended or failed before the share of failures means anything."""
AT_ONCE_S = 0.5
"""A piece holds what is due in this time, so that a high rate costs few transactions."""
MOST_AT_ONCE = 500


def rate(text: str) -> float:
    """Jobs a second, from `50/s`, `30/m`, `100/h` or `50`.

    Raises:
        OptionError: it is none, or no more than 0.
    """
    match = _RATE.fullmatch(text.strip().lower())
    found = float(match[1]) / _PERIODS[match[2] or "s"] if match else 0.0
    if not 0 < found <= 100_000:
        raise OptionError("rate", text, "is no rate: pass such as 50/s, 30/m or 100/h, above 0 and at most 100000/s")
    return found


def share(text: str) -> float:
    """A share between 0 and 1, from `20%` or `0.2`.

    Raises:
        OptionError: it is none.
    """
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = -1.0
    if not 0 < found <= 1:
        raise OptionError("stop_on_failures", text, "is no share: pass such as 20% or 0.2, above 0 and at most 100%")
    return found


@dataclass(slots=True)
class Pace:
    """Spreads jobs over time: half a second's worth at once at most, and nothing is caught up after a pause.

    Args:
        rate: jobs a second.
    """

    rate: float
    _next_at: float = 0.0

    @property
    def at_once(self) -> int:
        """Jobs of one piece."""
        return max(1, min(MOST_AT_ONCE, int(self.rate * AT_ONCE_S)))

    def wait_s(self, now: float) -> float:
        """Seconds until the next piece may go."""
        return max(0.0, self._next_at - now)

    def went(self, number: int, now: float) -> None:
        """So many went now."""
        self._next_at = max(now, self._next_at) + number / self.rate


@dataclass(slots=True)
class Watch:
    """What becomes of the jobs that were redriven last.

    An attempt that failed counts as a failure at once, and not only when the job is dead again: with many attempts
    that can take hours.
    """

    ids: deque[UUID] = field(default_factory=lambda: deque[UUID](maxlen=WINDOW))
    failing: int = 0
    ended: int = 0
    under_way: int = 0

    def add(self, ids: list[UUID]) -> None:
        """These were redriven just now."""
        self.ids.extend(ids)

    def learn(self, fates: Mapping[UUID, str]) -> None:
        """What Postgres says of them: dead, failing, under way; what it does not know has ended otherwise."""
        words = [fates.get(each, "ended") for each in self.ids]
        self.failing = words.count("dead") + words.count("failing")
        self.under_way = words.count("under way")
        self.ended = words.count("ended")

    def too_many(self, most: float | None) -> bool:
        """Whether so many fail again that going on makes no sense."""
        known = self.failing + self.ended
        return most is not None and known >= ENOUGH and self.failing / known > most

    def __str__(self) -> str:
        known = self.failing + self.ended
        part = f" ({self.failing / known:.0%})" if known else ""
        of = f"of the last {len(self.ids)}: " if len(self.ids) == WINDOW else ""
        return f"{of}{self.ended} ended, {self.failing} failed again{part}, {self.under_way} under way"
