"""The outbox: calls become rows in the caller's own transaction. Committing it is enqueuing; nothing here commits."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

import psycopg
from psycopg import errors

from redisjobs.base import connections, statements
from redisjobs.base.codec import JSON
from redisjobs.call import Call
from redisjobs.errors import ConfigurationError, EnqueueError, OptionError, StoreRefused

Statement: TypeAlias = tuple[bytes, dict[str, Any]]

statements.load("outbox").require("stage", "stage_many", "cancel")


def stage(calls: Sequence[Call[Any]], schema: str = statements.SCHEMA) -> Statement:
    """One statement that stages these calls, with its parameters; for a driver other than psycopg too.

    It answers nothing, so that its sender needs no right but INSERT: the ids are in the calls.

    Raises:
        EnqueueError: no calls, or one of them twice.
    """
    sql = statements.load("outbox", schema)
    if not calls:
        raise EnqueueError("there are no calls to enqueue: pass one at least")
    if len(calls) == 1:
        return sql.stage, _row(calls[0])
    if len({call.id for call in calls}) < len(calls):
        raise EnqueueError("a call is there twice, and a call is one job: make one for each job")
    rows = [_row(call) for call in calls]
    return sql.stage_many, {column: [row[column] for row in rows] for column in rows[0]}


def send(connection: connections.Sync, statement: Statement) -> None:
    """Send a statement on the caller's connection. His cursors are left alone, and so is his transaction.

    Raises:
        EnqueueError: Postgres refuses the row; the caller's transaction is then aborted.
        ConfigurationError: the tables are not there.
        StoreRefused: the role may not do it.
        psycopg.Error: what is the matter with the connection or the transaction itself, unchanged.
    """
    if not isinstance(connection, (psycopg.Connection, psycopg.Cursor)):
        connection.run_ours(*statement)
        return
    with _in_our_words(), psycopg.Cursor(_connection_of(connection)) as cursor:
        cursor.execute(statement[0], statement[1], prepare=False)


async def send_async(connection: connections.Async, statement: Statement) -> None:
    """As `send`, on an async connection."""
    if not isinstance(connection, (psycopg.AsyncConnection, psycopg.AsyncCursor)):
        await connection.run_ours_async(*statement)
        return
    with _in_our_words():
        async with psycopg.AsyncCursor(_async_connection_of(connection)) as cursor:
            await cursor.execute(statement[0], statement[1], prepare=False)


def ask(connection: connections.Sync, statement: Statement) -> Any:
    """As `send`; the one value that comes back."""
    if not isinstance(connection, (psycopg.Connection, psycopg.Cursor)):
        return connection.run_ours(*statement)
    with _in_our_words(), psycopg.Cursor(_connection_of(connection)) as cursor:
        return _one(cursor.execute(statement[0], statement[1], prepare=False).fetchone())


async def ask_async(connection: connections.Async, statement: Statement) -> Any:
    """As `ask`, on an async connection."""
    if not isinstance(connection, (psycopg.AsyncConnection, psycopg.AsyncCursor)):
        return await connection.run_ours_async(*statement)
    with _in_our_words():
        async with psycopg.AsyncCursor(_async_connection_of(connection)) as cursor:
            await cursor.execute(statement[0], statement[1], prepare=False)
            return _one(await cursor.fetchone())


def is_async(connection: object) -> bool:
    """Whether calls on this connection are awaited.

    Raises:
        OptionError: it is no connection or cursor of psycopg.
    """
    if isinstance(connection, (psycopg.AsyncConnection, psycopg.AsyncCursor)):
        return True
    if isinstance(connection, (psycopg.Connection, psycopg.Cursor)):
        return False
    if isinstance(connection, connections.AsyncTransaction):
        return True
    if isinstance(connection, connections.SyncTransaction):
        return False
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise OptionError("connection", kind, "is none: pass a connection or a cursor of psycopg 3, sync or async")


def _row(call: Call[Any]) -> dict[str, Any]:
    is_json = call.codec == JSON
    return {
        "id": call.id,
        "job": call.job,
        "queue": call.queue,
        "input": call.payload.decode() if is_json else None,
        "payload": None if is_json else call.payload,
        "codec": None if is_json else call.codec,
        "idempotency_key": call.idempotency_key,
        "key_window": call.key_window,
        "priority": call.priority,
        "max_attempts": call.max_attempts,
        "run_at": _in_utc(call.run_at),
        "delay": call.delay,
        "expires_at": _in_utc(call.expires_at),
        "expires_in": call.expires_in,
        "tenant_id": call.tenant_id,
        "traceparent": call.traceparent,
        "enqueued_by": call.enqueued_by,
        "headers": call.headers,
    }


def _in_utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)


def _connection_of(connection: psycopg.Connection[Any] | psycopg.Cursor[Any]) -> psycopg.Connection[Any]:
    return connection.connection if isinstance(connection, psycopg.Cursor) else connection


def _async_connection_of(
    connection: psycopg.AsyncConnection[Any] | psycopg.AsyncCursor[Any],
) -> psycopg.AsyncConnection[Any]:
    return connection.connection if isinstance(connection, psycopg.AsyncCursor) else connection


def _one(row: Any) -> Any:
    return cast("tuple[Any, ...]", row)[0]


@contextmanager
def _in_our_words() -> Generator[None]:
    """Turns what is certainly about the outbox into our errors; what is about the caller's transaction stays his."""
    try:
        yield
    except (errors.UndefinedTable, errors.InvalidSchemaName, errors.UndefinedColumn, errors.UndefinedFunction) as error:
        raise ConfigurationError(
            f"this database has not our tables ({error.diag.message_primary}): run `redisjobs migrate`"
        ) from error
    except errors.InsufficientPrivilege as error:
        raise StoreRefused(
            f"this role may not do it ({error.diag.message_primary}): "
            "a producer's rights are given by SELECT redisjobs.grant_producer('role')"
        ) from error
    except errors.CheckViolation as error:
        if error.diag.table_name != "outbox":
            raise
        raise EnqueueError(f"the outbox refuses the row by its rule {error.diag.constraint_name}") from error
    except errors.UniqueViolation as error:
        if error.diag.table_name != "outbox":
            raise
        raise EnqueueError("this call was enqueued before, and a call is one job: make a new one") from error
