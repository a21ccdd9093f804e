"""What both stores know of one job, as plain values; whoever reads them asks no store.

A part of redisjobs that can keep a job from running adds its facts here as a field, and reads them in `obstacles`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from redisjobs.broker.limit_values import Standing
from redisjobs.broker.presence import Presence
from redisjobs.broker.trace import Trace
from redisjobs.broker.view import QueueView
from redisjobs.errors import RedisjobsError

MOST_BEFORE = 10_001
"""Rows before a job are counted up to here."""
MOST_WAITS = 10
"""What a run waits for is told up to here."""


@dataclass(frozen=True, slots=True)
class Row:
    """A job in Postgres. Distances are seconds by Postgres' clock.

    Args:
        place: the table: outbox, finished or dead.
        age_s: since it was staged. kept_s: until it is dropped from `finished`.
        failure: the last attempt's error, with its type, message and time.
        settled: the publication whose end left the row here, of a durable run that was suspended; else 0.
        moving: it was given another priority or time, and Redis has yet to be told.
        ending: how it ends once its undos have run, if that is all that is left of it.
    """

    place: str
    id: UUID
    job: str
    queue: str
    state: str
    seq: int | None
    priority: int | None
    attempts: int
    max_attempts: int | None
    publications: int | None
    redrives: int
    idempotency_key: str | None
    cancel_requested: bool
    run_at: datetime | None
    ended_at: datetime | None
    duplicate_of: UUID | None
    error: str | None
    failure: dict[str, Any] | None
    keeps_result: bool
    settled: int
    ending: str | None
    moving: bool
    age_s: float | None
    published_s: float | None
    run_in_s: float | None
    expires_in_s: float | None
    kept_s: float | None


@dataclass(frozen=True, slots=True)
class Wait:
    """What a durable run waits for: an event, a child, or until `due_in_s`, a time that may be past."""

    name: str
    kind: str
    event: str | None
    key: str | None
    child: UUID | None
    due_in_s: float | None


@dataclass(frozen=True, slots=True)
class Line:
    """The job's queue in Postgres.

    Args:
        holder: the relay that holds it, or held it last. lease_left_s: None: no relay has seen the queue.
        failing: the row that stops the queue: id, job, error.
        before: rows to be published before the job, at most MOST_BEFORE.
        relays: who holds any queue now.
    """

    holder: str | None
    token: int | None
    lease_left_s: float | None
    epoch: str | None
    paused: bool
    failing: dict[str, Any] | None
    before: int
    oldest_staged_s: float | None
    relays: list[str]

    @property
    def is_held(self) -> bool:
        """Whether a relay holds the queue now."""
        return self.holder is not None and self.lease_left_s is not None and self.lease_left_s > 0


@dataclass(frozen=True, slots=True)
class Doubt:
    """What an id without a row may still become.

    Args:
        writing: open transactions of this database that have written something; the oldest began `oldest_s` ago.
        hidden: sessions that this login may not look into.
        prepared: transactions that were prepared and wait for their COMMIT PREPARED.
    """

    writing: int
    oldest_s: float
    hidden: int
    prepared: int


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of one job. A store that could not be asked leaves its error, and no facts.

    Args:
        owner: for a duplicate: the state of the job that it is a duplicate of; None: not known any more.
        trace: the job in Redis. view: its queue there. workers: all that said of late that they are there.
        searched: the queues of Redis that were looked through for an id without a row.
        waits: what a durable run waits for, at most MOST_WAITS of it.
        key_owner: who holds the job's idempotency key in Redis, if that is another job.
        standing: what the limiter knows of a job that waits for a limit; None: nothing, or it was not asked.
        full: Redis has reached the share of its memory past which relays publish nothing; None: it may not be asked.
        errors: by store, postgres or redis.
    """

    id: UUID
    row: Row | None = None
    line: Line | None = None
    owner: str | None = None
    waits: list[Wait] = field(default_factory=list[Wait])
    doubt: Doubt | None = None
    trace: Trace | None = None
    view: QueueView = field(default_factory=QueueView)
    workers: Sequence[Presence] = ()
    searched: int = 0
    full: bool | None = None
    key_owner: UUID | None = None
    standing: Standing | None = None
    errors: dict[str, RedisjobsError] = field(default_factory=dict[str, RedisjobsError])

    @property
    def queue(self) -> str | None:
        """The job's queue, where it is known."""
        return self.row.queue if self.row else self.trace.queue if self.trace else None

    @property
    def job(self) -> str | None:
        """The job's name, where it is known."""
        return self.row.job if self.row else self.trace.job if self.trace else None

    @property
    def max_attempts(self) -> int | None:
        """What the call said; None: the job's declaration says it, which only a worker knows."""
        return self.row.max_attempts if self.row else self.trace.max_attempts if self.trace else None

    @property
    def attempts(self) -> int:
        """Attempts counted so far, by whichever store knows of more."""
        return max(self.row.attempts if self.row else 0, self.trace.attempts if self.trace else 0)

    def need_row(self) -> Row:
        """The row, at a place where only a job that has one can be."""
        if self.row is None:
            raise LookupError(f"job {self.id} has no row in Postgres")
        return self.row

    def need_trace(self) -> Trace:
        """The trace, at a place in Redis."""
        if self.trace is None:
            raise LookupError(f"job {self.id} is not in Redis")
        return self.trace
