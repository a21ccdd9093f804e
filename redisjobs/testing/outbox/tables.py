"""The tables: outbox, queues, finished, dead, steps and events, with the columns that the statements read and write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)
PLACED = frozenset({"published", "retrying", "snoozed", "parked"})
"""The states of a row that Redis holds."""


@dataclass(slots=True)
class Row:
    """A row of the outbox. `input` and `headers` are JSON texts; window and waits of its key are in seconds.

    Args:
        fence: publication and start of the attempt that has claimed the run; `holder` its worker.
        parent: the run that waits for the end of this one.
        wake_at: from when on the run must be looked at again, whoever holds it.
        settled: the publication whose end left the row here.
        undo: a step of the run has registered an undo.
        ending: how the run ends once its undos have run: word, reason, failures.
        key_since: since when its key counts, or the burst that it ends.
        moving: Redis has yet to be told of another priority, or of the time in `move_to`.
    """

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
    version: str | None = None
    fence: tuple[int, int] | None = None
    holder: str | None = None
    parent: UUID | None = None
    wake_at: datetime | None = None
    settled: int = 0
    undo: bool = False
    ending: dict[str, Any] | None = None
    lane: str | None = None
    share_key: str | None = None
    key_policy: str | None = None
    key_wait: float | None = None
    key_longest: float | None = None
    result_ttl: float | None = None
    key_since: datetime | None = None
    moving: bool = False
    move_to: datetime | None = None

    def key_until(self, ended_at: datetime) -> datetime | None:
        """Until when it holds its key, where it ended then."""
        since = self.key_since if self.key_policy == "throttle" else ended_at
        return None if self.key_window is None or since is None else since + timedelta(seconds=self.key_window)


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
    share_by: str | None = None
    shares: str = "{}"


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
        return self.row.key_until(self.died_at)


@dataclass(slots=True)
class StepRow:
    """What a run did, or waits for."""

    run: UUID
    name: str
    seq: int
    kind: str
    state: str
    tries: int = 0
    due: datetime | None = None
    awaited: bool = False
    event: str | None = None
    key: str | None = None
    child: UUID | None = None
    undo: bool = False
    codec: str | None = None
    value: bytes | None = None
    detail: dict[str, Any] | None = None
    started_at: datetime = LONG_AGO
    ended_at: datetime | None = None


@dataclass(slots=True)
class EventRow:
    """An event that was sent. `input` is JSON text; `run` and `step` took it at `taken_at`."""

    id: int
    name: str
    key: str
    input: str | None
    payload: bytes | None
    codec: str | None
    sent_at: datetime
    expires_at: datetime
    looked_at: datetime | None = None
    taken_at: datetime | None = None
    run: UUID | None = None
    step: str | None = None

    @property
    def value(self) -> tuple[str | None, bytes | None]:
        """Codec and bytes, as a record holds them."""
        return ("json", self.input.encode()) if self.input is not None else (self.codec, self.payload)


@dataclass(slots=True)
class ScheduleRow:
    """A schedule. `input` and `headers` are JSON texts, durations are in seconds."""

    name: str
    job: str
    queue: str
    input: str | None
    payload: bytes | None
    codec: str | None
    priority: int
    max_attempts: int | None
    expires_in: float | None
    tenant_id: str | None
    headers: str | None
    cron: str | None
    every: float | None
    zone: str
    starts_at: datetime | None
    ends_at: datetime | None
    jitter: float
    catch_up: str
    max_catch_up: int
    misfire_grace: float | None
    overlap: str
    enabled: bool
    declared_by: str | None
    watermark: datetime
    lane: str | None = None
    share_key: str | None = None
    idempotency_key: str | None = None
    key_policy: str | None = None
    key_window: float | None = None
    key_wait: float | None = None
    key_longest: float | None = None
    revision: int = 0
    next_run: datetime | None = None
    stale: bool = True
    reader: str | None = None
    trouble: str | None = None
    dispatches: int = 0
    last_dispatch: datetime | None = None
    last_occurrence: datetime | None = None
    last_job: UUID | None = None
    passed_over: dict[str, Any] | None = None


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
        self.schedules: dict[str, ScheduleRow] = {}
        self.steps: dict[tuple[UUID, str], StepRow] = {}
        """By run and name."""
        self.events: dict[int, EventRow] = {}
        self.asleep = True
        """Whether those who send events must notify."""
        self.open: set[int] = set()
        """The numbers of transactions that have not ended."""
        self._next_xact = 1
        self._next_seq = 1
        self._next_step = 1
        self._next_event = 1

    def next_xact(self) -> int:
        """The number of a transaction that begins to write."""
        number, self._next_xact = self._next_xact, self._next_xact + 1
        return number

    def next_seq(self) -> int:
        """The next place in line; never given twice, whatever is rolled back."""
        place, self._next_seq = self._next_seq, self._next_seq + 1
        return place

    def next_step(self) -> int:
        """The next `seq` of a record."""
        place, self._next_step = self._next_step, self._next_step + 1
        return place

    def next_event(self) -> int:
        """The next id of an event."""
        number, self._next_event = self._next_event, self._next_event + 1
        return number

    def records(self, run: UUID) -> list[StepRow]:
        """The records of a run, in the order of their beginning."""
        return sorted((each for each in self.steps.values() if each.run == run), key=lambda each: each.seq)

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
