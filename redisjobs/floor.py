"""From which place in line a queue must be read, so that rows passed long ago are not walked over again.

Marked rows stay in the index until vacuum may take them, and an old snapshot may hold them there by the
hundred thousand. Rows commit out of order, so the last row read is no safe floor by itself: a transaction that was
still open then may hold earlier places. A transaction has its number before it takes a place (the columns
`xact` and `seq`), so the transactions open in the snapshot of a read are all that can.
"""

from __future__ import annotations

from dataclasses import dataclass, field

PATIENCE_S = 1.0
"""How long an open transaction holds the floor back before it is watched for by itself."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A Postgres snapshot: which transactions had not ended."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def read(cls, text: str) -> Snapshot:
        """From `xmin:xmax:running,running…`."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in running.split(",") if xid))

    def has_ended(self, xid: int) -> bool:
        """Whether the transaction's rows, if it committed, were visible."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.running)


@dataclass(slots=True)
class Floor:
    """The floor of one queue's reads: every place at or below it is done with, but for those that `late` may fill.

    Usage: read behind `seq`; ask `must_read_again` with the snapshot of that read before anything is published; then
    tell `passed` what was published.
    """

    seq: int = 0
    _candidates: list[tuple[int, frozenset[int], float]] = field(
        default_factory=list[tuple[int, frozenset[int], float]]
    )
    _late: dict[int, int] = field(default_factory=dict[int, int])

    def reset(self) -> None:
        """Read from the beginning again."""
        self.seq = 0
        self._candidates.clear()
        self._late.clear()

    def must_read_again(self, snapshot: Snapshot) -> bool:
        """Whether a long transaction has ended whose places lie below the floor; the floor is lower now."""
        ended = [xid for xid in self._late if snapshot.has_ended(xid)]
        if not ended:
            return False
        self.seq = min(self.seq, *(self._late.pop(xid) for xid in ended))
        self._candidates.clear()
        return True

    def passed(self, last_seq: int | None, through: bool, snapshot: Snapshot, now: float) -> None:
        """Raise the floor as far as this read allows.

        Args:
            last_seq: the last place of an unbroken run from the floor that is published now; None: nothing was.
            through: nothing staged was left behind that place.
            snapshot: of the read.
            now: monotonic seconds.
        """
        done_to = last_seq if last_seq is not None else self.seq
        while self._candidates:
            seq, running, since = self._candidates[0]
            if seq > done_to and not through:
                break
            holding = {xid for xid in running if not snapshot.has_ended(xid)}
            if holding and now - since < PATIENCE_S:
                break
            for xid in holding:
                self._late.setdefault(xid, self.seq)
            self.seq = max(self.seq, seq)
            self._candidates.pop(0)
        if last_seq is not None and last_seq > self.seq:
            self._candidates.append((last_seq, snapshot.running, now))
