"""Figures: what was measured, in alternating rounds, and what it has to reach."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure has to reach.

    Args:
        value: on a quiet machine.
        loose: what even a busy machine reaches unless something is broken; None: nothing can be said there.
        at_least: else at most.
    """

    value: float
    loose: float | None = None
    at_least: bool = True

    def is_reached(self, figure: float, *, loosely: bool = False) -> bool:
        """Whether a figure is good enough."""
        limit = self.loose if loosely else self.value
        if limit is None:
            return True
        return figure >= limit if self.at_least else figure <= limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.value:g}"


@dataclass(slots=True)
class Figure:
    """One thing that was measured.

    Args:
        values: one a round.
        notes: what else was seen on the way, such as CPU by process.
    """

    name: str
    unit: str
    values: Sequence[float]
    target: Target | None = None
    notes: dict[str, float | str] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The figure that counts."""
        return statistics.median(self.values)


def ratio(name: str, ours: Sequence[float], theirs: Sequence[float], target: Target | None = None) -> Figure:
    """Round by round, how many times theirs ours is: noise that hits a whole round falls out."""
    return Figure(name, "×", [a / b for a, b in zip(ours, theirs, strict=True)], target)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured.

    Args:
        rounds: of everything that alternates.
        jobs: in one drain, publish or settle.
        seconds: of everything that is measured by time.
        runs: durable runs with many slots; a tenth of them with one.
        waiting: behind a limit, beside what is measured.
    """

    rounds: int
    jobs: int
    backlogs: tuple[int, ...]
    due: int
    held: int
    samples: int
    seconds: float
    runs: int
    waiting: int


QUICK = Scale(
    rounds=1,
    jobs=10_000,
    backlogs=(1_000, 20_000),
    due=2_000,
    held=30_000,
    samples=60,
    seconds=2.0,
    runs=300,
    waiting=10_000,
)
FULL = Scale(
    rounds=3,
    jobs=40_000,
    backlogs=(1_000, 100_000, 1_000_000),
    due=10_000,
    held=500_000,
    samples=400,
    seconds=6.0,
    runs=2_000,
    waiting=100_000,
)
