"""What a durable run does (rules T2 to T11; cases of theme I)."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from redisjobs import ChildFailed, Context, EnqueueError, StepFailed
from tests.stories.road import Road
from tests.support.eventually import eventually


@dataclasses.dataclass
class Order:
    number: int
    total: Decimal
    at: datetime


async def test_a_run_goes_on_behind_its_last_recorded_step(road: Road):
    async def pick(number: int) -> Order:
        road.seen.append("picked")
        return Order(number, Decimal("9.90"), datetime(2026, 1, 2, tzinfo=UTC))

    def pack(order: Order) -> tuple[str, int]:
        road.seen.append("packed")
        return ("parcel", order.number)

    @road.app.job(retry=[0.05])
    async def ship(ctx: Context, number: int) -> None:
        order = await ctx.step("pick", pick, number)
        parcel = await ctx.step("pack", pack, order)
        road.seen.append((order, parcel))
        if ctx.attempt < 3:
            raise ConnectionError("the carrier is away")

    await road.work()
    (job,) = road.commit(ship.call(7))
    await road.reaches("done", job)
    expected = (Order(7, Decimal("9.90"), datetime(2026, 1, 2, tzinfo=UTC)), ("parcel", 7))
    assert road.seen == ["picked", "packed", expected, expected, expected]


async def test_a_sleep_gives_the_slot_back_and_is_counted_from_its_first_start(road: Road):
    @road.app.job
    async def remind(ctx: Context) -> None:
        road.seen.append(("began", ctx.attempt, time.monotonic()))
        await ctx.sleep("a while", 4)
        road.seen.append(("woke", ctx.attempt, time.monotonic()))

    @road.app.job
    async def other() -> None:
        road.seen.append("other")

    first = await road.work(concurrency=1)
    (job,) = road.commit(remind.call())
    await eventually(
        lambda: road.state(job) in ("deferred", "published", "suspended") and len(road.seen) == 1, "it sleeps"
    )
    road.commit(other.call())
    await eventually(lambda: "other" in road.seen, "its slot is free", 3)
    await first.stop(0)
    await road.work(concurrency=1)
    await road.reaches("done", job)
    (_, one, began), (_, _, woke) = road.seen[0], road.seen[-1]
    assert 4 <= woke - began < 6.5
    assert [each[:2] for each in road.seen if each != "other"] == [("began", 1), ("began", 1), ("woke", 1)]
    del one


@pytest.mark.parametrize("form", ["async", "sync"])
async def test_a_sleep_until_a_moment_ends_then_and_one_that_is_over_ends_at_once(road: Road, form: str):
    moment = datetime.now(UTC) + timedelta(seconds=4)

    async def wake(ctx: Context) -> None:
        road.seen.append("began")
        await ctx.sleep_until("over", moment - timedelta(days=1))
        await ctx.sleep_until("monday", moment)
        road.seen.append(datetime.now(UTC))

    def wake_in_thread(ctx: Context) -> None:
        road.seen.append("began")
        ctx.sync.sleep_until("over", moment - timedelta(days=1))
        ctx.sync.sleep_until("monday", moment)
        road.seen.append(datetime.now(UTC))

    first = await road.work()
    (job,) = road.commit(road.app.job(wake if form == "async" else wake_in_thread).call())
    asleep = "SELECT state, kind FROM redisjobs.steps WHERE name = 'monday'"
    await eventually(lambda: road.query(asleep) == [("waiting", "sleep")], "it sleeps")
    await first.stop(0)
    await road.work()
    await road.reaches("done", job)
    woke = [each for each in road.seen if each != "began"]
    assert len(woke) == 1
    assert 0 <= (woke[0] - moment).total_seconds() < 2.5


async def test_a_sleep_until_a_moment_without_a_zone_is_refused(road: Road):
    @road.app.job(max_attempts=1)
    async def wake(ctx: Context) -> None:
        await ctx.sleep_until("monday", datetime(2026, 1, 5, 9))  # noqa: DTZ001 - this is what is refused

    await road.work()
    (job,) = road.commit(wake.call())
    await road.reaches("dead", job)
    ((message,),) = road.query("SELECT failures->0->>'message' FROM redisjobs.dead")
    assert "zone" in message


async def test_events_sent_before_and_after_the_wait_are_taken_once(road: Road):
    @road.app.job
    async def approve(ctx: Context, order: str) -> None:
        try:
            event = await ctx.wait_for_event("approved", order, timeout=60)
        except Exception as error:  # a suspension is no error
            road.seen.append(error)
            raise
        assert event is not None
        road.seen.append((order, event.data))

    def send(order: str, by: str) -> None:
        road.query("SELECT redisjobs.send_event('approved', %(key)s, %(data)s)", key=order, data=json.dumps({"by": by}))

    send("a", "early")
    await road.work()
    jobs = road.commit(approve.call("a"), approve.call("b"), approve.call("c"))
    await road.reaches("done", jobs[0])
    await road.reaches("suspended", *jobs[1:])
    send("b", "late")
    send("c", "late too")
    await road.reaches("done", *jobs)
    assert sorted(road.seen) == [("a", {"by": "early"}), ("b", {"by": "late"}), ("c", {"by": "late too"})]
    assert road.query("SELECT count(*) FROM redisjobs.events WHERE taken_at IS NULL") == [(0,)]
    assert road.query("SELECT count(*) FROM redisjobs.steps") == [(0,)]


async def test_a_wait_without_its_event_is_over_at_its_timeout(road: Road):
    @road.app.job
    async def approve(ctx: Context) -> None:
        road.seen.append(await ctx.wait_for_event("approved", timeout=1))

    await road.work()
    (job,) = road.commit(approve.call())
    await road.reaches("done", job)
    assert road.seen == [None]


async def test_children_answer_their_parent_and_their_failure_is_its_failure(road: Road):
    @road.app.job
    async def double(n: int) -> Decimal:
        road.seen.append(n)
        return Decimal(n) * 2

    @road.app.job(max_attempts=1)
    async def fail() -> None:
        raise ValueError("no such customer")

    @road.app.job
    async def parent(ctx: Context) -> None:
        one = await ctx.call(double, 21)
        many = await ctx.gather(*(ctx.call(double.call(each), name=f"double-{each}") for each in range(20)))
        try:
            await ctx.call(fail)
        except ChildFailed as error:
            road.seen.append((one, sum(many), error.word, error.error))

    await road.work()
    (job,) = road.commit(parent.call())
    await road.reaches("done", job, within=30)
    assert sorted(road.seen[:-1]) == sorted([21, *range(20)])
    assert road.seen[-1] == (Decimal(42), Decimal(380), "dead", "ValueError: no such customer")


async def test_a_cancelled_parent_cancels_its_children(road: Road):
    @road.app.job
    async def wait_long(ctx: Context) -> None:
        road.seen.append("child")
        await ctx.sleep("long", 600)

    @road.app.job
    async def parent(ctx: Context) -> None:
        await ctx.call(wait_long)

    await road.work()
    (job,) = road.commit(parent.call())
    await eventually(lambda: "child" in road.seen, "the child has begun")
    await road.reaches("suspended", job)
    with road.connect() as connection:
        road.app.cancel(connection, job)
    await road.reaches("cancelled", job)
    child = road.query(
        "SELECT id FROM redisjobs.outbox UNION ALL SELECT id FROM redisjobs.finished WHERE job LIKE '%%wait_long'"
    )
    await road.reaches("cancelled", str(child[0][0]))


async def test_what_a_dead_run_has_done_is_undone_newest_first(road: Road):
    @road.app.job(max_attempts=2, retry=[0.05])
    async def trip(ctx: Context) -> None:
        for each in ("flight", "hotel", "car"):
            await ctx.step(f"book {each}", book, each, undo=cancel)
        await ctx.step("pay", pay)

    async def book(what: str) -> str:
        road.seen.append(f"book {what}")
        return what

    def cancel(what: str) -> None:
        road.seen.append(f"cancel {what}")

    async def pay() -> None:
        road.seen.append("pay")
        raise ConnectionError("the bank is away")

    await road.work()
    (job,) = road.commit(trip.call())
    await road.reaches("dead", job)
    booked = ["book flight", "book hotel", "book car"]
    assert road.seen == [*booked, "pay", "pay", "cancel car", "cancel hotel", "cancel flight"]
    assert road.query("SELECT reason FROM redisjobs.dead") == [("attempt 2 of 2 failed",)]


async def test_what_a_run_has_done_is_undone_when_it_is_cancelled_while_nobody_runs_it(road: Road):
    @road.app.job
    async def trip(ctx: Context) -> None:
        await ctx.step("book", book, 7, undo=cancel)
        await ctx.wait_for_event("paid")
        road.seen.append("paid")

    async def book(number: int) -> int:
        road.seen.append("book")
        return number

    async def cancel(number: int) -> None:
        road.seen.append(("cancel", number))

    await road.work()
    (job,) = road.commit(trip.call())
    await road.reaches("suspended", job)
    with road.connect() as connection:
        road.app.cancel(connection, job)
    await road.reaches("cancelled", job)
    assert road.seen == ["book", ("cancel", 7)]


async def test_a_transaction_and_its_record_are_one_commit(road: Road):
    road.query("CREATE TABLE accounts (name text PRIMARY KEY, amount integer)")
    road.query("INSERT INTO accounts VALUES ('a', 100), ('b', 0)")

    @road.app.job
    async def note(text: str) -> None:
        road.seen.append(text)

    async def credit(tx: psycopg.AsyncConnection[Any], amount: int) -> int:
        cursor = await tx.execute(
            "UPDATE accounts SET amount = amount + %s WHERE name = 'b' RETURNING amount", [amount]
        )
        return int((await cursor.fetchone() or [0])[0])

    @road.app.job(retry=[0.05])
    async def transfer(ctx: Context, amount: int) -> None:
        block = ctx.transaction("debit")
        async with block as tx:
            await tx.execute("UPDATE accounts SET amount = amount - %s WHERE name = 'a'", [amount])
            await note.enqueue(tx, f"debited {amount}")
            block.keep(("debited", amount))
        left = await ctx.transaction("credit", credit, amount)
        if ctx.attempt < 3:
            raise ConnectionError
        road.seen.append((block.value, left))

    await road.work()
    (job,) = road.commit(transfer.call(30))
    await road.reaches("done", job)
    await eventually(lambda: len(road.seen) == 2, "all is noted")
    assert sorted(map(str, road.seen)) == sorted(["debited 30", "(('debited', 30), 30)"])
    assert road.query("SELECT * FROM accounts ORDER BY name") == [("a", 70), ("b", 30)]


async def test_a_transactional_job_and_its_end_are_one_commit(road: Road):
    road.query("CREATE TABLE notes (text text)")

    @road.app.job(transactional=True, retry=[0.05], result_ttl=60)
    async def note(ctx: Context, text: str) -> int:
        await ctx.tx.execute("INSERT INTO notes VALUES (%s)", [text])
        if ctx.attempt < 2:
            raise ConnectionError
        return 7

    @road.app.job(transactional=True)
    def note_in_thread(ctx: Context, text: str) -> None:
        ctx.tx.execute("INSERT INTO notes VALUES (%s)", [text])

    await road.work()
    jobs = road.commit(note.call("one"), note_in_thread.call("two"))
    await road.reaches("done", *jobs)
    assert await road.app.handle(jobs[0], note).result(5) == 7
    assert road.query("SELECT text FROM notes ORDER BY text") == [("one",), ("two",)]


async def test_a_plain_function_does_the_same_in_its_thread(road: Road):
    @road.app.job
    async def double(n: int) -> int:
        return 2 * n

    @road.app.job(retry=[0.05])
    def work(ctx: Context) -> None:
        def where() -> str:
            road.seen.append("step")
            return threading.current_thread().name

        assert ctx.sync.step("where", where)
        assert where.__name__ == "where"
        ctx.sync.sleep("nap", 0.1)
        child = ctx.sync.start(double, 4)
        road.seen.append(child.result())
        with ctx.sync.transaction("look") as tx:
            tx.execute("SELECT 1")
        if ctx.attempt < 2:
            raise ConnectionError

    await road.work()
    (job,) = road.commit(work.call())
    await road.reaches("done", job)
    assert road.seen == ["step", 8, 8]


async def test_a_version_that_no_worker_knows_waits_for_one_that_does(road: Road):
    new = road.another_app()

    @road.app.job(name="ship", version="1")
    async def ship_1() -> None:
        road.seen.append("one")

    @new.job(name="ship", version="2", also_runs=["1"])
    async def ship_2() -> None:
        road.seen.append("two")

    await road.work()
    with road.connect() as connection:
        (job,) = [handle.id for handle in new.enqueue(connection, ship_2.call())]
    await road.reaches("parked", job)
    assert "version '2'" in road.query("SELECT last_error FROM redisjobs.outbox")[0][0]
    await road.work(new)
    await road.reaches("done", job)
    assert road.seen == ["two"]


async def test_a_transaction_that_loses_its_connection_or_meets_another_is_made_again_uncounted(road: Road):
    road.query("CREATE TABLE notes (text text)")
    tried: list[str] = []

    async def lose_once(tx: psycopg.AsyncConnection[Any], what: str, statement: str) -> None:
        await tx.execute("INSERT INTO notes VALUES (%s)", [what])
        if what not in tried:
            tried.append(what)
            await tx.execute(statement.encode())

    dies = "SELECT pg_terminate_backend(pg_backend_pid())"
    meets = "DO $$ BEGIN RAISE EXCEPTION 'two met' USING ERRCODE = 'serialization_failure'; END $$"

    @road.app.job(max_attempts=1)
    async def note(ctx: Context) -> None:
        await ctx.transaction("function dies", lose_once, "a", dies)
        await ctx.transaction("function meets", lose_once, "b", meets)
        async with ctx.transaction("block dies") as tx:
            await lose_once(tx, "c", dies)
        async with ctx.transaction("block meets") as tx:
            await lose_once(tx, "d", meets)

    @road.app.job(max_attempts=1, transactional=True)
    async def whole(ctx: Context) -> None:
        await lose_once(ctx.tx, "e", dies)

    @road.app.job(max_attempts=1)
    def in_thread(ctx: Context) -> None:
        with ctx.sync.transaction("block") as tx:
            tx.execute("INSERT INTO notes VALUES ('f')")
            if "f" not in tried:
                tried.append("f")
                tx.execute(dies)

    await road.work()
    jobs = road.commit(note.call(), whole.call(), in_thread.call())
    await road.reaches("done", *jobs, within=30)
    assert road.query("SELECT text FROM notes ORDER BY text") == [(each,) for each in "abcdef"]


async def test_a_transaction_whose_block_fails_leaves_nothing_and_its_failure_is_recorded(road: Road):
    road.query("CREATE TABLE notes (text text)")

    @road.app.job(retry=[0.05])
    async def note(ctx: Context) -> None:
        try:
            async with ctx.transaction("note") as tx:
                await tx.execute("INSERT INTO notes VALUES ('lost')")
                raise ValueError("on second thoughts")
        except StepFailed as error:
            road.seen.append(error.error)
        if ctx.attempt < 2:
            raise ConnectionError

    await road.work()
    (job,) = road.commit(note.call())
    await road.reaches("done", job)
    assert road.seen == ["ValueError: on second thoughts"] * 2
    assert road.query("SELECT * FROM notes") == []


async def test_a_transactional_job_cannot_be_enqueued_directly(road: Road):
    @road.app.job(transactional=True)
    async def book(ctx: Context) -> None:
        del ctx

    with pytest.raises(EnqueueError, match="job 'book' is transactional"):
        await book.enqueue_direct()


async def test_five_hundred_runs_that_wait_for_a_worker_each_do_their_steps_once(road: Road):
    @road.app.job(name="run")
    async def run(ctx: Context, n: int) -> None:
        await ctx.gather(ctx.step("a", road.seen.append, (n, "a")), ctx.step("b", road.seen.append, (n, "b")))

    jobs = road.commit(*(run.call(n) for n in range(500)))
    await road.work(concurrency=100)
    await eventually(lambda: road.query("SELECT count(*) FROM redisjobs.finished") == [(500,)], "all are done", 60)
    assert sorted(road.seen) == sorted((n, each) for n in range(500) for each in "ab")
    assert len(jobs) == 500


async def test_a_running_body_that_is_cancelled_is_undone_though_an_undo_has_to_wait(road: Road):
    async def book(what: str) -> str:
        return what

    async def cancel(what: str) -> None:
        road.seen.append(what)
        if road.seen.count("hotel") == 1:
            raise ConnectionError("the hotel is away")

    @road.app.job(retry=[4])
    async def trip(ctx: Context) -> None:
        for each in ("flight", "hotel"):
            await ctx.step(each, book, each, undo=cancel)
        road.seen.append("booked")
        await ctx.step("slow", asyncio.sleep, 60)

    await road.work()
    (job,) = road.commit(trip.call())
    await eventually(lambda: "booked" in road.seen, "it runs")
    with road.connect() as connection:
        road.app.cancel(connection, job)
    await road.reaches("cancelled", job, within=30)
    undone = [each for each in road.seen if each != "booked"]  # what stands outside of steps runs at each replay
    assert undone == ["hotel", "hotel", "flight"]
    assert road.query("SELECT count(*) FROM redisjobs.steps") == [(0,)]


async def test_a_worker_that_stops_in_the_midst_of_undos_hands_them_on(road: Road):
    hold = asyncio.Event()

    async def cancel(what: str) -> None:
        road.seen.append(what)
        if len(road.seen) == 2:
            await hold.wait()

    @road.app.job(max_attempts=1)
    async def trip(ctx: Context) -> None:
        for each in ("a", "b", "c"):
            await ctx.step(each, str, each, undo=cancel)
        raise ValueError("no seats")

    worker = await road.work()
    (job,) = road.commit(trip.call())
    await eventually(lambda: road.seen == ["c", "b"], "it is being undone")
    await worker.stop(0)
    await road.work()
    await road.reaches("dead", job)
    assert road.seen == ["c", "b", "b", "a"]
    assert road.query("SELECT reason, failures->0->>'type', attempts FROM redisjobs.dead") == [
        ("attempt 1 of 1 failed", "ValueError", 1)
    ]


async def test_a_redriven_run_keeps_what_it_has_done_and_tries_again_what_failed(road: Road):
    mended: list[int] = []

    def fail() -> str:
        road.seen.append("tried")
        if not mended:
            raise ConnectionError("away")
        return "paid"

    @road.app.job(max_attempts=1)
    async def order(ctx: Context) -> None:
        await ctx.step("pick", road.seen.append, "picked")
        road.seen.append(await ctx.step("pay", fail))

    await road.work()
    (job,) = road.commit(order.call())
    await road.reaches("dead", job)
    mended.append(1)
    road.query("SELECT redisjobs.redrive(ARRAY[%(id)s::uuid])", id=job)
    await road.reaches("done", job)
    assert road.seen == ["picked", "tried", "tried", "paid"]
