"""What an operator asks Postgres and does in it: the questions behind the command line, typed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from redisjobs.base import statements
from redisjobs.base.asking import Asking
from redisjobs.base.ids import made_at
from redisjobs.base.postgres import in_our_words
from redisjobs.events import NewEvent

_NAMES = (
    "server", "queues", "job", "cancel", "reprioritize", "reschedule", "dead_among", "redrive", "purge", "arguments",
    "set_aside_rows", "move", "states", "pause", "share_by", "set_share", "turn", "send_event", "events",
)  # fmt: skip
statements.load("operator").require(*_NAMES)

T = TypeVar("T")

AT_ONCE = 500
"""Dead letters in one transaction."""
DEADLOCKS = 3
"""How often a statement is repeated that Postgres ended because of a deadlock."""
MOST_BYTES = 256 * 1024 * 1024
"""Up to this size of the table are the jobs counted that have ended: more than a million, in less than a second."""
Failure = dict[str, Any]
"""An attempt's error as it stands in Postgres: attempt, at, type, message, traceback."""


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue in Postgres.

    Args:
        holder: the relay that holds it, or held it last. lease_left_s: below 0: nobody holds it.
        failing: the row that stops it, with id, job and error.
        share_by: tenant: jobs without a share key are taken in turn by it. shares: what is set for shares, as JSON.
        states: live jobs by state. oldest_s: the age of its oldest live job.
        oldest_staged_s: the age of the oldest row that the relay has not published. oldest_parked_s: of the oldest
            parked job. oldest_dead_s: how long ago the oldest dead letter died.
        finished: None: too many to be counted in a moment.
    """

    queue: str
    holder: str | None
    token: int | None
    paused: bool
    failing: dict[str, Any] | None
    epoch: str | None
    share_by: str | None
    shares: str
    lease_left_s: float | None
    states: dict[str, int]
    oldest_s: float | None
    oldest_staged_s: float | None
    oldest_parked_s: float | None
    oldest_dead_s: float | None
    dead: int
    finished: int | None

    @property
    def is_held(self) -> bool:
        """Whether a relay holds it now."""
        return self.lease_left_s is not None and self.lease_left_s > 0


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job in a list.

    Args:
        error: why it ended as it did, or what its last attempt failed with.
        earlier_error: of a job that is done: what the last attempt before failed with.
    """

    id: UUID
    job: str
    queue: str
    state: str
    attempts: int
    tenant_id: str | None
    staged_at: datetime | None
    ended_at: datetime | None
    error: str | None
    earlier_error: str | None = None


@dataclass(frozen=True, slots=True)
class JobRow:
    """All that Postgres knows of a job, but its arguments; its errors as in `JobLine`.

    Args:
        made_at: of the job, however often it was redriven, by its id; None: ids of this version do not tell.
        staged_at: of its present life, which begins anew with each redrive.
    """

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
    made_at: datetime | None = field(default=None, kw_only=True)
    staged_at: datetime | None
    published_at: datetime | None
    run_at: datetime | None
    expires_at: datetime | None
    ended_at: datetime | None
    duplicate_of: UUID | None
    error: str | None
    earlier_error: str | None
    failures: list[Failure] | None


@dataclass(frozen=True, slots=True)
class EventLine:
    """An event in a list; `run` and `step` have taken it. Distances are seconds by Postgres' clock."""

    id: int
    name: str
    key: str
    sent_at: datetime
    age_s: float
    expires_in_s: float
    taken_at: datetime | None
    run: UUID | None
    step: str | None


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


class Operator(Asking):
    """Asks and acts, over one connection; every call is a transaction of its own.

    Its role needs what `redisjobs.grant_operator` gives.

    Raises:
        DatabaseUnavailable: no answer. ConfigurationError: the schema is missing. StoreRefused: a right is missing.
    """

    def __init__(self, url: str, schema: str = statements.SCHEMA) -> None:
        self._sql = statements.load("operator", schema).require(*_NAMES)
        super().__init__(url)

    # -- looking
    def server(self) -> tuple[str, bool]:
        """The version of Postgres, and whether it is a standby, which takes no writes."""
        version, standby = self._rows("look at Postgres", self._sql.server)[0]
        return str(version), bool(standby)

    def queues(self) -> list[QueueLine]:
        """Every queue that Postgres knows."""
        return self._all("look at queues", QueueLine, self._sql.queues, {"most_bytes": MOST_BYTES})

    def job(self, job_id: UUID) -> JobRow | None:
        """A job's row, wherever it stands."""
        found = next(iter(self._all("look at a job", JobRow, self._sql.job, {"id": job_id})), None)
        return found and replace(found, made_at=made_at(job_id))

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

    def events(self, *, name: str | None, key: str | None, free: bool, limit: int) -> list[EventLine]:
        """The youngest events, of this name and with this key if they are given; `free`: that nobody has taken."""
        given = {"name": name, "key": key, "free": free, "limit": limit}
        return self._all("look at events", EventLine, self._sql.events, given)

    # -- acting
    def send_event(self, event: NewEvent, text: str | None) -> int:
        """Send an event, with this JSON text as its data; answers its id."""
        given = {"name": event.name, "key": event.key, "input": text, "expires_in": event.expires_in}
        return int(self._rows("send an event", self._sql.send_event, given)[0][0])

    def cancel(self, ids: Sequence[UUID]) -> dict[UUID, str]:
        """Ask for the end of jobs: requested, how a job has ended, or unknown."""
        return dict(self._act("cancel", self._sql.cancel, {"ids": list(ids)}))

    def reprioritize(self, ids: Sequence[UUID], priority: int) -> dict[UUID, str]:
        """Give jobs that wait another priority: changed, requested, how a job has ended, or unknown."""
        return dict(self._act("change a priority", self._sql.reprioritize, {"ids": list(ids), "priority": priority}))

    def reschedule(
        self, ids: Sequence[UUID], *, run_at: datetime | None = None, delay: float | None = None
    ) -> dict[UUID, str]:
        """Give jobs that wait another time, or now; `delay` in seconds. As `reprioritize`; or suspended: left alone."""
        given = {"ids": list(ids), "run_at": run_at, "delay": delay}
        return dict(self._act("change a time", self._sql.reschedule, given))

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

    def share_by(self, queue: str, key: str | None) -> None:
        """Take jobs of a queue that have no share key in turn by `tenant`, or by nothing."""
        self._rows("share a queue", self._sql.share_by, {"queue": queue, "key": key})

    def set_share(self, queue: str, share: str, *, weight: float | None = None, paused: bool | None = None) -> None:
        """Set the weight of a share, pause it or let it go on; what is None stays as it is."""
        given = {"queue": queue, "share": share, "weight": weight, "paused": paused}
        self._rows("set a share", self._sql.set_share, given)

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
