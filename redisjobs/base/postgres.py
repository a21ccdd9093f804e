"""The relay's way to Postgres: a few connections, transactions with safe plans, errors in our own words."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeAlias

import psycopg
import psycopg_pool
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from redisjobs.base.urls import POSTGRES, check_url
from redisjobs.errors import ConfigurationError, DatabaseUnavailable, StoreRefused

Row: TypeAlias = tuple[Any, ...]
Connection: TypeAlias = psycopg.AsyncConnection[Row]
Pool: TypeAlias = psycopg_pool.AsyncConnectionPool[Connection]

FIRST_ID = "00000000-0000-0000-0000-000000000000"
"""The id before every other."""
PATIENCE_S = 10.0
STALLED_S = 25.0
"""How long a transaction may take before its connection counts as dead: a network can swallow it without a word."""

# A table that was never analyzed makes the planner sort or scan the whole backlog for each batch. The statements
# here look rows up by index, always; SET LOCAL also works behind a pooler that gives sessions away. A relay that stands
# still inside of a transaction holds row locks: Postgres ends that session, so that another relay can take over. Who
# cancels a job, or pauses a queue, in a transaction that stays open holds a lock that only that queue may wait for.
_PLANS = b"""SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off; SET LOCAL jit = off; SET LOCAL idle_in_transaction_session_timeout = '5s';
SET LOCAL lock_timeout = '1s'"""
_BEGIN = b"BEGIN ISOLATION LEVEL READ COMMITTED; " + _PLANS
_BEGIN_QUICKLY = _BEGIN + b"; SET LOCAL lock_timeout = '50ms'"
BEGIN_SNAPSHOT = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; " + _PLANS
"""Statements that read one snapshot and write nothing, under the same plans."""

_LATER = (
    errors.ReadOnlySqlTransaction, errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable,
    errors.InFailedSqlTransaction, errors.IdleInTransactionSessionTimeout,
)  # fmt: skip
_LOGIN = re.compile(
    r'authentication failed|no password supplied|no pg_hba\.conf entry|(role|database) ".*" does not exist'
    r"|not permitted to log in"
)
"""What Postgres says of a login that no repeat will heal; psycopg has no code for it."""
_NO_SCHEMA = (errors.UndefinedTable, errors.UndefinedFunction, errors.InvalidSchemaName, errors.UndefinedColumn)


def options() -> dict[str, Any]:
    """How every connection of redisjobs is made: nothing prepared (poolers), dead peers noticed within 30 s."""
    return {
        "autocommit": True,
        "prepare_threshold": None,
        "connect_timeout": 5,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
        "application_name": "redisjobs",
        "client_encoding": "utf8",
    }


def opened(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    """A sync connection, for whoever asks a few questions one after the other.

    Raises:
        ConfigurationError: the URL cannot work, or the login is refused. DatabaseUnavailable: no answer.
    """
    with in_our_words("connect"):
        return psycopg.connect(check_database_url(url), **options())


@contextmanager
def in_our_words(what: str) -> Generator[None, None, None]:
    """Turns psycopg's errors into ours: once, here, and nowhere else on the relay's way."""
    try:
        yield
    except _NO_SCHEMA as error:
        raise ConfigurationError(
            f"{what}: {error.diag.message_primary}: this database lacks the schema, or a migration; "
            "run `redisjobs migrate`"
        ) from error
    except errors.InsufficientPrivilege as error:
        raise StoreRefused(
            f"{what}: {error.diag.message_primary}: grant it, for a relay with SELECT redisjobs.grant_relay('role'), "
            "for a worker of durable runs with grant_worker('role'), for a scheduler with grant_scheduler('role'), "
            "for a worker that delivers webhooks with grant_webhooks('role')"
        ) from error
    except (psycopg.OperationalError, psycopg.InterfaceError, *_LATER) as error:
        if _LOGIN.search(str(error)):
            raise ConfigurationError(
                f"{what}: Postgres refuses the login: {str(error).strip().splitlines()[0]}; "
                "check user, password and database of database_url"
            ) from error
        raise DatabaseUnavailable(f"{what}: Postgres does not answer, or not now: {str(error).strip()}") from error
    except psycopg.Error as error:
        raise StoreRefused(f"{what}: Postgres refuses: {str(error).strip()}") from error


def was_rolled_back(error: BaseException) -> bool:
    """Whether Postgres rolled the transaction back for the sake of another one: it may be made again at once."""
    return isinstance(error.__cause__, (errors.SerializationFailure, errors.DeadlockDetected))


def was_locked(error: BaseException) -> bool:
    """Whether somebody held a row for longer than a relay waits for one; nothing was changed."""
    return isinstance(error.__cause__, errors.LockNotAvailable)


def check_database_url(url: str) -> str:
    """The URL or DSN, if it can be connected to as it is meant; nothing is connected.

    Raises:
        ConfigurationError: it cannot. What it says about it may hold a piece of a password, so that is left out.
    """
    try:
        conninfo_to_dict(check_url("database_url", url, POSTGRES))
    except psycopg.ProgrammingError:
        raise ConfigurationError(
            "database_url cannot be read: it has an option that libpq does not know, or a value that must be quoted, "
            "as in password='a b'; or give the password by itself, in REDISJOBS_DATABASE_PASSWORD"
        ) from None
    return url


class Database:
    """A few connections that open again by themselves after an outage.

    Args:
        url: the Postgres URL.
        size: connections at most.
    """

    def __init__(self, url: str, *, size: int = 3) -> None:
        self.url = check_database_url(url)
        self._pool: Pool | None = None
        self._size = size
        self._closing: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Open; does not wait for Postgres to answer."""
        if self._pool is None:
            self._pool = psycopg_pool.AsyncConnectionPool(
                self.url, min_size=1, max_size=self._size, open=False, timeout=PATIENCE_S, kwargs=options(),
                reconnect_timeout=5.0, max_lifetime=3600.0, name="redisjobs",
            )  # fmt: skip
            await self._pool.open()

    async def close(self) -> None:
        """Give every connection back."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close(timeout=2.0)
        if self._closing:
            await asyncio.wait(self._closing)

    @asynccontextmanager
    async def transaction(self, what: str, *, quickly: bool = False) -> AsyncGenerator[Connection, None]:
        """A transaction, committed at the end of the block.

        Args:
            what: names it in errors.
            quickly: it hardly waits for rows that somebody holds.

        Raises:
            DatabaseUnavailable: no answer, or not now; whether it committed is not known.
            StoreRefused: an error that a repeat does not heal.
            ConfigurationError: the schema is missing.
        """
        pool = self._opened(what)
        with in_our_words(what):
            async with pool.connection() as connection, self._watched(pool, connection):
                try:
                    await connection.execute(_BEGIN_QUICKLY if quickly else _BEGIN)
                    yield connection
                    await connection.execute(b"COMMIT")
                except BaseException:
                    if (
                        not connection.closed
                        and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
                    ):
                        await _roll_back(connection)
                    raise

    async def run(self, what: str, statement: bytes, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """One statement in a transaction of its own: its rows, or none."""
        async with self.transaction(what) as connection:
            return await fetch(connection, statement, parameters)

    async def change(self, what: str, statement: bytes, parameters: Mapping[str, Any] | None = None) -> int:
        """One statement in a transaction of its own: how many rows it changed."""
        async with self.transaction(what) as connection:
            return (await connection.execute(statement, parameters or {}, binary=True)).rowcount

    async def alone(self, what: str, statement: bytes, parameters: Mapping[str, Any]) -> list[Row]:
        """One statement that commits by itself, in one round trip: the locks it takes end with it, come what may."""
        pool = self._opened(what)
        with in_our_words(what):
            async with pool.connection() as connection, self._watched(pool, connection):
                return await fetch(connection, statement, parameters)

    def _opened(self, what: str) -> Pool:
        if self._pool is None:
            raise DatabaseUnavailable(f"{what}: the connections to Postgres are closed")
        return self._pool

    async def session(self) -> Connection:
        """A connection of its own, outside the pool, for LISTEN."""
        with in_our_words("connect"):
            return await psycopg.AsyncConnection.connect(self.url, **options())

    @asynccontextmanager
    async def _watched(self, pool: Pool, connection: Connection) -> AsyncGenerator[None, None]:
        """Gives up a connection that went silent, and with it the pool's others: each would cost such a wait again."""
        with cut_when_stalled(connection) as cut:
            try:
                yield
            finally:
                if cut.is_set() and self._pool is pool:
                    self._pool = None
                    await self.open()
                    closing = asyncio.create_task(pool.close(timeout=2.0))
                    self._closing.add(closing)
                    closing.add_done_callback(self._closing.discard)


@contextmanager
def cut_when_stalled(connection: Connection) -> Generator[asyncio.Event, None, None]:
    """Ends the connection's socket where the block takes longer: whoever waits on it gets an error. Set: it did."""
    cut = asyncio.Event()

    def cut_now() -> None:
        cut.set()
        _cut(connection)

    timer = asyncio.get_running_loop().call_later(STALLED_S, cut_now)
    try:
        yield cut
    finally:
        timer.cancel()


def _cut(connection: Connection) -> None:
    if not connection.closed:
        with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as twin:
            twin.shutdown(socket.SHUT_RDWR)


def array(items: Iterable[str]) -> str:
    """An array of plain words, numbers or hex ids as Postgres reads it; much cheaper than a list of objects."""
    return "{" + ",".join(items) + "}"


def id_array(ids: Iterable[bytes]) -> str:
    """The same of ids of 16 bytes."""
    return array(each.hex() for each in ids)


async def fetch(connection: Connection, statement: bytes, parameters: Mapping[str, Any] | None = None) -> list[Row]:
    """The rows of a statement, in binary form; none where it answers with no rows."""
    cursor = await connection.execute(statement, parameters or {}, binary=True)
    return await cursor.fetchall() if cursor.description is not None else []


async def attempt(connection: Connection, statement: bytes, parameters: Mapping[str, Any]) -> bool:
    """A statement in a transaction that goes on where Postgres refuses the values; answers whether it took them."""
    try:
        async with connection.transaction():
            await connection.execute(statement, parameters)
    except (psycopg.DataError, psycopg.IntegrityError):
        return False
    return True


async def _roll_back(connection: Connection) -> None:
    try:
        await connection.execute(b"ROLLBACK")
    except psycopg.Error:
        await connection.close()
