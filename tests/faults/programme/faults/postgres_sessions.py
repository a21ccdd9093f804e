"""Postgres is there, and does not do what it is asked: read-only, ended sessions, conflicts, locks, old snapshots."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import psycopg

from tests.faults.programme.fault import fault
from tests.faults.programme.site import Site

TABLES = ("outbox", "queues", "finished", "dead", "steps", "events", "schedules")

_OURS = (
    "default_transaction_read_only=off", "default_transaction_isolation=read\\ committed", "lock_timeout=0",
    "statement_timeout=0",
)  # fmt: skip
"""What holds for our own statements, whatever is set for all others."""
_OTHERS = "datname = current_database() AND pid <> pg_backend_pid()"


async def say(site: Site, *statements: str) -> list[tuple[Any, ...]]:
    """Statements past all links, each by itself; the rows of the last one."""
    rows: list[tuple[Any, ...]] = []
    options = " ".join(f"-c {each}" for each in _OURS)
    async with await psycopg.AsyncConnection.connect(site.database_url, autocommit=True, options=options) as conn:
        for statement in statements:
            cursor = await conn.execute(statement.encode())
            rows = await cursor.fetchall() if cursor.description is not None else []
    return rows


async def end_sessions(site: Site, which: str = "true") -> None:
    """All sessions of the trial's database, or those of which this is true, end, as by an administrator."""
    await say(site, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {_OTHERS} AND {which}")


@contextlib.asynccontextmanager
async def setting(site: Site, name: str, value: str) -> AsyncIterator[None]:
    """Every new session of the trial's database has this setting, and all sessions are new ones."""
    ((database,),) = await say(site, "SELECT current_database()")
    await say(site, f"ALTER DATABASE {database} SET {name} = '{value}'")
    await end_sessions(site)
    try:
        yield
    finally:
        await say(site, f"ALTER DATABASE {database} RESET {name}")
        await end_sessions(site)


@fault()
async def postgres_read_only(site: Site, rng: random.Random) -> None:
    """Postgres takes no writes for up to 7 s, as after a failover to a standby: default_transaction_read_only."""
    async with setting(site, "default_transaction_read_only", "on"):
        await site.lasts(rng.uniform(2, 7))


@fault()
async def serializable(site: Site, rng: random.Random) -> None:
    """All transactions are SERIALIZABLE for up to 10 s, and fail with 40001 wherever they meet."""
    async with setting(site, "default_transaction_isolation", "serializable"):
        await site.lasts(rng.uniform(4, 10))


@fault()
async def repeatable_read(site: Site, rng: random.Random) -> None:
    """All transactions are REPEATABLE READ for up to 10 s, and fail with 40001 where they update the same row."""
    async with setting(site, "default_transaction_isolation", "repeatable read"):
        await site.lasts(rng.uniform(4, 10))


@fault()
async def lock_timeouts(site: Site, rng: random.Random) -> None:
    """Who waits for a lock for more than 20 ms fails, while somebody locks one table after the other."""
    async with setting(site, "lock_timeout", "20ms"):
        for _ in range(8):
            await _locked(site, rng, rng.uniform(0.1, 0.6))


@fault()
async def statement_timeouts(site: Site, rng: random.Random) -> None:
    """A statement that takes more than 30 ms fails, for up to 6 s."""
    async with setting(site, "statement_timeout", "30ms"):
        await site.lasts(rng.uniform(2, 6))


@fault()
async def tables_locked(site: Site, rng: random.Random) -> None:
    """Somebody locks one table after the other, as an ALTER TABLE does: nobody reads or writes it for up to 3 s."""
    for _ in range(4):
        await _locked(site, rng, rng.uniform(0.3, 3))


@fault()
async def rows_locked(site: Site, rng: random.Random) -> None:
    """A transaction of somebody else's locks some rows of the outbox, and the queues, for up to 3 s; four times."""
    for _ in range(4):
        async with await psycopg.AsyncConnection.connect(site.database_url) as conn:
            await conn.execute("SELECT FROM redisjobs.outbox TABLESAMPLE bernoulli (30) FOR UPDATE SKIP LOCKED")
            if rng.random() < 0.5:
                await conn.execute("SELECT FROM redisjobs.queues FOR UPDATE SKIP LOCKED")
            await site.lasts(rng.uniform(0.3, 3))


@fault()
async def sessions_ended(site: Site, rng: random.Random) -> None:
    """All sessions of Postgres are ended, again and again: pg_terminate_backend, twenty times."""
    for _ in range(20):
        await end_sessions(site)
        await site.lasts(rng.uniform(0.1, 0.5))


@fault()
async def statements_cancelled(site: Site, rng: random.Random) -> None:
    """Whatever statement runs is cancelled: pg_cancel_backend for all that are active, two hundred times."""
    for _ in range(40):
        await say(
            site, *[f"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE {_OTHERS} AND state <> 'idle'"] * 5
        )  # fmt: skip
        await site.lasts(rng.uniform(0.05, 0.2))


@fault()
async def sessions_ended_inside_commit(site: Site, rng: random.Random) -> None:
    """Sessions are ended while they commit: the commit counts, and the client hears of a lost connection."""
    await _standby(site, "nobody")  # so every commit waits for a standby that is not there
    try:
        for _ in range(12):
            await site.lasts(rng.uniform(0.1, 0.5))
            await end_sessions(site, "wait_event = 'SyncRep'")
    finally:
        await _standby(site, "")
    await asyncio.to_thread(site.postgres.start)


@fault()
async def commits_wait(site: Site, rng: random.Random) -> None:
    """Every commit waits for up to 2 s, as for a standby that does not answer; three times."""
    for _ in range(3):
        await _standby(site, "nobody")
        try:
            await site.lasts(rng.uniform(0.5, 2))
        finally:
            await _standby(site, "")
        await site.lasts(rng.uniform(0.2, 1))


@fault()
async def held_snapshot(site: Site, rng: random.Random) -> None:
    """A transaction stays open with an old snapshot, as of a dump, for up to 12 s: nothing is vacuumed meanwhile."""
    async with await psycopg.AsyncConnection.connect(site.database_url) as conn:
        await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await conn.execute("SELECT count(*) FROM redisjobs.outbox")
        await site.lasts(rng.uniform(6, 12))


@fault()
async def held_transaction(site: Site, rng: random.Random) -> None:
    """A transaction that has written stays open for up to 8 s, and is rolled back: relays must not pass over others."""
    async with await psycopg.AsyncConnection.connect(site.database_url) as conn:
        await conn.execute("SELECT pg_current_xact_id()")
        await site.lasts(rng.uniform(3, 8))
        await conn.rollback()


async def _standby(site: Site, name: str) -> None:
    """Which standby must have a commit before it is acknowledged."""
    async with await psycopg.AsyncConnection.connect(
        site.database_url, autocommit=True, options="-c synchronous_commit=local"
    ) as conn:
        await conn.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'".encode())
        await conn.execute("SELECT pg_reload_conf()")


async def _locked(site: Site, rng: random.Random, seconds: float) -> None:
    """Lock a table for so long, if it can be had within a second."""
    table = rng.choice(TABLES)
    async with await psycopg.AsyncConnection.connect(site.database_url, options="-c lock_timeout=1000") as conn:
        with contextlib.suppress(psycopg.errors.LockNotAvailable):
            await conn.execute(f"LOCK TABLE redisjobs.{table} IN ACCESS EXCLUSIVE MODE".encode())
            await site.lasts(seconds)
        await conn.rollback()
