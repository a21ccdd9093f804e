"""Transactions of users that take a record with them, on real servers (rule T9): both are there, or neither."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from redisjobs.errors import DatabaseUnavailable, EncodeError, StepRefused, StoreRefused
from redisjobs.steps import JobDone, StepRecord
from tests.conftest import Conn
from tests.support.eventually import eventually
from tests.support.runs import AnyRuns, app, child_of, done


@pytest.fixture
def effects(conn: Conn) -> Conn:
    conn.execute("CREATE TABLE effects (name text)")
    conn.commit()
    conn.autocommit = True
    return conn


class _Awaited:
    """A sync transaction, used like an async one: each step in a thread, as sync bodies run."""

    def __init__(self, block: AbstractContextManager[Any]) -> None:
        self._block = block

    async def __aenter__(self) -> Any:
        return _AwaitedConnection(await asyncio.to_thread(self._block.__enter__))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await asyncio.to_thread(self._block.__exit__, kind, error, trace)


class _AwaitedConnection:
    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def execute(self, *given: Any) -> Any:
        return await asyncio.to_thread(self.connection.execute, *given)


@pytest.fixture(params=["async", "sync"])
def block(request: pytest.FixtureRequest, runs: AnyRuns) -> Any:
    """Opens a transaction of either kind."""
    if request.param == "async":
        return runs.store.transaction
    return lambda token, record: _Awaited(runs.store.transaction_sync(token, record))


def written(effects: Conn) -> list[object]:
    return [row[0] for row in effects.execute("SELECT name FROM effects ORDER BY name").fetchall()]


async def test_effect_and_record_are_one_commit(runs: AnyRuns, effects: Conn, block: Any):
    token = await runs.begin()
    record = StepRecord(token.run, "debit", "transaction")

    async with block(token, record) as tx:
        await tx.execute("INSERT INTO effects VALUES ('a')")
        assert written(effects) == []
        assert await runs.store.get(token.run, "debit") is None
        record.codec, record.value = "json", b"7"

    found = await runs.store.get(token.run, "debit")
    assert found is not None
    assert (found.kind, found.state, found.value) == ("transaction", "done", b"7")
    assert written(effects) == ["a"]


async def test_an_error_takes_effect_and_record_back_and_comes_through(runs: AnyRuns, effects: Conn, block: Any):
    token = await runs.begin()

    with pytest.raises(psycopg.errors.UndefinedTable):
        async with block(token, done(token, "debit")) as tx:
            await tx.execute("INSERT INTO effects VALUES ('a')")
            await tx.execute("INSERT INTO nowhere VALUES ('b')")
    with pytest.raises(ZeroDivisionError):
        async with block(token, done(token, "debit")) as tx:
            await tx.execute("INSERT INTO effects VALUES ('a')")
            raise ZeroDivisionError

    assert (written(effects), await runs.store.list(token.run)) == ([], [])


async def test_a_replaced_attempt_leaves_no_effect(runs: AnyRuns, effects: Conn, block: Any):
    old = await runs.begin()

    with pytest.raises(StepRefused):
        async with block(old, done(old, "debit")) as tx:
            await tx.execute("INSERT INTO effects VALUES ('a')")
            await runs.begin(old.run, start=2, holder="w2")

    assert (written(effects), await runs.store.list(old.run)) == ([], [])


async def test_an_error_that_stays_in_the_block_is_no_commit(runs: AnyRuns, effects: Conn, block: Any):
    token = await runs.begin()

    with pytest.raises(StoreRefused, match="transaction 'debit': a statement in the block failed"):
        async with block(token, done(token, "debit")) as tx:
            await tx.execute("INSERT INTO effects VALUES ('a')")
            with pytest.raises(psycopg.errors.UndefinedTable):
                await tx.execute("INSERT INTO nowhere VALUES ('b')")

    assert (written(effects), await runs.store.list(token.run)) == ([], [])


async def test_a_block_that_commits_by_itself_gets_no_record(runs: AnyRuns, effects: Conn, block: Any):
    token = await runs.begin()

    with pytest.raises(StoreRefused, match="has ended the transaction by itself"):
        async with block(token, done(token, "debit")) as tx:
            await tx.execute("ROLLBACK")

    assert await runs.store.list(token.run) == []


async def test_a_result_that_is_too_large_takes_the_effect_back(runs: AnyRuns, effects: Conn, block: Any):
    token = await runs.begin()

    with pytest.raises(EncodeError, match="step 'debit'"):
        async with block(token, done(token, "debit", value=b"x" * 1_048_577)) as tx:
            await tx.execute("INSERT INTO effects VALUES ('a')")

    assert written(effects) == []


async def test_jobs_enqueued_in_the_block_join_its_commit(runs: AnyRuns, effects: Conn):
    token = await runs.begin()
    first, second = child_of(), child_of()

    async with runs.store.transaction(token, done(token, "debit")) as tx:
        await app.enqueue(tx, first)
        assert runs.row(first.id) is None
    with pytest.raises(ZeroDivisionError):
        async with runs.store.transaction(token, done(token, "credit")) as tx:
            await app.enqueue(tx, second)
            raise ZeroDivisionError

    assert runs.row(first.id) is not None
    assert runs.row(second.id) is None


async def test_a_lost_connection_is_told_in_our_words(runs: AnyRuns, effects: Conn, block: Any):
    token = await runs.begin()

    with pytest.raises(DatabaseUnavailable, match="transaction 'debit': Postgres does not answer"):
        async with block(token, done(token, "debit")) as tx:
            await tx.execute("INSERT INTO effects VALUES ('a')")
            effects.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'idle in transaction'"
            )

    assert (written(effects), await runs.store.list(token.run)) == ([], [])
    async with block(token, done(token, "debit")) as tx:
        await tx.execute("INSERT INTO effects VALUES ('b')")
    assert written(effects) == ["b"]


async def test_a_row_that_somebody_has_locked_is_waited_for(runs: AnyRuns, effects: Conn, block: Any):
    token = await runs.begin()
    other = runs.connect()
    entered = threading.Event()

    async def work() -> None:
        async with block(token, done(token, "debit")) as tx:
            await tx.execute("INSERT INTO effects VALUES ('a')")
            other.execute("SELECT redisjobs.cancel(%s)", (token.run,))
            entered.set()

    task = asyncio.create_task(work())
    await eventually(entered.is_set, "the block has been run through")
    await eventually(lambda: _waits_for_a_lock(effects), "the record waits for the row")
    other.commit()
    await task

    assert written(effects) == ["a"]
    assert [each.name for each in await runs.store.list(token.run)] == ["debit"]


def _waits_for_a_lock(conn: Conn) -> bool:
    rows = conn.execute(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    ).fetchall()
    return bool(rows)


async def test_what_a_block_sets_on_its_connection_does_not_stay(runs: AnyRuns, effects: Conn):
    token = await runs.begin()

    async with runs.store.transaction(token, done(token, "a")) as tx:
        tx.row_factory = dict_row
    async with runs.store.transaction(token, done(token, "b")) as tx:
        assert await (await tx.execute("SELECT 1")).fetchone() == (1,)


# -- the end of a transactional job
async def test_a_transactional_job_ends_in_the_commit_of_its_effects(runs: AnyRuns, effects: Conn, block: Any):
    token = await runs.begin()
    await runs.store.put(token, done(token, "a"))
    end = JobDone(attempts=2, keep=7200.0)

    async with block(token, end) as tx:
        await tx.execute("INSERT INTO effects VALUES ('a')")
        end.codec, end.value = "json", b"7"

    assert written(effects) == ["a"]
    assert runs.row(token.run) is None
    assert await runs.store.list(token.run) == []
    assert await runs.store.ended(token) == "done"
    assert await runs.store.ended(replace(token, life=1)) is None
    assert effects.execute(
        "SELECT id, state, attempts, result, result_codec, job, keep_until > now() + interval '1 hour 59 minutes'"
        " FROM redisjobs.finished"
    ).fetchall() == [(token.run, "done", 2, b"7", "json", "onboard", True)]


async def test_a_transactional_job_that_was_replaced_has_no_effect_and_no_end(runs: AnyRuns, effects: Conn, block: Any):
    old = await runs.begin()

    with pytest.raises(StepRefused, match="the job's end"):
        async with block(old, JobDone(1)) as tx:
            await tx.execute("INSERT INTO effects VALUES ('a')")
            await runs.begin(old.run, start=2, holder="w2")

    assert (written(effects), await runs.store.ended(old)) == ([], None)
    assert runs.row(old.run) is not None


async def test_the_end_of_a_transactional_child_tells_its_parent(runs: AnyRuns, effects: Conn, block: Any):
    parent, child = await runs.begin(), child_of()
    await runs.store.put(parent, StepRecord(parent.run, "kid", "child", "waiting", awaited=True), child)
    token = await runs.begin(child.id)

    async with block(token, JobDone(1, codec="json", value=b"7")):
        pass

    found = await runs.store.get(parent.run, "kid")
    row = runs.row(parent.run)
    assert found is not None
    assert row is not None
    assert (found.state, found.value) == ("done", b"7")
    assert row["wake_at"] is not None
