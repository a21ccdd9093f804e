"""What an operator asks Postgres and does in it: the questions behind the command line, typed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from redisjobs.base import statements
from redisjobs.base.postgres import check_database_url, in_our_words, options

_NAMES = (
    "server", "queues", "job", "cancel", "dead_among", "redrive", "purge", "arguments", "set_aside_rows", "move",
    "states", "pause", "turn",
)  # fmt: skip
statements.load("operator").require(*_NAMES)

T = TypeVar("T")

AT_ONCE = 500
"""Dead letters in one transaction."""
DEADLOCKS = 3
"""How often a statement is repeated that Postgres ended because of a deadlock."""
Failure = dict[str, Any]
"""An attempt's error as it stands in Postgres: attempt, at, type, message, traceback."""


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue in Postgres.

    Args:
        holder: the relay that holds it, or held it last. lease_left_s: below 0: nobody holds it.
        failing: the row that stops it, with id, job and error.
        states: live jobs by state. oldest_s: the age of its oldest live job.
        oldest_staged_s: the age of the oldest row that the relay has not published.
    """

    queue: str
    holder: str | None
    token: int | None
    paused: bool
    failing: dict[str, Any] | None
    epoch: str | None
    lease_left_s: float | None
    states: dict[str, int]
    oldest_s: float | None
    oldest_staged_s: float | None
    dead: int
    finished: int

    @property
    def is_held(self) -> bool:
        """Whether a relay holds it now."""
        return self.lease_left_s is not None and self.lease_left_s > 0


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job in a list."""

    id: UUID
    job: str
    queue: str
    state: str
    attempts: int
    tenant_id: str | None
    staged_at: datetime | None
    ended_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class JobRow:
    """All that Postgres knows of a job, but its arguments."""

    id: UUID
    job: str
    queue: str
    state: str
    priority: int | None
    attempts: int
    max_attempts: int | None
    publications: int | None
    redrives: int
    tenant_id: str | None
    idempotency_key: str | None
    enqueued_by: str | None
    traceparent: str | None
    cancel_requested: bool
    staged_at: datetime | None
    published_at: datetime | None
    run_at: datetime | None
    expires_at: datetime | None
    ended_at: datetime | None
    duplicate_of: UUID | None
    error: str | None
    failures: list[Failure] | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter in a list; `failure` is its last attempt's."""

    id: UUID
    job: str
    queue: str
    attempts: int
    redrives: int
    tenant_id: str | None
    staged_at: datetime | None
    died_at: datetime
    reason: str
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class AsideRow:
    """A row that an operator took out of the line."""

    id: UUID
    job: str
    queue: str
    staged_at: datetime
    age_s: float


class Operator:
    """Asks and acts, over one connection; every call is a transaction of its own.

    Its role needs what `redisjobs.grant_operator` gives.

    Raises:
        DatabaseUnavailable: no answer. ConfigurationError: the schema is missing. StoreRefused: a right is missing.
    """

    def __init__(self, url: str, schema: str = statements.SCHEMA) -> None:
        self._sql = statements.load("operator", schema).require(*_NAMES)
        with in_our_words("connect"):
            self._connection = psycopg.connect(check_database_url(url), **options())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    # -- looking
    def server(self) -> tuple[str, bool]:
        """The version of Postgres, and whether it is a standby, which takes no writes."""
        version, standby = self._rows("look at Postgres", self._sql.server)[0]
        return str(version), bool(standby)

    def queues(self) -> list[QueueLine]:
        """Every queue that Postgres knows."""
        return self._all("look at queues", QueueLine, self._sql.queues)

    def job(self, job_id: UUID) -> JobRow | None:
        """A job's row, wherever it stands."""
        return next(iter(self._all("look at a job", JobRow, self._sql.job, {"id": job_id})), None)

    def dead_among(self, ids: Sequence[UUID]) -> list[UUID]:
        """Those of these that are dead letters, in the order given."""
        dead = {row[0] for row in self._rows("find dead letters", self._sql.dead_among, {"ids": list(ids)})}
        return [each for each in dict.fromkeys(ids) if each in dead]

    def arguments(self, job_id: UUID) -> tuple[str | None, bytes | None, str | None] | None:
        """What a dead letter was called with: JSON text, or a payload and the name of its codec."""
        rows = self._rows("read arguments", self._sql.arguments, {"id": job_id})
        return rows[0] if rows else None

    def set_aside_rows(self, limit: int) -> list[AsideRow]:
        """The oldest rows that were set aside."""
        return self._all("look at rows set aside", AsideRow, self._sql.set_aside_rows, {"limit": limit})

    def states(self, ids: Iterable[UUID]) -> dict[UUID, str]:
        """Where rows of the outbox stand; what is not there is left out."""
        return dict(self._rows("look at rows", self._sql.states, {"ids": list(ids)}))

    # -- acting
    def cancel(self, ids: Sequence[UUID]) -> dict[UUID, str]:
        """Ask for the end of jobs: requested, how a job has ended, or unknown."""
        return dict(self._act("cancel", self._sql.cancel, {"ids": list(ids)}))

    def redrive(self, ids: Sequence[UUID], until: datetime | None = None) -> int:
        """Give dead letters a new life; answers how many were still there, and had died before `until`."""
        parameters = {"ids": list(ids), "until": until}
        return int(self._act("redrive", self._sql.redrive, parameters, in_turn=True)[0][0])

    def purge(self, ids: Sequence[UUID], until: datetime | None = None) -> int:
        """Delete dead letters; answers how many were still there, and had died before `until`."""
        return int(self._act("purge", self._sql.purge, {"ids": list(ids), "until": until}, in_turn=True)[0][0])

    def set_aside(self, ids: Sequence[UUID], *, aside: bool = True) -> int:
        """Take staged rows out of the line, or put those set aside back at its end; answers how many moved."""
        return int(self._rows("set aside", self._sql.move, {"ids": list(ids), "aside": aside})[0][0])

    def pause(self, queue: str, *, paused: bool = True) -> None:
        """Stop the starting of a queue's jobs, or go on."""
        self._rows("pause", self._sql.pause, {"queue": queue, "paused": paused})

    def _act(
        self, what: str, statement: bytes, parameters: dict[str, Any], *, in_turn: bool = False
    ) -> list[tuple[Any, ...]]:
        """A statement that locks many rows. Where somebody else locks them in another order, it is repeated."""
        with in_our_words(what):
            for _ in range(DEADLOCKS):
                with suppress(psycopg.errors.DeadlockDetected):
                    return self._once(statement, parameters, in_turn=in_turn)
            return self._once(statement, parameters, in_turn=in_turn)

    def _once(self, statement: bytes, parameters: dict[str, Any], *, in_turn: bool) -> list[tuple[Any, ...]]:
        with self._connection.transaction():
            if in_turn:
                self._connection.execute(self._sql.turn)
            return self._connection.execute(statement, parameters).fetchall()

    def _rows(self, what: str, statement: bytes, parameters: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        with in_our_words(what):
            return self._connection.execute(statement, parameters or {}).fetchall()

    def _all(self, what: str, kind: type[T], statement: bytes, parameters: dict[str, Any] | None = None) -> list[T]:
        with in_our_words(what), self._connection.cursor(row_factory=class_row(kind)) as cursor:
            return cursor.execute(statement, parameters or {}).fetchall()
