"""Postgres is away, read-only, or ends sessions: workers go on, and no outcome is dropped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

import psycopg
import pytest

from redisjobs.base import postgres as postgres_module
from redisjobs.base.postgres import Database
from redisjobs.errors import DatabaseUnavailable
from redisjobs.migrations import migrate
from tests.faults.road import Road, last, sized, up
from tests.faults.shop import echo, order, stumble
from tests.support.eventually import eventually
from tests.support.proxy import Proxy
from tests.support.servers import PostgresServer

MakeRoad = Callable[..., Road]
StartPostgres = Callable[..., PostgresServer]


@pytest.fixture
def postgres(start_postgres: StartPostgres) -> PostgresServer:
    """A server of this test's own, with the schema."""
    server = start_postgres()
    migrate(server.url)
    return server


def outcomes(road: Road) -> int:
    """How many outcomes wait in Redis."""
    settled = road.redis.hget("rj:{default}:life", "settled") or b"0-0"
    return sum(len(fields) for _, fields in road.redis.xrange("rj:{default}:outcomes", min=b"(" + settled))


async def test_a_transaction_that_stays_open_over_a_cancel_holds_up_no_other_queue(road: Road):
    await road.start()
    road.worker("-q", "mail")
    (held,) = road.enqueue(order.call(seconds=1.0))
    await road.ran(held)
    with road.connect() as conn:
        conn.execute("SELECT redisjobs.cancel(%s)", [held])
        await eventually(lambda: outcomes(road) > 0, "its outcome waits")
        for _ in range(5):
            (other,) = road.enqueue(order.using(queue="mail").call())
            await eventually(partial(ended, road, other), "a job of another queue is settled", 10)
        assert held in road.states()

    await road.at_rest()


@pytest.mark.timeout(sized(120, 600))
async def test_while_postgres_is_away_workers_go_on_and_their_outcomes_wait(
    make_road: MakeRoad, postgres: PostgresServer
):
    road = make_road(database=postgres.url)
    relays, workers = await road.start()
    jobs = road.enqueue(order.call(seconds=0.1) for _ in range(100))
    await eventually(lambda: "staged" not in road.states().values(), "all are published")

    postgres.stop()
    await eventually(lambda: road.journal.started() == set(jobs), "all have run")
    await eventually(lambda: outcomes(road) > 0, "outcomes wait in Redis")
    await last(sized(1, 180))
    postgres.start()

    back_at = time.monotonic()
    await eventually(lambda: set(jobs) <= road.done(), "all are settled", 10, despite=(psycopg.OperationalError,))
    await road.works_within(10 - (time.monotonic() - back_at))
    assert all(program.is_running() for program in (*relays, *workers))
    await road.at_rest()


async def test_a_postgres_that_was_killed_has_kept_what_committed(make_road: MakeRoad, postgres: PostgresServer):
    road = make_road(database=postgres.url)
    await road.start()
    road.enqueue(order.call(seconds=0.02) for _ in range(500))
    await eventually(lambda: len(road.journal.started()) > 100, "work is under way")

    postgres.kill()
    postgres.start()

    await road.at_rest()


async def test_while_postgres_is_read_only_no_outcome_is_dropped(road: Road):
    relays, workers = await road.start()
    jobs = road.enqueue([order.call(seconds=0.05) for _ in range(100)] + [stumble.call(failures=1), echo.call(7)])
    await eventually(lambda: len(road.journal.started()) > 30, "work is under way")
    name = road.query("SELECT current_database()")[0][0]

    road.query(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    end_sessions(road)
    await eventually(lambda: road.journal.started() == set(jobs), "all have run")
    await last(sized(1, 30))
    assert road.states(), "something was settled in a read-only database"
    with psycopg.connect(road.database_url, autocommit=True, options="-c default_transaction_read_only=off") as conn:
        conn.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only".encode())
    end_sessions(road)

    await road.at_rest()
    assert all(program.is_running() for program in (*relays, *workers))


async def test_sessions_that_are_ended_again_and_again_cost_nothing(road: Road):
    await road.start()
    for _ in range(sized(10, 100)):
        road.enqueue(order.call() for _ in range(20))
        end_sessions(road)
        await last(0.1)

    await road.at_rest()
    await road.works_within(5)


async def test_relays_that_lose_their_answers_from_postgres_mark_and_settle_once(road: Road, postgres_proxy: Proxy):
    await up(road.relay(database=postgres_proxy.url), road.worker())
    for statement in ("SET state = 'published', published_at", "DELETE FROM redisjobs.outbox", "COMMIT", "BEGIN"):
        lost = postgres_proxy.lose_reply(statement, times=sized(1, 5))
        road.enqueue(order.call() for _ in range(20))
        await lost.happened()
        await eventually(lambda: not road.states(), f"all is settled although the answer to {statement} was lost", 20)

    await road.at_rest()


async def test_when_one_connection_to_postgres_went_silent_no_other_is_waited_for(
    postgres_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
):
    stalled_s = 3
    monkeypatch.setattr(postgres_module, "STALLED_S", stalled_s)
    database = Database(postgres_proxy.url)
    await database.open()
    await asyncio.gather(*(database.run("fill the pool", b"SELECT pg_sleep(0.2)") for _ in range(3)))
    await eventually(lambda: postgres_proxy.connections == 3, "it is full")

    postgres_proxy.swallow_open()
    began = time.monotonic()
    with pytest.raises(DatabaseUnavailable):
        await database.run("the first", b"SELECT 1")
    assert await database.run("the second", b"SELECT 1") == [(1,)]

    assert time.monotonic() - began < 2 * stalled_s
    await database.close()
    await eventually(lambda: postgres_proxy.connections == 0, "all are given back")


def end_sessions(road: Road) -> None:
    """What an administrator, a failover or a pooler does to every connection."""
    road.query(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def ended(road: Road, job: str) -> bool:
    return job in road.done()
