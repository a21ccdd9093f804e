"""Which driver a connection belongs to. Modules of others are imported only when one of their objects comes."""

from __future__ import annotations

from typing import Any, cast

import psycopg

from redisjobs.base import connections
from redisjobs.drivers import foreign
from redisjobs.drivers.driver import AsyncDriver, Statement, SyncDriver
from redisjobs.drivers.psycopg import AsyncPsycopg, Psycopg
from redisjobs.errors import OptionError

_SYNC, _ASYNC = Psycopg(), AsyncPsycopg()
_FOUND: dict[type[Any], SyncDriver | AsyncDriver] = {}
"""By the class of a connection."""


def is_async(connection: object) -> bool:
    """Whether calls on this connection are awaited.

    Raises:
        OptionError: it is none that is known; tells which are.
    """
    return isinstance(driver_of(connection), AsyncDriver)


def send(connection: connections.Sync, statement: Statement) -> None:
    """Send a statement in the caller's transaction; `SyncDriver` says what fails."""
    cast("SyncDriver", driver_of(connection)).send(connection, statement)


async def send_async(connection: connections.Async, statement: Statement) -> None:
    """As `send`, on an async connection."""
    await cast("AsyncDriver", driver_of(connection)).send(connection, statement)


def ask(connection: connections.Sync, statement: Statement) -> Any:
    """As `send`; the one value that comes back."""
    return cast("SyncDriver", driver_of(connection)).ask(connection, statement)


async def ask_async(connection: connections.Async, statement: Statement) -> Any:
    """As `ask`, on an async connection."""
    return await cast("AsyncDriver", driver_of(connection)).ask(connection, statement)


def driver_of(connection: object) -> SyncDriver | AsyncDriver:
    """Who speaks over this connection.

    Raises:
        OptionError: it is none that is known; tells which are.
    """
    if isinstance(connection, (psycopg.Connection, psycopg.Cursor)):
        return _SYNC
    if isinstance(connection, (psycopg.AsyncConnection, psycopg.AsyncCursor)):
        return _ASYNC
    kind = type(connection)
    driver = _FOUND.get(kind) or _of_others(kind)
    if driver is None:
        raise OptionError(
            "connection",
            f"{kind.__module__}.{kind.__qualname__}",
            "is none: pass a connection or a cursor of psycopg 3, sync or async; a Session, AsyncSession, Connection "
            "or AsyncConnection of SQLAlchemy 2 (extra [sqlalchemy]); a connection of asyncpg (extra [asyncpg]), not "
            "its pool; or django.db.connection (extra [django])",
        )
    _FOUND[kind] = driver
    return driver


def _of_others(kind: type[Any]) -> SyncDriver | AsyncDriver | None:
    packages = {each.__module__.partition(".")[0] for each in kind.__mro__}
    if "sqlalchemy" in packages:
        from redisjobs.drivers import sqlalchemy  # noqa: PLC0415  # of an extra

        return sqlalchemy.driver_of(kind)
    if "asyncpg" in packages:
        from redisjobs.drivers import asyncpg  # noqa: PLC0415  # likewise

        return asyncpg.driver_of(kind)
    if "django" in packages:
        from redisjobs.drivers import django  # noqa: PLC0415  # likewise

        return django.driver_of(kind)
    return foreign.driver_of(kind)
