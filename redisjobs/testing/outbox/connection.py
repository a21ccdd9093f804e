"""Connections to the tables in memory: transactions and savepoints as psycopg has them, for calls alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any, Self
from uuid import UUID

import psycopg

from redisjobs.errors import ConfigurationError
from redisjobs.testing.outbox.staging import Transaction
from redisjobs.testing.outbox.tables import Row, Tables


class _Session:
    """What both connections have in common.

    Args:
        tables: shared with whoever else shall see the commits; None: tables of its own.
        autocommit: each statement outside of `transaction()` commits itself.
    """

    def __init__(self, tables: Tables | None = None, *, autocommit: bool = False) -> None:
        self.tables = tables or Tables(_machine_time)
        self.autocommit = autocommit
        self.closed = False
        self._transaction = Transaction(self.tables)
        self._blocks = 0

    @property
    def rows(self) -> list[Row]:
        """The committed rows, in their order in line."""
        with self.tables.lock:
            return sorted(self.tables.outbox.values(), key=lambda row: row.seq)

    def sees(self, job_id: str) -> bool:
        """Whether a job is there for this connection: committed, or staged in its transaction."""
        return self._transaction.sees(UUID(job_id))

    @property
    def is_failed(self) -> bool:
        """A statement was refused: nothing of the transaction can be committed."""
        return self._transaction.failed

    def _run(self, statement: bytes, parameters: dict[str, Any]) -> Any:
        if self.closed:
            raise psycopg.OperationalError("the connection is closed")
        alone = self.autocommit and not self._blocks
        try:
            answer = self._transaction.run(statement, parameters)
        except BaseException:
            if alone:
                self._transaction.roll_back()
            raise
        if alone:
            self._transaction.commit()
        return answer

    def _end(self, *, well: bool) -> None:
        if self._blocks:
            raise psycopg.ProgrammingError("Explicit commit() or rollback() forbidden within a Transaction context")
        if well:
            self._transaction.commit()
        else:
            self._transaction.roll_back()

    @contextmanager
    def _block(self, *, force_rollback: bool) -> Generator[None]:
        outermost = not self._transaction.is_open
        self._transaction.begin()  # which Postgres refuses, as it does any statement, where one has failed before
        savepoint = self._transaction.savepoint()
        self._blocks += 1
        well = False
        try:
            yield
            well = not force_rollback
        except psycopg.Rollback as wanted:
            if wanted.transaction is not None:
                raise
        finally:
            self._blocks -= 1
            if outermost:
                self._end(well=well)
            elif not well:
                self._transaction.roll_back_to(savepoint)

    def _refuse(self) -> ConfigurationError:
        return ConfigurationError(
            "a connection in memory takes calls and no other statement: give the code under test a real one, "
            "such as that of redisjobs.embedded, or keep its own statements behind something that you replace"
        )


class MemoryConnection(_Session):
    """For `job.enqueue(connection, …)` and `app.cancel(connection, …)`, without a Postgres.

    As a context manager it commits at the end of the block, or rolls back after an error, and closes.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(well=kind is None)
        self.close()

    def run_ours(self, statement: bytes, parameters: dict[str, Any], /) -> Any:
        """Run one of our statements; the app calls it."""
        return self._run(statement, parameters)

    def commit(self) -> None:
        """End the transaction; what it staged is enqueued."""
        self._end(well=True)

    def rollback(self) -> None:
        """End the transaction; what it staged was never there."""
        self._end(well=False)

    @contextmanager
    def transaction(self, *, force_rollback: bool = False) -> Generator[None]:
        """A transaction, or inside of one a savepoint: kept at the end of the block, taken back after an error."""
        with self._block(force_rollback=force_rollback):
            yield

    def close(self) -> None:
        """Roll back what is open."""
        self._transaction.roll_back()
        self.closed = True

    def execute(self, *_: object, **__: object) -> None:
        """Not here.

        Raises:
            ConfigurationError: always.
        """
        raise self._refuse()


class AsyncMemoryConnection(_Session):
    """As `MemoryConnection`, awaited."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(well=kind is None)
        await self.close()

    async def run_ours_async(self, statement: bytes, parameters: dict[str, Any], /) -> Any:
        """Run one of our statements; the app calls it."""
        return self._run(statement, parameters)

    async def commit(self) -> None:
        """End the transaction; what it staged is enqueued."""
        self._end(well=True)

    async def rollback(self) -> None:
        """End the transaction; what it staged was never there."""
        self._end(well=False)

    @asynccontextmanager
    async def transaction(self, *, force_rollback: bool = False) -> AsyncGenerator[None]:
        """A transaction, or inside of one a savepoint: kept at the end of the block, taken back after an error."""
        with self._block(force_rollback=force_rollback):
            yield

    async def close(self) -> None:
        """Roll back what is open."""
        self._transaction.roll_back()
        self.closed = True

    async def execute(self, *_: object, **__: object) -> None:
        """Not here.

        Raises:
            ConfigurationError: always.
        """
        raise self._refuse()


def _machine_time() -> datetime:
    return datetime.now(UTC)
