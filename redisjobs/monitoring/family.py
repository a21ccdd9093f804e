"""A metric as a value: its name, its kind and what it tells now; no library is needed to make one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]

MOST_QUEUES = 500
"""Queues that are told of apart; the others are told of together."""
OTHER = "other"


class Histogram:
    """How many values lie at or below each bound, and above the last; seconds, or what is counted."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


Sample: TypeAlias = tuple[Sequence[str], float | Histogram]
"""The values of the labels, and what is told for them."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Args:
        name: in base units; a counter's without `_total`, which is added where it is written.
        text: what it means, in a sentence.
    """

    name: str
    kind: Kind
    text: str
    labels: Sequence[str]
    samples: Sequence[Sample]

    @classmethod
    def one(cls, name: str, text: str, value: float) -> Family:
        """A gauge without labels."""
        return cls(name, "gauge", text, (), [((), value)])

    @classmethod
    def by_queue(
        cls,
        name: str,
        text: str,
        values: Mapping[str, float],
        kind: Kind = "gauge",
        total: Callable[[Iterable[float]], float] = sum,
    ) -> Family:
        """A value for each queue; those beyond the limit have one together."""
        names = sorted(values)
        samples: list[Sample] = [((queue,), values[queue]) for queue in names[:MOST_QUEUES]]
        if names[MOST_QUEUES:]:
            samples.append(((OTHER,), total(values[queue] for queue in names[MOST_QUEUES:])))
        return cls(name, kind, text, ("queue",), samples)
