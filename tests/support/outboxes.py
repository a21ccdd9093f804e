"""The two stores of the outbox, Postgres and memory, as one thing: what a test does to one, it can do to the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Protocol

import psycopg
from psycopg.rows import dict_row

from redisjobs.base import statements
from redisjobs.base.postgres import Database
from redisjobs.testing.outbox import MemoryConnection, MemoryDatabase, Row, Tables

COLUMNS = tuple(field.name for field in fields(Row))


class SyncConnection(Protocol):
    """What a test does on a connection of either kind."""

    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...
    def transaction(self, *, force_rollback: bool = False) -> AbstractContextManager[Any]: ...


class AnyOutbox:
    """One of the two, empty.

    Attributes:
        name: postgres or memory.
        database: as the relay sees it.
        connect: opens a connection for producers, which is closed with the test.
    """

    def __init__(self, name: str, database: Database, connect: Callable[..., Any], rows: Callable[[], Any]) -> None:
        self.name = name
        self.database = database
        self.connect = connect
        self._rows = rows

    def rows(self) -> list[dict[str, Any]]:
        """The committed rows, in their order in line."""
        found: list[dict[str, Any]] = self._rows()
        return found

    async def ask(self, station: str, name: str, /, **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement; one that only changes answers one empty row for each row that it changed."""
        statement = statements.load(station)[name]
        async with self.database.transaction(name) as connection:
            cursor = await connection.execute(statement, parameters, binary=True)
            return await cursor.fetchall() if cursor.description else [()] * cursor.rowcount


def in_memory() -> AnyOutbox:
    """The store of the test kit, by the clock of the machine."""
    tables = Tables(lambda: datetime.now(UTC))

    def rows() -> list[dict[str, Any]]:
        return [{name: getattr(row, name) for name in COLUMNS} for row in MemoryConnection(tables).rows]

    return AnyOutbox("memory", MemoryDatabase(tables), lambda **options: MemoryConnection(tables, **options), rows)


def in_postgres(url: str, opened: list[Any]) -> AnyOutbox:
    """The real one.

    Args:
        opened: connections are added to it, so that the fixture closes them.
    """

    def connect(**options: Any) -> Any:
        opened.append(psycopg.connect(url, **options))
        return opened[-1]

    def rows() -> list[dict[str, Any]]:
        with psycopg.connect(url) as connection, connection.cursor(row_factory=dict_row) as cursor:
            found = cursor.execute(
                "SELECT *, input::text AS input, headers::text AS headers,"
                " date_part('epoch', key_window) AS key_window, xact::text::bigint AS xact"
                " FROM redisjobs.outbox ORDER BY seq"
            ).fetchall()
        return [{name: _plain(name, row) for name in COLUMNS} for row in found]

    return AnyOutbox("postgres", Database(url, size=1), connect, rows)


def _plain(name: str, row: Mapping[str, Any]) -> Any:
    return (row[name] or []) if name == "failures" else row[name]
