"""Transactions of users that take a record with them: both are there, or neither."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeAlias

import psycopg
import psycopg_pool
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from redisjobs.base.postgres import Row, in_our_words, options
from redisjobs.base.statements import Statements
from redisjobs.errors import StoreRefused
from redisjobs.steps import asking
from redisjobs.steps.asking import Write
from redisjobs.steps.checks import check_done, check_record
from redisjobs.steps.records import KEPT_S, JobDone, StepRecord, Token
from redisjobs.steps.writer import BUSY

CONNECTIONS = 10
"""For the transactions of async bodies at most, and as many for those of sync ones; others wait."""
PATIENCE_S = 30.0
"""How long one waits for a connection."""

Connection: TypeAlias = psycopg.AsyncConnection[Row]
SyncConnection: TypeAlias = psycopg.Connection[Row]
Asked: TypeAlias = Generator[tuple[str, dict[str, Any]], list[Row], None]


class Transactions:
    """Connections for the transactions of users, apart from those of the records: a body may hold one for long."""

    def __init__(self, url: str, sql: Statements) -> None:
        self._url = url
        self._sql = sql
        self._pool: psycopg_pool.AsyncConnectionPool[Connection] | None = None
        self._sync_pool: psycopg_pool.ConnectionPool[SyncConnection] | None = None
        self._lock = asyncio.Lock()
        self._thread_lock = threading.Lock()

    @asynccontextmanager
    async def open(self, token: Token, record: StepRecord | JobDone) -> AsyncGenerator[Connection, None]:
        """As `StepStore.transaction`."""
        what = _what(record)
        with in_our_words(what):
            pool = await self._opened()
            connection = await pool.getconn()
        try:
            transaction = connection.transaction()
            with in_our_words(what):
                await transaction.__aenter__()
            try:
                yield connection
                _check_open(connection.info.transaction_status, what)
                with in_our_words(what):
                    await self._write(connection, token, record)
            except BaseException as error:
                await transaction.__aexit__(type(error), error, error.__traceback__)
                raise
            with in_our_words(what):
                await transaction.__aexit__(None, None, None)
        finally:
            connection.row_factory = tuple_row
            await pool.putconn(connection)

    @contextmanager
    def open_sync(self, token: Token, record: StepRecord | JobDone) -> Generator[SyncConnection, None, None]:
        """As `StepStore.transaction_sync`."""
        what = _what(record)
        with in_our_words(what):
            pool = self._opened_sync()
            connection = pool.getconn()
        try:
            transaction = connection.transaction()
            with in_our_words(what):
                transaction.__enter__()
            try:
                yield connection
                _check_open(connection.info.transaction_status, what)
                with in_our_words(what):
                    self._write_sync(connection, token, record)
            except BaseException as error:
                transaction.__exit__(type(error), error, error.__traceback__)
                raise
            with in_our_words(what):
                transaction.__exit__(None, None, None)
        finally:
            connection.row_factory = tuple_row
            pool.putconn(connection)

    async def close(self) -> None:
        """Give every connection back."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close(timeout=2.0)
        if self._sync_pool is not None:
            sync_pool, self._sync_pool = self._sync_pool, None
            await asyncio.to_thread(sync_pool.close, 2.0)

    async def _opened(self) -> psycopg_pool.AsyncConnectionPool[Connection]:
        async with self._lock:
            if self._pool is None:
                self._pool = psycopg_pool.AsyncConnectionPool(self._url, open=False, **_of_pool())
                await self._pool.open()
            return self._pool

    def _opened_sync(self) -> psycopg_pool.ConnectionPool[SyncConnection]:
        with self._thread_lock:
            if self._sync_pool is None:
                self._sync_pool = psycopg_pool.ConnectionPool(self._url, open=False, **_of_pool())
                self._sync_pool.open()
            return self._sync_pool

    async def _write(self, connection: Connection, token: Token, record: StepRecord | JobDone) -> None:
        asked = _asked(token, record)
        name, parameters = next(asked)
        with suppress(StopIteration):
            while True:
                async with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
                    await cursor.execute(self._sql[name], parameters)
                    rows = await cursor.fetchall()
                name, parameters = asked.send(rows)

    def _write_sync(self, connection: SyncConnection, token: Token, record: StepRecord | JobDone) -> None:
        asked = _asked(token, record)
        name, parameters = next(asked)
        with suppress(StopIteration):
            while True:
                with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
                    cursor.execute(self._sql[name], parameters)
                    rows = cursor.fetchall()
                name, parameters = asked.send(rows)


def _asked(token: Token, record: StepRecord | JobDone) -> Asked:
    """The statements at the end of a user's transaction, one after the other; each is sent the rows of its answer."""
    yield "hold", {}
    if isinstance(record, JobDone):
        check_done(record)
        ended = yield "end_done", asking.of_end(token, record, KEPT_S)
        if not ended:
            raise asking.refused(token, "the job's end")
        if ended[0][1] is not None:
            yield "tell_parent", {"child": token.run, "codec": record.codec, "value": record.value}
        return
    check_record(record)
    put = "put", asking.of_puts([Write(token, record)])
    answer = asking.answers((yield put), 1)[0]
    if answer is BUSY:
        yield "lock", {"run": token.run}
        answer = asking.answers((yield put), 1)[0]
    if answer is not True:
        raise asking.refused(token, record.name)


def _check_open(status: TransactionStatus, what: str) -> None:
    if status == TransactionStatus.INERROR:
        raise StoreRefused(
            f"{what}: a statement in the block failed and its error did not leave the block, so nothing of it can be "
            "committed: let the error out, or put the statement inside of `tx.transaction()`, which is a savepoint"
        )
    if status == TransactionStatus.IDLE:
        raise StoreRefused(
            f"{what}: the block has ended the transaction by itself, so its effects cannot share the commit of the "
            "record, and none is written: leave COMMIT and ROLLBACK out"
        )


def _what(record: StepRecord | JobDone) -> str:
    return "the transaction of the job" if isinstance(record, JobDone) else f"transaction {record.name!r}"


def _of_pool() -> dict[str, Any]:
    return {
        "min_size": 1,
        "max_size": CONNECTIONS,
        "timeout": PATIENCE_S,
        "kwargs": options(),
        "reconnect_timeout": 5.0,
        "max_lifetime": 3600.0,
        "name": "redisjobs transactions",
    }
