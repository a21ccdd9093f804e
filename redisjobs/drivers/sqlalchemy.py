"""SQLAlchemy 2: sessions and connections, sync and async, on psycopg 3, psycopg2 or asyncpg. Its extra: `[sqlalchemy]`.

The row goes into the transaction, and the savepoint, that the session or connection is in; a session begins one as
it does for any statement. Nothing is flushed: an object that was only added has no generated id yet.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from redisjobs.drivers.driver import AsyncDriver, Statement, SyncDriver
from redisjobs.drivers.forms import named, numbered
from redisjobs.drivers.words import in_our_words
from redisjobs.errors import ConfigurationError, RedisjobsError

_FORMS = {"psycopg": named, "psycopg2": named, "asyncpg": numbered}


class OnConnection(SyncDriver):
    """`sqlalchemy.Connection`."""

    __slots__ = ()

    def send(self, connection: Any, statement: Statement) -> None:
        """Send a statement that answers nothing."""
        with told():
            connection.exec_driver_sql(*_form(connection, statement))

    def ask(self, connection: Any, statement: Statement) -> Any:
        """Send a statement; the one value that comes back."""
        with told():
            return connection.exec_driver_sql(*_form(connection, statement)).scalar_one()


class OnSession(OnConnection):
    """`sqlalchemy.orm.Session`."""

    __slots__ = ()

    def send(self, connection: Any, statement: Statement) -> None:
        """Send a statement that answers nothing."""
        super().send(connection.connection(), statement)

    def ask(self, connection: Any, statement: Statement) -> Any:
        """Send a statement; the one value that comes back."""
        return super().ask(connection.connection(), statement)


class OnAsyncConnection(AsyncDriver):
    """`sqlalchemy.ext.asyncio.AsyncConnection`."""

    __slots__ = ()

    async def send(self, connection: Any, statement: Statement) -> None:
        """Send a statement that answers nothing."""
        with told():
            await connection.exec_driver_sql(*_form(connection, statement))

    async def ask(self, connection: Any, statement: Statement) -> Any:
        """Send a statement; the one value that comes back."""
        with told():
            return (await connection.exec_driver_sql(*_form(connection, statement))).scalar_one()


class OnAsyncSession(OnAsyncConnection):
    """`sqlalchemy.ext.asyncio.AsyncSession`."""

    __slots__ = ()

    async def send(self, connection: Any, statement: Statement) -> None:
        """Send a statement that answers nothing."""
        await super().send(await connection.connection(), statement)

    async def ask(self, connection: Any, statement: Statement) -> Any:
        """Send a statement; the one value that comes back."""
        return await super().ask(await connection.connection(), statement)


_KINDS: tuple[tuple[tuple[type, ...], SyncDriver | AsyncDriver], ...] = (
    ((Session, scoped_session), OnSession()),
    ((Connection,), OnConnection()),
    ((AsyncSession, async_scoped_session), OnAsyncSession()),
    ((AsyncConnection,), OnAsyncConnection()),
)


def driver_of(kind: type) -> SyncDriver | AsyncDriver | None:
    """Who speaks over objects of this class; None: it is neither a session nor a connection."""
    return next((driver for kinds, driver in _KINDS if issubclass(kind, kinds)), None)


@contextmanager
def told() -> Generator[None]:
    """Turns what is certainly about the outbox into our errors. No text shows the job's arguments."""
    try:
        yield
    except DBAPIError as error:
        error.hide_parameters = True
        ours = _refusal(error.orig)
        if ours is None:
            raise
        raise ours from error


def _refusal(error: BaseException | None) -> RedisjobsError | None:
    about = getattr(error, "diag", None)
    if about is not None:  # psycopg 3 and psycopg2
        code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        return in_our_words(code, about.message_primary, about.table_name, about.constraint_name)
    cause: Any = getattr(error, "__cause__", None)  # SQLAlchemy stands between asyncpg and its callers
    names = ("sqlstate", "message", "table_name", "constraint_name")
    code, message, table, rule = (getattr(cause, name, None) for name in names)
    return in_our_words(code, message, table, rule)


def _form(connection: Any, statement: Statement) -> tuple[str, Any]:
    dialect = connection.dialect
    form = _FORMS.get(dialect.driver) if dialect.name == "postgresql" else None
    if form is None:
        raise ConfigurationError(
            f"this engine speaks {dialect.name} through {dialect.driver}: enqueue in a transaction of Postgres, with "
            "an engine of postgresql+psycopg:// (sync or async), postgresql+psycopg2:// or postgresql+asyncpg://"
        )
    return form(statement)
