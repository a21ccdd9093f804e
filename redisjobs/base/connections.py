"""The connections that a caller may enqueue on, named in one place.

Only psycopg is there in any case. The others are told by their shape, so that whoever has not installed them
loses no type.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import psycopg


@runtime_checkable
class SyncTransaction(Protocol):
    """A transaction that psycopg does not run, such as one of the test kit's memory."""

    def run_ours(self, statement: bytes, parameters: dict[str, Any], /) -> Any:
        """Run one of our statements in it; the one value that it answers, if it answers one."""
        ...


@runtime_checkable
class AsyncTransaction(Protocol):
    """As `SyncTransaction`, awaited."""

    async def run_ours_async(self, statement: bytes, parameters: dict[str, Any], /) -> Any:
        """Run one of our statements in it; the one value that it answers, if it answers one."""
        ...


class Rows(Protocol):
    """What SQLAlchemy answers to a statement."""

    def fetchone(self) -> Any: ...


class SqlConnection(Protocol):
    """A `Connection` of SQLAlchemy."""

    @property
    def dialect(self) -> Any: ...

    def exec_driver_sql(self, statement: str, /) -> Rows: ...


class SqlSession(Protocol):
    """A `Session` of SQLAlchemy, or a `scoped_session`."""

    def connection(self) -> SqlConnection: ...

    def flush(self) -> None: ...


class AsyncSqlConnection(Protocol):
    """An `AsyncConnection` of SQLAlchemy."""

    @property
    def dialect(self) -> Any: ...

    def exec_driver_sql(self, statement: str, /) -> Awaitable[Rows]: ...


class AsyncSqlSession(Protocol):
    """An `AsyncSession` of SQLAlchemy, or an `async_scoped_session`."""

    def connection(self) -> Awaitable[AsyncSqlConnection]: ...

    def flush(self) -> Awaitable[None]: ...


class DjangoConnection(Protocol):
    """`django.db.connection`, or one of `django.db.connections`."""

    @property
    def alias(self) -> str: ...

    @property
    def vendor(self) -> str: ...

    def ensure_connection(self) -> None: ...


class AsyncpgConnection(Protocol):
    """A `Connection` of asyncpg, also one that its pool gave."""

    def fetchval(self, query: str, /) -> Awaitable[Any]: ...


OtherSync: TypeAlias = SyncTransaction | SqlConnection | SqlSession | DjangoConnection
OtherAsync: TypeAlias = AsyncTransaction | AsyncSqlConnection | AsyncSqlSession | AsyncpgConnection
Sync: TypeAlias = "psycopg.Connection[Any] | psycopg.Cursor[Any] | OtherSync"
Async: TypeAlias = "psycopg.AsyncConnection[Any] | psycopg.AsyncCursor[Any] | OtherAsync"
