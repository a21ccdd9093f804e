"""The statements of producers, in a transaction that ends one way or the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import errors

from redisjobs.errors import ConfigurationError, EnqueueError
from redisjobs.testing.outbox.checks import check
from redisjobs.testing.outbox.names import name_of
from redisjobs.testing.outbox.tables import Row, Tables

Parameters = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """What a transaction has done: staged a row, or asked for the end of a job."""

    row: Row | None = None
    cancelled: UUID | None = None


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
        """Run a statement of the station `outbox`.

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
                if change.cancelled is not None and change.cancelled in self.tables.outbox:
                    self.tables.outbox[change.cancelled].cancel_requested = True
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

    def cancel(self, given: Parameters) -> str:
        """Flag a job; answers what `redisjobs.cancel` answers."""
        job_id: UUID = given["id"]
        staged = [change.row for change in self._changes if change.row is not None]
        if job_id in self.tables.outbox or any(row.id == job_id for row in staged):
            self._changes.append(Change(cancelled=job_id))
            return "requested"
        ended = self.tables.ended(job_id)
        if ended is not None:
            return ended.state
        return "dead" if job_id in self.tables.dead else "unknown"

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
}


def _named(statement: bytes) -> Callable[[Transaction, Parameters], Any]:
    name = name_of(statement, "outbox")
    if name not in _BY_NAME:
        raise ConfigurationError(f"a connection in memory cannot run this statement: {statement[:60].decode()}…")
    return _BY_NAME[name]
