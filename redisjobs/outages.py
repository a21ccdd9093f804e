"""Queues whose server does not answer while those of others do, as on a cluster that has lost a node."""

from __future__ import annotations

import math

AGAIN_S = 0.5
"""Until such a queue is tried again."""


class Outages:
    """Which queues rest, and until when."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def met(self, queue: str, now: float) -> bool:
        """Its server did not answer at this time; answers whether that is news."""
        is_new = queue not in self._until
        self._until[queue] = now + AGAIN_S
        return is_new

    def over(self, queue: str) -> None:
        """It answered."""
        self._until.pop(queue, None)

    def rests(self, queue: str, now: float) -> bool:
        """Whether it is too early to try it again."""
        return self._until.get(queue, 0.0) > now

    def due(self, now: float) -> set[str]:
        """Those that are to be tried again."""
        return {queue for queue, until in self._until.items() if until <= now}

    def next_in(self, now: float) -> float:
        """Seconds until one is."""
        return min((until - now for until in self._until.values()), default=math.inf)
