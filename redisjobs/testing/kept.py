"""Which of the calls that were staged are still there: a rollback takes them back without telling anybody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg
from psycopg import pq

from redisjobs.base import statements
from redisjobs.errors import RedisjobsError
from redisjobs.testing.outbox import AsyncMemoryConnection, MemoryConnection

statements.load("testing").require("present")

_LOOKED_FROM = (pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS)
Known = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


def kept(connection: object, ids: Sequence[UUID], schema: str, database_url: str | None) -> set[UUID]:
    """The jobs among these that the connection's transaction sees: staged in it, or committed.

    An async connection is asked too, in a moment in which its loop does nothing else. One that cannot be asked, for
    it is closed or its transaction has failed, leaves the question to another one.

    Raises:
        RedisjobsError: there is no other one.
    """
    if isinstance(connection, (MemoryConnection, AsyncMemoryConnection)):
        return {job_id for job_id in ids if connection.sees(str(job_id))}
    known = _of_psycopg(connection)
    if known is None:
        return set(ids)
    if not known.closed and known.pgconn.transaction_status in _LOOKED_FROM:
        return _ask(known.pgconn, ids, schema)
    if database_url is None:
        raise RedisjobsError(
            "it cannot be told what became of these calls: their connection is closed, busy, or in a failed "
            "transaction; roll back first, ask before it is closed, or give the app a database_url"
        )
    with psycopg.connect(database_url, autocommit=True) as other:
        return _ask(other.pgconn, ids, schema)


def _of_psycopg(connection: Any) -> Known | None:
    known: Any = connection.connection if isinstance(connection, (psycopg.Cursor, psycopg.AsyncCursor)) else connection
    if isinstance(known, (psycopg.Connection, psycopg.AsyncConnection)):
        return known  # pyright: ignore[reportUnknownVariableType]  # it cannot know of which rows
    return None


def _ask(connection: pq.abc.PGconn, ids: Sequence[UUID], schema: str) -> set[UUID]:
    """Over libpq itself, which waits in place and so suits async connections too. A savepoint guards the caller."""
    guarded = connection.transaction_status == pq.TransactionStatus.INTRANS
    if guarded:
        connection.exec_(b"SAVEPOINT redisjobs_testing")
    statement = statements.load("testing", schema).present.replace(b"%(ids)s", b"$1")
    answer = connection.exec_params(statement, [("{" + ",".join(map(str, ids)) + "}").encode()])
    failed = answer.status != pq.ExecStatus.TUPLES_OK
    if guarded:
        connection.exec_(b"ROLLBACK TO redisjobs_testing" if failed else b"RELEASE redisjobs_testing")
    if failed:
        said = answer.error_message.decode(errors="replace").strip()
        raise RedisjobsError(f"the outbox cannot be read in this transaction: {said}; the role needs SELECT on it")
    return {UUID((answer.get_value(row, 0) or b"").decode()) for row in range(answer.ntuples)}
