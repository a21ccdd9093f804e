"""The tables: outbox, queues, finished and dead, with the columns that the statements read and write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)
PLACED = frozenset({"published", "retrying", "snoozed", "suspended", "parked"})
"""The states of a row that Redis holds."""


@dataclass(slots=True)
class Row:
    """A row of the outbox. `input` and `headers` are JSON texts, `key_window` is in seconds."""

    id: UUID
    job: str
    queue: str
    input: str | None
    payload: bytes | None
    codec: str | None
    idempotency_key: str | None
    key_window: float | None
    priority: int
    max_attempts: int | None
    run_at: datetime | None
    expires_at: datetime | None
    tenant_id: str | None
    traceparent: str | None
    enqueued_by: str | None
    headers: str | None
    staged_at: datetime
    xact: int = 0
    seq: int = 0
    state: str = "staged"
    published_at: datetime | None = None
    publications: int = 0
    redrives: int = 0
    cancel_requested: bool = False
    attempts: int = 0
    last_error: str | None = None
    failures: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(slots=True)
class QueueRow:
    """Which relay holds a queue, under which token, until when."""

    queue: str
    holder: str | None = None
    token: int = 0
    lease_until: datetime = LONG_AGO
    epoch: str | None = None
    paused: bool = False
    asleep: bool = True
    failing: str | None = None


@dataclass(slots=True)
class Finished:
    """A job that ended well, or was cancelled, expired or a duplicate."""

    id: UUID
    job: str
    queue: str
    state: str
    attempts: int
    keep_until: datetime
    idempotency_key: str | None = None
    key_until: datetime | None = None
    duplicate_of: UUID | None = None
    last_error: str | None = None
    result: bytes | None = None
    result_codec: str | None = None


@dataclass(slots=True)
class DeadLetter:
    """A job that failed for good, with its last row."""

    row: Row
    reason: str
    died_at: datetime

    @property
    def key_until(self) -> datetime | None:
        """Until when it holds its idempotency key."""
        window = self.row.key_window
        return None if window is None else self.died_at + timedelta(seconds=window)


class Tables:
    """What is committed, and the numbers of transactions and places in line.

    Args:
        now: the time of this store.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now
        self.lock = threading.RLock()
        self.outbox: dict[UUID, Row] = {}
        self.queues: dict[str, QueueRow] = {}
        self.finished: list[Finished] = []
        self.dead: dict[UUID, DeadLetter] = {}
        self.open: set[int] = set()
        """The numbers of transactions that have not ended."""
        self._next_xact = 1
        self._next_seq = 1

    def next_xact(self) -> int:
        """The number of a transaction that begins to write."""
        number, self._next_xact = self._next_xact, self._next_xact + 1
        return number

    def next_seq(self) -> int:
        """The next place in line; never given twice, whatever is rolled back."""
        place, self._next_seq = self._next_seq, self._next_seq + 1
        return place

    def oldest_running(self) -> int:
        """The oldest transaction that has not ended."""
        return min(self.open, default=self._next_xact)

    def snapshot(self) -> str:
        """Which transactions have not ended, as Postgres writes it."""
        return f"{self.oldest_running()}:{self._next_xact}:{','.join(map(str, sorted(self.open)))}"

    def of_queue(self, queue: str, *states: str) -> Iterator[Row]:
        """The rows of a queue in these states, in no order."""
        return (row for row in self.outbox.values() if row.queue == queue and row.state in states)

    def ended(self, job_id: UUID) -> Finished | None:
        """How a job ended last, unless it is a dead letter."""
        return next((each for each in reversed(self.finished) if each.id == job_id), None)

    def in_seconds(self, seconds: float) -> datetime:
        """The moment so many seconds from now; the end of the calendar where it lies behind that."""
        try:
            return self.now() + timedelta(seconds=seconds)
        except OverflowError:
            return datetime.max.replace(tzinfo=UTC)
