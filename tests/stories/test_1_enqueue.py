"""Committing a transaction is enqueuing the job; what travels with it arrives unchanged (rules O1, O2, R1)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from redisjobs import Context
from tests.stories.road import Road
from tests.support.eventually import always, eventually

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_a_job_runs_once_its_transaction_has_committed(road: Road):
    @road.app.job
    async def confirm(order: int) -> None:
        with road.connect() as connection:
            road.seen.append(connection.execute("SELECT email FROM orders WHERE id = %s", [order]).fetchone())

    road.query("CREATE TABLE orders (id int PRIMARY KEY, email text)")
    await road.work()
    with road.connect() as connection:
        connection.execute("INSERT INTO orders VALUES (1, 'a@b.example')")
        handle = confirm.enqueue(connection, order=1)
        await always(lambda: not road.seen, "nothing runs before the commit", lasting=0.3)

    await road.reaches("done", handle)
    assert road.seen == [("a@b.example",)]


async def test_what_is_rolled_back_never_runs_be_it_a_transaction_or_a_savepoint(road: Road):
    @road.app.job
    async def note(what: str) -> None:
        road.seen.append(what)

    await road.work()
    with road.connect() as connection:
        note.enqueue(connection, what="rolled back")
        connection.rollback()
        with connection.transaction():
            note.enqueue(connection, what="before the savepoint")
            with connection.transaction(force_rollback=True):
                note.enqueue(connection, what="inside the savepoint")
    with pytest.raises(ZeroDivisionError), road.connect() as connection:
        note.enqueue(connection, what="of a transaction that raised")
        raise ZeroDivisionError
    with road.connect() as connection:
        last = note.enqueue(connection, what="last")

    await road.reaches("done", last)
    assert road.seen == ["before the savepoint", "last"]
    assert road.query("SELECT count(*) FROM redisjobs.outbox") == [(0,)]


async def test_an_async_connection_does_the_same_and_is_awaited(road: Road):
    @road.app.job
    def note(what: str) -> None:
        road.seen.append(what)

    await road.work()
    async with await psycopg.AsyncConnection.connect(road.database_url) as connection:
        handle = await note.enqueue(connection, what="async")

    await road.reaches("done", handle)
    assert road.seen == ["async"]


async def test_everything_that_a_call_carries_reaches_its_body(road: Road):
    @road.app.job(queue="mail", max_attempts=3)
    async def mail(ctx: Context, to: str) -> None:
        road.seen.append((to, ctx))

    run_at, expires = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(hours=1, microseconds=7)
    headers: dict[str, Any] = {"from": "shop ✓", "n": 2**70, "deep": {"list": [1, 1.5, None, True], "empty": {}}}
    given = mail.using(
        run_at=run_at, expires=expires, idempotency_key="ключ 1", window=0, priority=7, max_attempts=9,
        tenant="tenant ü", enqueued_by="the shop", headers=headers,
    )  # fmt: skip
    await road.work(queues=["mail"])
    with road.connect() as connection:
        handle = given.enqueue(connection, to="a@b.example")

    await road.reaches("done", handle)
    ((to, ctx),) = road.seen
    assert to == "a@b.example"
    assert (ctx.job_id, ctx.job, ctx.queue) == (handle.id, "mail", "mail")
    assert (ctx.attempt, ctx.max_attempts, ctx.priority) == (1, 9, 7)
    assert (ctx.run_at, ctx.expires_at, ctx.idempotency_key) == (run_at, expires, "ключ 1")
    assert (ctx.tenant_id, ctx.enqueued_by, ctx.headers) == ("tenant ü", "the shop", headers)
    assert abs(datetime.now(UTC) - ctx.staged_at) < timedelta(minutes=1)


async def test_a_row_of_another_language_carries_as_much(road: Road):
    @road.app.job
    async def mail(ctx: Context, to: str, cc: str = "") -> None:
        road.seen.append((to, cc, ctx.tenant_id, ctx.traceparent, ctx.headers, ctx.enqueued_by, ctx.max_attempts))

    await road.work()
    road.query(
        """SELECT redisjobs.enqueue('mail', '{"to": "a@b.example"}', tenant_id => 't1', traceparent => %(trace)s,
                  headers => '{"a": [1]}', enqueued_by => 'psql', max_attempts => 2)""",
        trace=TRACE,
    )
    road.query("""INSERT INTO redisjobs.outbox (job, input) VALUES ('mail', '["b@c.example", "d@e.example"]')""")

    await eventually(lambda: len(road.seen) == 2, "both run")
    assert road.seen == [
        ("a@b.example", "", "t1", TRACE, {"a": [1]}, "psql", 2),
        ("b@c.example", "d@e.example", None, None, {}, None, 20),
    ]


async def test_a_job_that_a_body_enqueues_belongs_to_the_same_trace(road: Road):
    @road.app.job
    async def child(ctx: Context) -> None:
        road.seen.append(ctx.traceparent)

    @road.app.job
    async def parent() -> None:
        async with await psycopg.AsyncConnection.connect(road.database_url) as connection:
            await child.enqueue(connection)

    await road.work()
    road.query("SELECT redisjobs.enqueue('parent', traceparent => %(trace)s)", trace=TRACE)
    await eventually(lambda: road.seen, "the child runs")
    assert road.seen == [TRACE]


async def test_many_calls_are_one_statement_and_keep_their_order(road: Road):
    @road.app.job
    async def note(number: int) -> None:
        road.seen.append(number)

    @road.app.job
    async def other(number: int) -> None:
        road.seen.append(number)

    with road.connect() as connection:
        handles = road.app.enqueue(connection, (note.call(n) for n in range(600)), other.call(600), [note.call(601)])
    await road.work(concurrency=1)

    await eventually(lambda: len(road.seen) == 602, "all run", 30)
    assert road.seen == list(range(602))
    await road.reaches("done", handles[0], handles[-1])


async def test_a_job_waits_for_its_time_by_the_clock_of_postgres_and_redis(road: Road):
    loop = asyncio.get_running_loop()

    @road.app.job
    async def note(what: str) -> None:
        road.seen.append((what, loop.time() - began))

    await road.work()
    began = loop.time()
    road.commit(
        note.using(delay=1.5).call("later"), note.using(delay=timedelta(seconds=0.5)).call("soon"), note.call("now")
    )
    await eventually(lambda: len(road.seen) == 3, "all run")

    (first, at_0), (second, at_1), (third, at_2) = road.seen
    assert (first, second, third) == ("now", "soon", "later")
    assert at_0 < at_1 < at_2 < 5
    assert at_1 >= 0.5
    assert at_2 >= 1.5


async def test_a_job_that_could_not_start_in_time_never_does(road: Road):
    @road.app.job
    async def note() -> None:
        road.seen.append("ran")

    (job,) = road.commit(note.using(expires=0.2).call())
    await eventually(
        lambda: road.query("SELECT 1 FROM redisjobs.outbox WHERE expires_at < clock_timestamp()"), "its time is over"
    )
    await road.work()
    await road.reaches("expired", job)
    assert road.seen == []
