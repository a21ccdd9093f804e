"""Each role can do its own work and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql

from redisjobs.errors import StoreRefused
from tests.support.builders import finish, stage, states
from tests.support.relays import hand, relay_by_hand

Conn = psycopg.Connection[tuple[object, ...]]
SCHEMA_TABLES = ["outbox", "queues", "dead", "finished", "finished_other", "migrations"]


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
        await relay.relay.audit.step(relay.relay.leases.held, age_s=0)

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


def test_an_operator_looks_cancels_pauses_redrives_and_purges(conn: Conn, role: Callable[[str], str]):
    job = stage(conn)
    conn.commit()
    with psycopg.connect(role("operator")) as operator:
        for table in SCHEMA_TABLES:
            operator.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier("redisjobs", table)))
        assert operator.execute("SELECT redisjobs.set_aside(ARRAY[%s])", [job]).fetchone() == (1,)
        assert operator.execute("SELECT redisjobs.set_aside(ARRAY[%s], false)", [job]).fetchone() == (1,)
        assert operator.execute("SELECT redisjobs.cancel(%s)", [job]).fetchone() == ("requested",)
        operator.execute("SELECT redisjobs.pause('q'), redisjobs.pause('q', false)")
        assert operator.execute("SELECT redisjobs.redrive('{}')").fetchone() == (0,)
        operator.execute("DELETE FROM redisjobs.dead")
        operator.commit()
        for statement in ("DELETE FROM redisjobs.outbox", "UPDATE redisjobs.queues SET token = 0",
                          "SELECT redisjobs.enqueue('a')", "SELECT redisjobs.drop_finished()"):  # fmt: skip
            with refused(operator):
                operator.execute(statement.encode())
