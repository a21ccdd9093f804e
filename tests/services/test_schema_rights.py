"""Each role can do its own work and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from redisjobs import App
from redisjobs.errors import StoreRefused
from redisjobs.record import pack
from tests.support.builders import finish, stage, states
from tests.support.relays import hand, relay_by_hand
from tests.support.schedules import dispatched, outage, rounds, scheduler_by_hand
from tests.support.sleepers import sleepers

Conn = psycopg.Connection[tuple[object, ...]]
SCHEMA_TABLES = ["outbox", "queues", "dead", "finished", "finished_other", "migrations", "schedules"]


@contextmanager
def refused(conn: Conn) -> Iterator[None]:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        yield
    conn.rollback()


def test_a_producer_inserts_and_enqueues(role: Callable[[str], str]):
    with psycopg.connect(role("producer")) as producer:
        producer.execute("INSERT INTO redisjobs.outbox (job, input, queue) VALUES ('a', '{}', 'q')")
        producer.execute("INSERT INTO redisjobs.outbox (job, payload, codec) VALUES ('a', 'x', 'msgpack')")
        assert producer.execute("SELECT redisjobs.enqueue('b')").fetchone()


@pytest.mark.parametrize("table", SCHEMA_TABLES)
def test_a_producer_reads_and_changes_nothing(role: Callable[[str], str], table: str):
    name = sql.Identifier("redisjobs", table)
    with psycopg.connect(role("producer")) as producer:
        for statement in ("SELECT FROM {}", "DELETE FROM {}", "TRUNCATE {}", "LOCK {}", "DROP TABLE {}"):
            with refused(producer):
                producer.execute(sql.SQL(statement).format(name))


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO redisjobs.outbox (job, input, state) VALUES ('a', '{}', 'published')",
        "INSERT INTO redisjobs.outbox (job, input, attempts) VALUES ('a', '{}', 1)",
        "INSERT INTO redisjobs.outbox (job, input, xact) VALUES ('a', '{}', '1')",
        "INSERT INTO redisjobs.outbox (job, input, seq) OVERRIDING SYSTEM VALUE VALUES ('a', '{}', 1)",
        "UPDATE redisjobs.outbox SET priority = 1",
        "SELECT redisjobs.cancel(gen_random_uuid())",
        "SELECT redisjobs.reprioritize(gen_random_uuid(), 1)",
        "SELECT redisjobs.reschedule(gen_random_uuid())",
        "SELECT redisjobs.end_of(gen_random_uuid())",
        "SELECT redisjobs.pause('q')",
        "SELECT redisjobs.redrive('{}')",
        "SELECT redisjobs.set_aside('{}')",
        "SELECT redisjobs.drop_finished()",
        "SELECT redisjobs.make_room(now())",
        "SELECT redisjobs.grant_relay('public')",
        "CREATE TABLE redisjobs.mine ()",
    ],
)
def test_a_producer_may_call_nothing_else(role: Callable[[str], str], statement: str):
    with psycopg.connect(role("producer")) as producer, refused(producer):
        producer.execute(statement.encode())


async def test_a_relay_works_on_its_grant_alone(conn: Conn, role: Callable[[str], str], redis_url: str):
    done, dead, gone = stage(conn), stage(conn, "dies"), stage(conn, run_at="2100-01-01 00:00Z")
    conn.execute("SELECT redisjobs.reprioritize(%s, 5)", [done])
    twin = [stage(conn, queue="keys", idempotency_key="k") for _ in range(2)]
    conn.execute("UPDATE redisjobs.outbox SET cancel_requested = true WHERE id = %s", [gone])
    conn.commit()

    async with relay_by_hand(role("relay"), redis_url) as relay, hand(redis_url) as worker:
        await relay.rounds()
        first, second = await worker.take()
        await worker.end(finish(first), finish(second, "dead"))
        await worker.run("retry", queue="keys", delay_ms=60_000)
        await relay.rounds()
        await worker.broker.redis.flushall()
        await relay.renewed()
        await relay.rounds()
        relay.relay.audit.begin(age_s=0)
        await relay.relay.audit.step(relay.relay.leases.held)

    assert states(conn) == {
        done: "done",
        dead: "dead",
        gone: "cancelled",
        twin[0]: "published",
        twin[1]: "deduplicated",
    }


async def test_without_the_grant_a_relay_says_what_to_grant(conn: Conn, role: Callable[[str], str], redis_url: str):
    async with relay_by_hand(role("producer"), redis_url) as relay:
        with pytest.raises(StoreRefused, match=r"grant_relay\('role'\)"):
            await relay.round()


async def test_a_scheduler_works_on_its_grant_alone(conn: Conn, role: Callable[[str], str]):
    app = App("shop")

    @app.schedule("* * * * *", overlap="cancel")
    @app.job
    async def tick() -> None: ...

    url = role("scheduler")
    for _ in range(2):
        async with scheduler_by_hand(url, app=app) as scheduler:
            await rounds(scheduler)
            outage(conn, "tick", timedelta(hours=1))
            await rounds(scheduler)
            conn.execute("UPDATE redisjobs.outbox SET idempotency_key = gen_random_uuid()::text")
            conn.commit()
    assert len(dispatched(conn, "tick")) == 2
    with psycopg.connect(url) as connection:
        for statement in ("DELETE FROM redisjobs.outbox", "SELECT input FROM redisjobs.outbox",
                          "SELECT redisjobs.redrive('{}')", "SELECT redisjobs.pause('q')"):  # fmt: skip
            with refused(connection):
                connection.execute(statement.encode())


async def test_without_the_grant_a_scheduler_says_what_to_grant(role: Callable[[str], str]):
    async with scheduler_by_hand(role("producer")) as scheduler:
        with pytest.raises(StoreRefused, match=r"grant_scheduler\('role'\)"):
            await scheduler.tick()


def test_an_operator_changes_schedules_and_a_producer_does_not(role: Callable[[str], str]):
    with psycopg.connect(role("operator")) as operator:
        assert operator.execute("SELECT redisjobs.schedule('s', 'a', '* * * * *')").fetchone() == (True,)
        assert operator.execute("SELECT redisjobs.pause_schedule('s')").fetchone() == (True,)
        assert operator.execute("SELECT redisjobs.trigger_schedule('s') IS NULL").fetchone() == (False,)
        assert operator.execute("SELECT redisjobs.unschedule('s')").fetchone() == (True,)
        with refused(operator):
            operator.execute("UPDATE redisjobs.schedules SET watermark = now()")
    with psycopg.connect(role("producer")) as producer:
        for statement in ("SELECT redisjobs.schedule('s', 'a', '* * * * *')", "SELECT redisjobs.trigger_schedule('s')"):
            with refused(producer):
                producer.execute(statement.encode())


def test_an_operator_looks_cancels_pauses_redrives_and_purges(conn: Conn, role: Callable[[str], str]):
    job = stage(conn)
    conn.commit()
    with psycopg.connect(role("operator")) as operator:
        for table in SCHEMA_TABLES:
            operator.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier("redisjobs", table)))
        assert operator.execute("SELECT redisjobs.set_aside(ARRAY[%s])", [job]).fetchone() == (1,)
        assert operator.execute("SELECT redisjobs.set_aside(ARRAY[%s], false)", [job]).fetchone() == (1,)
        assert operator.execute("SELECT redisjobs.reprioritize(%s, 5)", [job]).fetchone() == ("changed",)
        assert operator.execute("SELECT redisjobs.reschedule(%s, delay => '1 min')", [job]).fetchone() == ("changed",)
        assert operator.execute("SELECT redisjobs.cancel(%s)", [job]).fetchone() == ("requested",)
        operator.execute("SELECT redisjobs.pause('q'), redisjobs.pause('q', false)")
        assert operator.execute("SELECT redisjobs.redrive('{}')").fetchone() == (0,)
        operator.execute("DELETE FROM redisjobs.dead")
        operator.commit()
        for statement in ("DELETE FROM redisjobs.outbox", "UPDATE redisjobs.queues SET token = 0",
                          "SELECT redisjobs.enqueue('a')", "SELECT redisjobs.drop_finished()"):  # fmt: skip
            with refused(operator):
                operator.execute(statement.encode())


async def test_a_relay_and_a_worker_carry_a_run_with_a_child_on_their_grants_alone(
    conn: Conn, role: Callable[[str], str], redis_url: str
):
    stage(conn)
    conn.commit()
    async with (
        relay_by_hand(role("relay"), redis_url) as relay,
        hand(redis_url) as worker,
        sleepers(role("worker"), worker) as runs,
    ):
        await relay.rounds()
        run = await runs.take()
        child = await run.call(queue="childs")
        await run.wait()
        await run.suspend()
        await relay.rounds()
        await worker.run("cancelled", "childs")
        conn.execute("SELECT redisjobs.send_event('paid', '7')")
        conn.commit()
        await relay.rounds()
        again = await runs.take()
        assert (await again.wait()).state == "done"
        await again.put("charge", undo=True)
        await again.end("dead")
        await relay.rounds()
        await worker.run("dead", record=pack(undone=True))
        await relay.rounds()
        assert states(conn) == {run.id: "dead", child: "cancelled"}
        await relay.relay.deliverer.clean()
