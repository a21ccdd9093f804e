"""Counts what became of the attempts of one process, by endpoint: a few additions each."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

TOOK_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 60.0)
MOST_ENDPOINTS = 500
"""Endpoints that are counted apart; those that come later are counted together."""
OTHER = "other"
WORDS = ("delivered", "retried", "failed")
"""Accepted; not accepted, and a retry follows; not accepted, and none does."""


class Tally:
    """The loop writes, and any thread may read."""

    def __init__(self) -> None:
        self.ended: dict[str, Counter[str]] = {}
        self.took: dict[str, tuple[list[int], list[float]]] = {}

    def count(self, endpoint: str, word: str) -> None:
        """Count an attempt."""
        self.ended.setdefault(self._apart(endpoint), Counter())[word] += 1

    def timed(self, endpoint: str, seconds: float) -> None:
        """Note how long an attempt took, from its request to the end of its answer."""
        counts, total = self.took.setdefault(self._apart(endpoint), ([0] * (len(TOOK_S) + 1), [0.0]))
        counts[bisect_left(TOOK_S, seconds)] += 1
        total[0] += seconds

    def _apart(self, endpoint: str) -> str:
        return endpoint if endpoint in self.ended or len(self.ended) < MOST_ENDPOINTS else OTHER
