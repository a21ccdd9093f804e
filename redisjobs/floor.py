"""From which place in line a queue must be read, so that rows passed long ago are not walked over again.

Marked rows stay in the index until vacuum may take them, and an old snapshot may hold them there by the
hundred thousand. Rows commit out of order, so the last row read is no safe floor by itself: a transaction that was
still open then may hold earlier places. A transaction has its number before it takes a place (the columns
`xact` and `seq`), so whoever may hold one of those places has a smaller number than the transaction that marked the
rows, and is named in the first snapshot after that mark. The snapshot of the read itself does not name them all: it
knows nothing of transactions that are younger than the last one that ended.
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
class Step:
    """A place up to which everything read was done with, as soon as nobody can fill the places below it.

    Args:
        running: who can, from the first snapshot after the mark; None: that has not come yet.
    """

    seq: int
    since: float
    running: frozenset[int] | None = None


@dataclass(slots=True)
class Floor:
    """The floor of one queue's reads: every place at or below it is done with, but for those that `late` may fill.

    Usage: read behind `seq`; ask `must_read_again` with the snapshot of that read before anything is published; then
    tell `passed` what was done.

    Args:
        walk_at: monotonic seconds of the next read from the beginning, which the reader sees to.
    """

    seq: int = 0
    walk_at: float = 0.0
    _steps: list[Step] = field(default_factory=list[Step])
    _late: dict[int, int] = field(default_factory=dict[int, int])

    def reset(self) -> None:
        """Read from the beginning again."""
        self.seq = 0
        self._steps.clear()
        self._late.clear()

    def must_read_again(self, snapshot: Snapshot) -> bool:
        """Whether a long transaction has ended whose places lie below the floor; the floor is lower now."""
        ended = [xid for xid in self._late if snapshot.has_ended(xid)]
        if not ended:
            return False
        self.seq = min(self.seq, *(self._late.pop(xid) for xid in ended))
        self._steps.clear()
        return True

    def passed(self, last_seq: int | None, *, through: bool, snapshot: Snapshot, now: float) -> None:
        """Raise the floor as far as this read allows.

        Args:
            last_seq: the last place of an unbroken run from the floor that is done with now, written down by a
                transaction that began after the read and has committed. None: nothing was.
            through: nothing staged was left behind that place.
            snapshot: of the read.
            now: monotonic seconds.
        """
        for step in self._steps:
            if step.running is None:
                step.running = snapshot.running
        done_to = last_seq if last_seq is not None else self.seq
        while self._steps and (through or self._steps[0].seq <= done_to) and self._climb(self._steps[0], snapshot, now):
            self._steps.pop(0)
        if last_seq is not None and last_seq > self.seq:
            self._steps.append(Step(last_seq, now))

    def _climb(self, step: Step, snapshot: Snapshot, now: float) -> bool:
        holding = [xid for xid in step.running or () if not snapshot.has_ended(xid)]
        if holding and now - step.since < PATIENCE_S:
            return False
        for xid in holding:
            self._late.setdefault(xid, self.seq)
        self.seq = max(self.seq, step.seq)
        return True
