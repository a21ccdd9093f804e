"""psycopg 3, sync and async: connections and cursors. The caller's cursors are left alone, and nothing is prepared."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import psycopg

from redisjobs.base import connections
from redisjobs.drivers.driver import AsyncDriver, Statement, SyncDriver
from redisjobs.drivers.words import in_our_words


class Psycopg(SyncDriver):
    """`psycopg.Connection` and `psycopg.Cursor`."""

    __slots__ = ()

    def send(self, connection: Any, statement: Statement) -> None:
        """Send a statement that answers nothing."""
        with told(), psycopg.Cursor(_connection_of(connection)) as cursor:
            cursor.execute(statement[0], statement[1], prepare=False)

    def ask(self, connection: Any, statement: Statement) -> Any:
        """Send a statement; the one value that comes back."""
        with told(), psycopg.Cursor(_connection_of(connection)) as cursor:
            return _one(cursor.execute(statement[0], statement[1], prepare=False).fetchone())


class AsyncPsycopg(AsyncDriver):
    """`psycopg.AsyncConnection` and `psycopg.AsyncCursor`."""

    __slots__ = ()

    async def send(self, connection: Any, statement: Statement) -> None:
        """Send a statement that answers nothing."""
        with told():
            async with psycopg.AsyncCursor(_async_connection_of(connection)) as cursor:
                await cursor.execute(statement[0], statement[1], prepare=False)

    async def ask(self, connection: Any, statement: Statement) -> Any:
        """Send a statement; the one value that comes back."""
        with told():
            async with psycopg.AsyncCursor(_async_connection_of(connection)) as cursor:
                await cursor.execute(statement[0], statement[1], prepare=False)
                return _one(await cursor.fetchone())


@contextmanager
def told() -> Generator[None]:
    """Turns what is certainly about the outbox into our errors."""
    try:
        yield
    except psycopg.Error as error:
        about = error.diag
        ours = in_our_words(error.sqlstate, about.message_primary, about.table_name, about.constraint_name)
        if ours is None:
            raise
        raise ours from error


def _connection_of(connection: connections.Sync) -> psycopg.Connection[Any]:
    return connection.connection if isinstance(connection, psycopg.Cursor) else cast("psycopg.Connection", connection)


def _async_connection_of(connection: connections.Async) -> psycopg.AsyncConnection[Any]:
    if isinstance(connection, psycopg.AsyncCursor):
        return connection.connection
    return cast("psycopg.AsyncConnection", connection)


def _one(row: Any) -> Any:
    return cast("tuple[Any, ...]", row)[0]
