"""A run comes to its end: what it has done is undone, and nothing goes round in circles (rules T3, T6, T8, T9)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redisjobs import Cancel, Context, Dead, Retry, Snooze
from redisjobs.errors import Suspend
from tests.stories.road import Road


def waiting_with_an_undo(road: Road):
    """A job whose run waits for an event that never comes, and has something to undo."""

    def undo(value: int) -> None:
        road.seen.append(("undone", value))

    @road.app.job()
    async def ship(ctx: Context) -> None:
        await ctx.step("pick", lambda: 7, undo=undo)
        await ctx.wait_for_event("never", "1")

    return ship


async def test_a_suspended_run_that_is_cancelled_is_undone(road: Road):
    ship = waiting_with_an_undo(road)
    await road.work()
    (job,) = road.commit(ship.call())
    await road.reaches("suspended", job)
    road.query("SELECT redisjobs.cancel(%(id)s::uuid)", id=job)
    await road.reaches("cancelled", job)
    assert road.seen == [("undone", 7)]


async def test_a_suspended_run_that_expires_is_undone(road: Road):
    ship = waiting_with_an_undo(road)
    await road.work()
    (job,) = road.commit(ship.using(expires=2).call())
    await road.reaches("suspended", job)
    await road.reaches("expired", job)
    assert road.seen == [("undone", 7)]


@pytest.mark.parametrize(
    "error",
    [
        Dead("no"),
        Cancel("no"),
        Retry(0.1),
        Snooze(0.1),
        Suspend(0.0, waits=False),
        SystemExit(),
        asyncio.CancelledError(),
    ],
    ids=repr,
)
async def test_an_undo_that_raises_a_signal_has_failed_like_one_that_raises_an_error(road: Road, error: BaseException):
    """The run's end is decided: a signal neither ends the undos nor lets the run go round in circles."""

    async def undo(_: int) -> None:
        road.seen.append("tried")
        raise error

    @road.app.job(max_attempts=1, retry=[0.01])
    async def ship(ctx: Context) -> None:
        await ctx.step("pick", lambda: 1, undo=road.seen.append)
        await ctx.step("pack", lambda: 2, undo=undo)
        raise ValueError("the carrier is away")

    await road.work()
    (job,) = road.commit(ship.call())
    await road.reaches("dead", job)
    assert road.seen == ["tried"] * 5 + [1]
    ((why,),) = road.query("SELECT reason FROM redisjobs.dead")
    assert "the undo of step 'pack' failed" in why


async def test_an_undo_that_asks_for_a_step_fails_with_what_to_do(road: Road):
    @road.app.job(max_attempts=1, retry=[0.01])
    async def ship(ctx: Context) -> None:
        async def undo(_: int) -> None:
            await ctx.step("refund", lambda: 1)

        await ctx.step("pick", lambda: 1, undo=undo)
        raise ValueError("the carrier is away")

    await road.work()
    (job,) = road.commit(ship.call())
    await road.reaches("dead", job)
    ((why,),) = road.query("SELECT reason FROM redisjobs.dead")
    assert "'refund' is asked for by an undo" in why


async def test_a_block_that_lets_postgres_wait_for_too_long_fails_and_is_counted(road: Road):
    """Its session is taken away by a timeout of the server: a repeat that is not counted would go on for ever."""

    @road.app.job(retry=[0.01], max_attempts=2)
    async def debit(ctx: Context) -> None:
        async with ctx.transaction("debit") as tx:
            await tx.execute("SET LOCAL idle_in_transaction_session_timeout = '50ms'")
            road.seen.append(ctx.attempt)
            await asyncio.sleep(0.3)  # what another service takes
            await tx.execute("SELECT 1")

    await road.work()
    (job,) = road.commit(debit.call())
    await road.reaches("dead", job)
    assert road.seen == [1, 2]


@pytest.mark.parametrize("form", ["block", "function", "sync block", "sync function"])
async def test_a_transaction_that_always_ends_its_own_session_fails_at_last(road: Road, form: str):
    """A lost connection is no fault of a block, and is not counted; ten in one transaction are."""
    end = "SELECT pg_terminate_backend(pg_backend_pid())"

    async def pull(tx: Any) -> None:
        road.seen.append(form)
        await tx.execute(end)

    def pull_in_thread(tx: Any) -> None:
        road.seen.append(form)
        tx.execute(end)

    async def debit(ctx: Context) -> None:
        if form == "function":
            await ctx.transaction("debit", pull)
        async with ctx.transaction("debit") as tx:
            await pull(tx)

    def debit_in_thread(ctx: Context) -> None:
        if form == "sync function":
            ctx.sync.transaction("debit", pull_in_thread)
        with ctx.sync.transaction("debit") as tx:
            pull_in_thread(tx)

    job = road.app.job(max_attempts=1, name="debit")(debit_in_thread if "sync" in form else debit)
    await road.work()
    (made,) = road.commit(job.call())
    await road.reaches("dead", made, within=40)
    assert len(road.seen) == 10


async def test_a_transactional_job_that_always_ends_its_own_session_dies_at_last(road: Road):
    @road.app.job(max_attempts=1, transactional=True)
    async def book(ctx: Context) -> None:
        road.seen.append("book")
        await ctx.tx.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    await road.work()
    (job,) = road.commit(book.call())
    await road.reaches("dead", job, within=40)
    assert len(road.seen) == 10


async def nested(ctx: Context) -> None:
    async with ctx.transaction("outer") as tx:
        await tx.execute("INSERT INTO notes VALUES ('outer')")
        async with ctx.transaction("inner") as other:
            await other.execute("INSERT INTO notes VALUES ('inner')")


async def nested_function(ctx: Context) -> None:
    async def inner(tx: Any) -> None:
        await tx.execute("INSERT INTO notes VALUES ('inner')")

    async def outer(tx: Any) -> None:
        await tx.execute("INSERT INTO notes VALUES ('outer')")
        await ctx.gather(ctx.transaction("inner", inner))

    await ctx.transaction("outer", outer)


def note_inner(tx: Any) -> None:
    tx.execute("INSERT INTO notes VALUES ('inner')")


def nested_in_thread(ctx: Context) -> None:
    with ctx.sync.transaction("outer") as tx:
        tx.execute("INSERT INTO notes VALUES ('outer')")
        ctx.sync.transaction("inner", note_inner)


def nested_blocks_in_thread(ctx: Context) -> None:
    def outer(tx: Any) -> None:
        tx.execute("INSERT INTO notes VALUES ('outer')")
        with ctx.sync.transaction("inner") as inner:
            inner.execute("INSERT INTO notes VALUES ('inner')")

    ctx.sync.transaction("outer", outer)


@pytest.mark.parametrize("body", [nested, nested_function, nested_in_thread, nested_blocks_in_thread])
async def test_a_transaction_inside_of_another_is_refused_and_the_error_names_both(road: Road, body: Any):
    road.query("CREATE TABLE notes (text text)")
    await road.work()
    (job,) = road.commit(road.app.job(max_attempts=1)(body).call())
    await road.reaches("dead", job)
    ((message,),) = road.query("SELECT failures->0->>'message' FROM redisjobs.dead")
    assert "transaction 'inner' is begun inside of 'outer'" in message
    assert road.query("SELECT * FROM notes") == []


@pytest.mark.parametrize("form", ["async", "sync"])
async def test_a_transaction_in_a_transactional_job_is_refused_with_what_to_use(road: Road, form: str):
    road.query("CREATE TABLE notes (text text)")

    async def book(ctx: Context) -> None:
        async with ctx.transaction("inner") as tx:
            await tx.execute("INSERT INTO notes VALUES ('inner')")

    def book_in_thread(ctx: Context) -> None:
        with ctx.sync.transaction("inner") as tx:
            tx.execute("INSERT INTO notes VALUES ('inner')")

    await road.work()
    job = road.app.job(max_attempts=1, transactional=True)(book if form == "async" else book_in_thread)
    (made,) = road.commit(job.call())
    await road.reaches("dead", made)
    ((message,),) = road.query("SELECT failures->0->>'message' FROM redisjobs.dead")
    assert "transaction 'inner' is begun inside of that of the job itself (transactional=True)" in message
    assert road.query("SELECT * FROM notes") == []


async def test_transactions_side_by_side_and_one_after_the_other_need_one_connection_each_at_a_time(
    road: Road, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("redisjobs.steps.transactions.CONNECTIONS", 1)
    road.query("CREATE TABLE notes (text text)")

    async def note(tx: Any, text: str) -> None:
        await tx.execute("INSERT INTO notes VALUES (%s)", [text])
        async with tx.transaction():  # a savepoint
            await tx.execute("INSERT INTO notes VALUES (%s)", [text + "!"])

    @road.app.job(max_attempts=1)
    async def keep(ctx: Context) -> None:
        await ctx.gather(*(ctx.transaction(each, note, each) for each in "abc"))
        async with ctx.transaction("d") as tx:
            await note(tx, "d")
        async with ctx.transaction("e") as tx:
            await note(tx, "e")

    await road.work()
    jobs = road.commit(keep.call(), keep.call())
    await road.reaches("done", *jobs)
    expected = sorted(2 * [each + mark for each in "abcde" for mark in ("", "!")])
    assert [text for (text,) in road.query('SELECT text FROM notes ORDER BY text COLLATE "C"')] == expected
