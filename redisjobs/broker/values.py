"""What travels between the stations and Redis, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Word: TypeAlias = Literal[
    "done", "dead", "cancelled", "expired", "retry", "snooze", "suspended", "parked", "released", "limited"
]
Answer: TypeAlias = Literal["ok", "repeat", "lost", "gone"]

BANDS = 3
STREAMS = BANDS + 1
"""One for each band, and the front: jobs that have waited for a limit and may run now."""


def stream_of(band: int) -> tuple[int, int]:
    """The band that a record's number stands for, and the stream that its entry is in."""
    return band % BANDS, min(band, BANDS)


def band_of(priority: int) -> int:
    """The stream that a priority goes to: 0 high, 1 normal, 2 low."""
    return 1 if priority == 0 else 0 if priority > 0 else 2


@dataclass(slots=True)
class Publication:
    """A job on its way into Redis.

    Args:
        job_id: 16 bytes.
        life: how often its row was redriven. number: how often it was published, this time included.
        delay_ms: how far its start lies ahead; 0 or less: now.
        expire_ms: how far its expiry lies ahead; None: never.
        window_ms: for how long its idempotency key is kept after its end.
        attempts: counted so far.
        after: the publication whose end has settled; what Redis still knows of it, or of one before it, makes way.
        direct: it has no row in Postgres.
        lane: jobs of one lane run one after the other. order: in the order of these numbers; 0: behind those that wait
            there. share: jobs are shared out fairly between these keys.
        policy: how its idempotency key deals with another holder, as `lib/place.lua` reads it.
        envelope: the packed envelope; no script looks inside.
    """

    job_id: bytes
    envelope: bytes
    band: int = 1
    life: int = 0
    number: int = 1
    delay_ms: int = 0
    expire_ms: int | None = None
    key: bytes = b""
    window_ms: int = 0
    attempts: int = 0
    after: int = 0
    direct: bool = False
    lane: bytes = b""
    order: int = 0
    share: bytes = b""
    policy: str = ""

    def arguments(self) -> tuple[bytes | str | int, ...]:
        """The eight values that `publish` and `enqueue` read."""
        flags = "d" if self.direct else "-"
        key = self.key
        if self.lane or self.share or self.policy:
            flags = "dx" if self.direct else "x"
            lane = b"%016d%b" % (self.order, self.lane) if self.lane else b""
            sizes = f"{len(key)} {len(lane)} {len(self.share)} {self.policy or '-'}\n"
            key = b"".join((sizes.encode(), key, lane, self.share))
        head = f"{self.number} {self.life} {flags} {self.band} {self.window_ms} {len(key)}"
        expire = "" if self.expire_ms is None else self.expire_ms
        return self.job_id, head, self.delay_ms, expire, self.attempts, self.after, key, self.envelope


@dataclass(frozen=True, slots=True)
class Move:
    """Another place for a job that waits in Redis.

    Args:
        life: how often its row was redriven. after: as in `Publication`.
        delay_ms: how far its start lies ahead; 0 or less: now; None: its time stays as it is.
        envelope: the packed envelope as it is now.
    """

    job_id: bytes
    life: int
    after: int
    band: int
    delay_ms: int | None
    envelope: bytes

    def arguments(self) -> tuple[bytes | int, ...]:
        """The six values that `move` reads."""
        delay = -1 if self.delay_ms is None else max(0, self.delay_ms)
        return self.job_id, self.life, self.after, self.band, delay, self.envelope


@dataclass(frozen=True, slots=True)
class Entry:
    """A stream entry that was read and not begun yet."""

    band: int
    entry: bytes
    job_id: bytes


@dataclass(slots=True)
class Delivery:
    """A job in a worker's hand: the right to one attempt, under one token.

    The token is (`number`, `start`); it grows with every publication and every start.

    Args:
        entry: the stream entry that is the lease. start: how often the job was begun, this time included.
        attempts: counted so far. losses: leases lost in a row while it ran.
        cancel: its cancel was asked for; end it without running. expired: it must not start any more.
        body: the packed envelope.
    """

    queue: str
    band: int
    job_id: bytes
    entry: bytes
    start: int
    number: int
    life: int
    attempts: int
    losses: int
    cancel: bool
    expired: bool
    direct: bool
    body: bytes


@dataclass(slots=True)
class Taken:
    """What a read brought: deliveries, or word that the queue is paused."""

    deliveries: list[Delivery] = field(default_factory=list[Delivery])
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Promoted:
    """What a promotion did, and when to come again.

    Args:
        next_due_ms: until the next job is due; None: none is.
        cancelled: ids of running jobs whose cancel was asked for.
        waiting: entries that no worker has read.
    """

    moved: int
    next_due_ms: int | None
    cancelled: list[bytes]
    waiting: int = 0


@dataclass(slots=True)
class Finish:
    """How an attempt ended, on its way into Redis.

    Args:
        word: that of its outcome; `over`: Postgres knows it no more, or in a later life, and Redis shall forget it.
        delay_ms: until the next start, for retry, snooze, suspended, parked, limited; of a suspension below 0: it has
            no time.
        counted: this attempt counts.
        record: msgpack for Postgres (`outcome.py` says what is in it).
        keep_ms: over 0: the outcome is kept for so long where `result()` waits.
        skips: of a retry: the next job of its lane goes on meanwhile.
    """

    delivery: Delivery
    word: Word | Literal["over"]
    delay_ms: int = 0
    counted: bool = False
    record: bytes = b""
    keep_ms: int = 0
    skips: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What a job that keeps its result ended with: its word, and the record of its last attempt.

    `deduplicated`: it never ran, and the job that its record names did.
    """

    word: Word | Literal["deduplicated"]
    record: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended, on its way to Postgres.

    Args:
        position: the stream entry that carries it; many outcomes share one.
        word: as in `Finish`, without released.
        delay_s: seconds until the next start, by Redis' clock when it was read; 0 for an end; below 0 for a
            suspension that has no time.
        envelope: of a direct job that died, for it has no row; else empty.
    """

    position: bytes
    job_id: bytes
    word: str
    life: int
    number: int
    attempts: int
    delay_s: float
    envelope: bytes
    record: bytes


@dataclass(frozen=True, slots=True)
class ShareRule:
    """What operators have set for a share of a queue.

    Args:
        weight: its jobs for each one of a share of weight 1. paused: its jobs do not start.
    """

    share: str
    weight: float = 1.0
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Life:
    """What Redis holds of a queue's life: its epoch ('' after a loss) and the last settled position."""

    epoch: str
    settled: bytes


@dataclass(frozen=True, slots=True)
class Mark:
    """By what a holder knows a queue's life in Redis again: its epoch ('' after a loss) and its fence."""

    epoch: str
    fence: int
