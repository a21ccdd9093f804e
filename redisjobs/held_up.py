"""Outcomes of a queue that wait for rows which somebody holds, and how far the queue was read beside them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from redisjobs.broker import Outcome

MOST_POSITIONS = 100_000
"""Read beside outcomes that wait, at most; then the others wait with them. Some 10 MB of this process."""


@dataclass(slots=True)
class HeldUp:
    """What a settler keeps in mind of a queue between its passes; who takes over reads it all again.

    Args:
        outcomes: those that wait, in their order.
        positions: read and not told to Redis, from that of the first outcome that waits; empty: nothing waits.
        at: monotonic seconds; when their delays were right.
        said_at: likewise; when the log said so last.
    """

    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    positions: list[bytes] = field(default_factory=list[bytes])
    at: float = 0.0
    said_at: float = float("-inf")

    @property
    def read(self) -> bytes | None:
        """Behind which position the next outcomes stand; None: the one that Redis was told last."""
        return self.positions[-1] if self.positions else None

    @property
    def is_full(self) -> bool:
        """No more is read before something has moved."""
        return len(self.positions) >= MOST_POSITIONS

    def joined_by(self, new: Sequence[Outcome], now: float) -> HeldUp:
        """With these behind them. What comes back comes back at its time, however long it has waited here."""
        waited = now - self.at
        outcomes = [replace(each, delay_s=max(0.0, each.delay_s - waited)) if each.delay_s > 0 else each
                    for each in self.outcomes]  # fmt: skip
        positions = [*self.positions, *dict.fromkeys(each.position for each in new)]
        return HeldUp([*outcomes, *new], positions, now, self.said_at)

    def settled_but(self, held: Collection[bytes]) -> tuple[HeldUp, list[bytes]]:
        """What waits once all but the outcomes of these jobs have settled, and the positions that are through."""
        outcomes = [each for each in self.outcomes if each.job_id in held]
        first = self.positions.index(outcomes[0].position) if outcomes else len(self.positions)
        return HeldUp(outcomes, self.positions[first:], self.at, self.said_at), self.positions[:first]
