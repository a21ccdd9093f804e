"""The statements of producers, in a transaction that ends one way or the other."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from psycopg import errors

from redisjobs.errors import ConfigurationError, EnqueueError
from redisjobs.testing.outbox import moving
from redisjobs.testing.outbox.checks import check
from redisjobs.testing.outbox.names import name_of
from redisjobs.testing.outbox.scheduling import SCHEDULES
from redisjobs.testing.outbox.tables import EventRow, Row, Tables

Parameters = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """What a transaction has done: staged a row, asked for the end of a job or for another place, sent an event, or
    changed a schedule.
    """

    row: Row | None = None
    cancelled: UUID | None = None
    event: EventRow | None = None
    scheduled: Callable[[Tables], object] | None = None
    moved: tuple[UUID, Callable[[Row], object]] | None = None


class Transaction:
    """Changes that nobody else sees before `commit`. It begins with the first statement, like one of Postgres.

    A statement that is refused fails the transaction: until a rollback, to a savepoint or of all, nothing more runs.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.failed = False
        self._changes: list[Change] = []
        self._xact: int | None = None
        self._began = False

    @property
    def is_open(self) -> bool:
        """A statement has run, or was asked for, since the last end."""
        return self._began

    def begin(self) -> None:
        """From now on it is open, also without a statement.

        Raises:
            psycopg.errors.InFailedSqlTransaction: a statement was refused before.
        """
        if self.failed:
            raise errors.InFailedSqlTransaction(
                "current transaction is aborted, commands ignored until end of transaction block"
            )
        self._began = True

    def run(self, statement: bytes, parameters: Parameters) -> Any:
        """Run a statement of the stations `outbox` and `events`.

        Raises:
            EnqueueError: the row is refused.
            psycopg.errors.InFailedSqlTransaction: one was refused before.
        """
        self.begin()
        with self.tables.lock:
            try:
                return _named(statement)(self, parameters)
            except Exception:
                self.failed = True
                raise

    def savepoint(self) -> int:
        """A place to roll back to."""
        return len(self._changes)

    def roll_back_to(self, savepoint: int) -> None:
        """Take back everything since; a failed transaction may go on."""
        del self._changes[savepoint:]
        self.failed = False

    def commit(self) -> None:
        """Everything is there now, unless the transaction has failed: then nothing is, as in Postgres."""
        with self.tables.lock:
            for change in [] if self.failed else self._changes:
                if change.row is not None:
                    self.tables.outbox[change.row.id] = change.row
                if change.event is not None:
                    self.tables.events[change.event.id] = change.event
                if change.scheduled is not None:
                    change.scheduled(self.tables)
                if change.cancelled is not None and change.cancelled in self.tables.outbox:
                    self.tables.outbox[change.cancelled].cancel_requested = True
                if change.moved is not None and (row := self.tables.outbox.get(change.moved[0])) is not None:
                    change.moved[1](row)
            self._end()

    def roll_back(self) -> None:
        """Nothing of it was ever there."""
        with self.tables.lock:
            self._end()

    def sees(self, job_id: UUID) -> bool:
        """Whether a job is there, for this transaction: committed by anybody, or staged by itself."""
        with self.tables.lock:
            tables = self.tables
            known = job_id in tables.outbox or job_id in tables.dead or tables.ended(job_id) is not None
        return known or any(change.row is not None and change.row.id == job_id for change in self._changes)

    def _end(self) -> None:
        if self._xact is not None:
            self.tables.open.discard(self._xact)
        self._changes, self._xact, self._began, self.failed = [], None, False, False

    # -- statements
    def stage(self, given: Parameters) -> None:
        """One row."""
        if self._xact is None:
            self._xact = self.tables.next_xact()
            self.tables.open.add(self._xact)
        row = self._row(given)
        check(row)
        if row.id in self.tables.outbox or any(
            each.row is not None and each.row.id == row.id for each in self._changes
        ):
            raise EnqueueError("this call was enqueued before, and a call is one job: make a new one")
        self._changes.append(Change(row))

    def stage_many(self, given: Parameters) -> None:
        """Rows from lists, in their order; all of them or none."""
        savepoint = self.savepoint()
        try:
            for place in range(len(given["id"])):
                self.stage({column: values[place] for column, values in given.items()})
        except Exception:
            del self._changes[savepoint:]
            raise

    def send(self, given: Parameters) -> None:
        """One event."""
        columns = {name: given[name] for name in given if name != "expires_in"}
        now, until = self.tables.now(), self.tables.in_seconds(given["expires_in"])
        self._changes.append(Change(event=EventRow(self.tables.next_event(), **columns, sent_at=now, expires_at=until)))

    def send_many(self, given: Parameters) -> None:
        """Events from lists, in their order."""
        for place in range(len(given["name"])):
            self.send({column: values[place] for column, values in given.items()})

    def cancel(self, given: Parameters) -> str:
        """Flag a job; answers what `redisjobs.cancel` answers."""
        job_id: UUID = given["id"]
        if self._row_of(job_id) is not None:
            self._changes.append(Change(cancelled=job_id))
            return "requested"
        return self._end_of(job_id)

    def move(self, how: Callable[[Row, Parameters], str], given: Parameters) -> str:
        """Give a job another priority or time, seen with the commit; answers what the function of this name does."""
        job_id: UUID = given["id"]
        row = self._row_of(job_id)
        if row is None:
            return self._end_of(job_id)
        self._changes.append(Change(moved=(job_id, lambda there: how(there, given))))
        return how(replace(row), given)

    def _row_of(self, job_id: UUID) -> Row | None:
        """The row of a live job, for this transaction."""
        staged = [change.row for change in self._changes if change.row is not None and change.row.id == job_id]
        return self.tables.outbox.get(job_id) or next(iter(staged), None)

    def _end_of(self, job_id: UUID) -> str:
        ended = self.tables.ended(job_id)
        if ended is not None:
            return ended.state
        return "dead" if job_id in self.tables.dead else "unknown"

    def schedule(self, name: str, given: Parameters) -> Any:
        """Run a statement of the station `schedules`: now on a copy, for its answer; at the commit for all to see."""
        seen = Tables(self.tables.now)
        seen.schedules = deepcopy(self.tables.schedules)
        for change in self._changes:
            if change.scheduled is not None:
                change.scheduled(seen)
        statement = SCHEDULES[name]
        [[answer]] = statement(seen, given)
        if name == "trigger":
            rows = seen.outbox.values()
            self._changes += [Change(replace(row, seq=self.tables.next_seq())) for row in rows]
        else:
            self._changes.append(Change(scheduled=lambda tables: statement(tables, given)))
        return answer

    def _row(self, given: Parameters) -> Row:
        columns = {name: given[name] for name in given if name not in ("delay", "expires_in")}
        for column, distance in (("run_at", "delay"), ("expires_at", "expires_in")):
            if columns[column] is None and given[distance] is not None:
                columns[column] = self.tables.in_seconds(given[distance])
        return Row(**columns, staged_at=self.tables.now(), xact=self._xact or 0, seq=self.tables.next_seq())


_BY_NAME: dict[str, Callable[[Transaction, Parameters], Any]] = {
    "stage": Transaction.stage,
    "stage_many": Transaction.stage_many,
    "cancel": Transaction.cancel,
    "reprioritize": lambda transaction, given: transaction.move(moving.reprioritize, given),
    "reschedule": lambda transaction, given: transaction.move(
        moving.reschedule, moving.resolved(transaction.tables, given)
    ),
    "send": Transaction.send,
    "send_many": Transaction.send_many,
}


def _named(statement: bytes) -> Callable[[Transaction, Parameters], Any]:
    if scheduling := name_of(statement, "schedules"):
        return lambda transaction, given: transaction.schedule(scheduling, given)
    name = name_of(statement, "outbox") or name_of(statement, "events")
    if name not in _BY_NAME:
        raise ConfigurationError(f"a connection in memory cannot run this statement: {statement[:60].decode()}…")
    return _BY_NAME[name]
