"""Which of the calls that were staged are still there: a rollback takes them back without telling anybody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg
from psycopg import pq

from redisjobs import drivers
from redisjobs.base import statements
from redisjobs.drivers import Statement
from redisjobs.errors import RedisjobsError
from redisjobs.testing.outbox import AsyncMemoryConnection, MemoryConnection

statements.load("testing").require("present")

_CAN_BE_ASKED = (pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS)
_NOBODY = (
    "it cannot be told what became of these calls: their connection is closed, busy, or in a failed transaction; "
    "roll back first, ask before it is closed, or give the app a database_url"
)


def needs_await(connection: object) -> bool:
    """Whether a connection can only be asked by `kept_async`: it is async, and not of psycopg."""
    ours = (AsyncMemoryConnection, psycopg.AsyncConnection, psycopg.AsyncCursor)
    return not isinstance(connection, ours) and drivers.is_async(connection)


def kept(connection: Any, ids: Sequence[UUID], schema: str, database_url: str | None) -> set[UUID]:
    """The jobs among these that the connection's transaction sees: staged in it, or committed.

    An async connection of psycopg is asked too, in a moment in which its loop does nothing else. One that cannot be
    asked, for it is closed or its transaction has failed, leaves the question to another one.

    Raises:
        RedisjobsError: there is no other one.
    """
    if isinstance(connection, (MemoryConnection, AsyncMemoryConnection)):
        return {job_id for job_id in ids if connection.sees(str(job_id))}
    asked = _statement(ids, schema)
    if isinstance(connection, (psycopg.Cursor, psycopg.AsyncCursor)):
        connection = connection.connection
    if isinstance(connection, (psycopg.Connection, psycopg.AsyncConnection)):
        if not connection.closed and connection.pgconn.transaction_status in _CAN_BE_ASKED:
            return _ids(_ask(connection.pgconn, asked))
    elif not _has_ended(connection):
        return _ids(drivers.ask(connection, asked))
    return _of_another(asked, database_url)


async def kept_async(connection: Any, ids: Sequence[UUID], schema: str, database_url: str | None) -> set[UUID]:
    """As `kept`, for async connections of other drivers."""
    asked = _statement(ids, schema)
    if _has_ended(connection):
        return _of_another(asked, database_url)
    return _ids(await drivers.ask_async(connection, asked))


def _statement(ids: Sequence[UUID], schema: str) -> Statement:
    return statements.load("testing", schema).present, {"ids": ",".join(map(str, ids))}


def _ids(text: str) -> set[UUID]:
    return {UUID(each) for each in text.split(",") if each}


def _has_ended(connection: Any) -> bool:
    """A session of SQLAlchemy without a transaction would begin one to answer, and nobody would end it."""
    in_transaction = getattr(connection, "in_transaction", None)
    return in_transaction is not None and not in_transaction()


def _of_another(asked: Statement, database_url: str | None) -> set[UUID]:
    """What everybody sees: the connection's own transaction has ended, one way or the other."""
    if database_url is None:
        raise RedisjobsError(_NOBODY)
    with psycopg.connect(database_url, autocommit=True) as other:
        return _ids(_ask(other.pgconn, asked))


def _ask(connection: pq.abc.PGconn, asked: Statement) -> str:
    """Over libpq itself, which waits in place and so suits async connections too. A savepoint guards the caller."""
    guarded = connection.transaction_status == pq.TransactionStatus.INTRANS
    if guarded:
        connection.exec_(b"SAVEPOINT redisjobs_testing")
    answer = connection.exec_params(asked[0].replace(b"%(ids)s", b"$1"), [asked[1]["ids"].encode()])
    failed = answer.status != pq.ExecStatus.TUPLES_OK
    if guarded:
        connection.exec_(b"ROLLBACK TO redisjobs_testing" if failed else b"RELEASE redisjobs_testing")
    if failed:
        said = answer.error_message.decode(errors="replace").strip()
        raise RedisjobsError(f"the outbox cannot be read in this transaction: {said}; the role needs SELECT on it")
    return (answer.get_value(0, 0) or b"").decode()
