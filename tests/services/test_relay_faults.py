"""Stores that are away, full, read-only or slow: rows wait, nothing is dropped, and work goes on by itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from uuid import UUID

import psycopg
import pytest
import redis as redis_py
from redis.exceptions import OutOfMemoryError

from redisjobs.base import postgres
from redisjobs.errors import ConfigurationError, DatabaseUnavailable
from redisjobs.migrations import migrate
from tests.support.builders import finish, stage, states
from tests.support.eventually import always, eventually
from tests.support.proxy import Proxy
from tests.support.relays import Hand, hand, in_line, relay_by_hand
from tests.support.servers import PostgresServer, RedisServer

Conn = psycopg.Connection[tuple[object, ...]]
TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE pid <> pg_backend_pid() AND datname = current_database()"
)


def is_published(conn: Conn, job: UUID) -> bool:
    return states(conn)[job] == "published"


@pytest.mark.parametrize("error", ["LOADING Redis is loading", "READONLY You can't write", "OOM command not allowed"])
async def test_a_redis_that_cannot_now_is_asked_now_and_then_and_work_goes_on_by_itself(
    conn: Conn, database_url: str, redis_proxy: Proxy, caplog: pytest.LogCaptureFixture, error: str
):
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        first = stage(conn)
        conn.commit()
        await relay.relay.start()
        await eventually(lambda: states(conn) == {first: "published"}, "it works")
        with redis_proxy.answer(error) as answered:
            more = [stage(conn) for _ in range(5)]
            conn.commit()
            await eventually(lambda: answered.count, "it has met the trouble")
            count, began = answered.count, time.monotonic()
            await always(lambda: relay.relay.state == "running", "it stays up", lasting=2)
            assert answered.count - count < 20 * (time.monotonic() - began)
            assert {states(conn)[job] for job in more} == {"staged"}

        await eventually(lambda: set(states(conn).values()) == {"published"}, "it goes on")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_redis_that_is_away_holds_nothing_up_for_good(conn: Conn, database_url: str, redis_proxy: Proxy):
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        stage(conn)
        conn.commit()
        await relay.relay.start()
        await eventually(lambda: "published" in states(conn).values(), "it works")
        redis_proxy.down()
        stage(conn)
        conn.commit()
        await eventually(lambda: relay.relay.failures > 2, "it has noticed")

        redis_proxy.heal()

        await eventually(lambda: set(states(conn).values()) == {"published"}, "it goes on")


async def test_a_script_cache_that_is_emptied_is_not_noticed(
    conn: Conn, database_url: str, redis_url: str, worker: Hand, caplog: pytest.LogCaptureFixture
):
    async with relay_by_hand(database_url, redis_url) as relay:
        for _ in range(5):
            await worker.broker.redis.script_flush()
            stage(conn)
            conn.commit()
            await relay.rounds()
            await worker.broker.redis.script_flush()
            await worker.run()
            await relay.rounds()

    assert set(states(conn).values()) == {"done"}
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]


async def test_outcomes_survive_a_postgres_that_is_read_only_for_a_while(
    conn: Conn, database_url: str, redis_url: str, worker: Hand
):
    async with relay_by_hand(database_url, redis_url) as relay:
        jobs = [stage(conn) for _ in range(5)]
        conn.commit()
        await relay.relay.start()
        await eventually(lambda: set(states(conn).values()) == {"published"}, "they are published")
        conn.autocommit = True
        name = conn.info.dbname
        conn.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'.encode())
        conn.execute(TERMINATE)
        await worker.run()
        await eventually(lambda: relay.relay.failures > 1, "it has noticed")
        assert set(states(conn).values()) == {"published"}

        conn.execute("SET default_transaction_read_only = off")
        conn.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only'.encode())
        conn.execute(TERMINATE)

        await eventually(lambda: states(conn) == dict.fromkeys(jobs, "done"), "they settle", within=10)


async def test_terminated_backends_are_replaced(conn: Conn, database_url: str, redis_url: str):
    async with relay_by_hand(database_url, redis_url) as relay:
        await relay.relay.start()
        conn.autocommit = True
        for _ in range(5):
            conn.execute(TERMINATE)
            job = stage(conn)
            await eventually(partial(is_published, conn, job), "it is published", within=8)
        assert relay.relay.state == "running"


async def test_a_postgres_that_stops_and_starts_is_found_again(
    redis_url: str, start_postgres: Callable[..., PostgresServer]
):
    server = start_postgres()
    migrate(server.url)
    async with relay_by_hand(server.url, redis_url) as relay:
        await relay.relay.start()
        await eventually(lambda: relay.relay.ear.hears, "it works")
        server.stop()
        await eventually(lambda: relay.relay.failures > 0, "it has noticed", within=20)
        server.start()
        with psycopg.connect(server.url, autocommit=True) as conn:
            job = stage(conn)
            await eventually(lambda: states(conn) == {job: "published"}, "it goes on", within=10)


async def test_a_connection_that_went_silent_is_given_up(
    conn: Conn, postgres_proxy: Proxy, redis_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(postgres, "STALLED_S", 0.5)
    async with relay_by_hand(postgres_proxy.url, redis_url) as relay:
        await relay.relay.start()
        first = stage(conn)
        conn.commit()
        await eventually(lambda: states(conn) == {first: "published"}, "it works")
        postgres_proxy.swallow_open()
        second = stage(conn)
        conn.commit()

        await eventually(lambda: states(conn)[second] == "published", "it goes on with new connections", within=10)


async def test_a_relay_that_stands_still_inside_a_transaction_is_taken_over_from(
    conn: Conn, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
):
    job = stage(conn)
    conn.commit()
    async with relay_by_hand(database_url, redis_url) as first, relay_by_hand(database_url, redis_url) as second:
        await first.rounds()
        monkeypatch.setattr(postgres, "_BEGIN", postgres._BEGIN.replace(b"'5s'", b"'1s'"))
        with pytest.raises(DatabaseUnavailable):
            async with first.relay.database.transaction("stand still") as standing:
                await standing.execute("SELECT FROM redisjobs.queues FOR SHARE")
                conn.execute("UPDATE redisjobs.queues SET lease_until = '-infinity'")  # waits for the lock
                conn.commit()
                await second.renewed()
                assert second.holds()
    assert states(conn) == {job: "published"}


async def test_a_database_without_the_schema_is_told_of_and_comes_to_life_with_it(
    empty_database_url: str, redis_url: str, caplog: pytest.LogCaptureFixture
):
    async with relay_by_hand(empty_database_url, redis_url) as relay:
        with pytest.raises(ConfigurationError, match="redisjobs migrate"):
            await relay.round()
        await relay.relay.start()
        await eventually(lambda: "redisjobs migrate" in caplog.text, "it says what to do")

        migrate(empty_database_url)

        with psycopg.connect(empty_database_url, autocommit=True) as conn:
            job = stage(conn)
            await eventually(lambda: states(conn) == {job: "published"}, "it works")


async def test_one_queue_in_trouble_does_not_stop_the_others(
    conn: Conn, database_url: str, redis_proxy: Proxy, caplog: pytest.LogCaptureFixture
):
    for queue in "abcdef":
        stage(conn, queue=queue)
    conn.commit()
    async with relay_by_hand(database_url, redis_proxy.url) as relay:

        def of_b(request: object) -> bool:
            return b"rj:{b}:life" in getattr(request, "words", ()) and getattr(request, "sha", None) is not None

        with redis_proxy.answer("ERR odd", of_b):
            for _ in range(4):
                await relay.round()
            ends = conn.execute("SELECT queue, state FROM redisjobs.outbox ORDER BY queue").fetchall()
            conn.commit()
            assert ends == [(queue, "staged" if queue == "b" else "published") for queue in "abcdef"]
        await relay.rounds()

    assert set(states(conn).values()) == {"published"}
    assert "relay.queue_failed" in caplog.text


# a Redis that is full


async def test_publishing_stops_before_redis_is_full_and_goes_on_in_order(
    conn: Conn, database_url: str, start_redis: Callable[..., RedisServer], caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    server = start_redis(maxmemory="8mb", maxmemory_policy="noeviction")
    conn.execute(
        "INSERT INTO redisjobs.outbox (job, input)"
        " SELECT 'a', json_build_object('x', repeat('y', 10000)) FROM generate_series(1, 1500)"
    )
    jobs = [job for (job,) in conn.execute("SELECT id FROM redisjobs.outbox ORDER BY seq").fetchall()]
    conn.commit()
    async with relay_by_hand(database_url, server.url) as relay, hand(server.url) as worker:
        with server.client() as client:
            await relay.relay.start()
            await eventually(lambda: relay.relay.memory.full, "it says that Redis is full")
            await always(lambda: relay.relay.state == "running", "it waits", lasting=1.2)
            published = in_line(client)
            assert jobs[: len(published)] == published
            assert 200 < len(published) < 700
            info = client.info("memory")
            assert info["used_memory"] < info["maxmemory"]

            await worker.run(count=100)
            await eventually(lambda: list(states(conn).values()).count("done") == 100, "what ended settles")

            client.config_set("maxmemory", "100mb")
            await eventually(lambda: len(in_line(client)) == 1400, "all are published", within=20)
            assert in_line(client) == jobs[100:]
    said = [record.getMessage().split()[0] for record in caplog.records]
    assert said.count("relay.redis_full") < 5
    assert said.count("relay.redis_has_room") >= 1
    assert "outbox.publish_failed" not in said
    assert "service.round_failed" not in said


async def test_a_redis_that_others_have_filled_still_lets_work_end_and_settle(
    conn: Conn, database_url: str, start_redis: Callable[..., RedisServer]
):
    server = start_redis(maxmemory="4mb", maxmemory_policy="noeviction")
    jobs = [stage(conn) for _ in range(20)]
    conn.commit()
    async with relay_by_hand(database_url, server.url) as first:
        await first.rounds()
        await first.relay.leases.let_go()
    with server.client() as client:
        with pytest.raises(OutOfMemoryError):
            for n in range(100):
                client.set(f"rj:ballast{n}", "x" * 100_000)
        with pytest.raises(OutOfMemoryError):
            for _ in range(1000):
                client.append("rj:ballast", "x" * 1000)
        async with relay_by_hand(database_url, server.url) as second, hand(server.url) as worker:
            late = stage(conn)
            conn.commit()
            taken = await worker.take()
            assert len(taken) == 20
            await worker.broker.finish("default", "hand", [finish(each) for each in taken])
            await second.renewed()
            await second.rounds()
            assert {states(conn)[job] for job in jobs} == {"done"}
            assert states(conn)[late] == "staged"

            client.delete(*[f"rj:ballast{n}" for n in range(100)], "rj:ballast")
            second.relay.memory._next = 0.0
            await second.rounds()
            assert states(conn)[late] == "published"


async def test_a_user_that_may_not_ask_for_memory_is_told_once(
    conn: Conn, database_url: str, redis_proxy: Proxy, caplog: pytest.LogCaptureFixture
):
    redis_proxy.answer("NOPERM this user has no permissions to run the 'info' command", "INFO")
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        job = stage(conn)
        conn.commit()
        await relay.renewed()
        await relay.renewed()

    assert states(conn) == {job: "published"}
    assert caplog.text.count("relay.info_forbidden") == 1


# life and end


async def test_it_starts_and_stops_any_number_of_times(conn: Conn, database_url: str, redis_url: str):
    async with relay_by_hand(database_url, redis_url) as relay:
        for _ in range(3):
            await relay.relay.start()
            await relay.relay.start()
            job = stage(conn)
            conn.commit()
            await eventually(partial(is_published, conn, job), "it works")
            await relay.relay.stop()
            assert relay.relay.state == "stopped"
            assert conn.execute("SELECT count(*) FROM redisjobs.queues WHERE holder IS NOT NULL").fetchone() == (0,)
            conn.commit()


async def test_it_stops_in_time_while_both_stores_are_silent(database_url: str, redis_proxy: Proxy, conn: Conn):
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        stage(conn)
        conn.commit()
        held = redis_proxy.hold_request("publish")
        await relay.relay.start()
        await held.happened()
        began = time.monotonic()

        await relay.relay.stop(0.5)

        assert time.monotonic() - began < 5
        assert relay.relay.state == "stopped"
        held.release()


@pytest.mark.timeout(240)
async def test_two_thousand_queues_are_all_served_and_cost_little_at_rest(
    conn: Conn, database_url: str, redis_url: str, redis: redis_py.Redis
):
    async def rests() -> bool:
        """A renewal asks Redis two things of each queue, and a turn of a queue at least one."""
        before = redis.info("stats")["total_commands_processed"]
        await always(lambda: relay.relay.state == "running", "it runs", lasting=3)
        return bool(redis.info("stats")["total_commands_processed"] - before < 3 * 2000)

    conn.execute(
        "INSERT INTO redisjobs.outbox (job, queue, input) SELECT 'a', 'q.' || n, '{}' FROM generate_series(1, 2000) n"
    )
    conn.commit()
    async with relay_by_hand(database_url, redis_url) as relay:
        await relay.relay.start()
        await eventually(lambda: set(states(conn).values()) == {"published"}, "all are published", within=120)
        await eventually(lambda: relay.relay.ear.hears, "it hears")
        await eventually(rests, "the queues cost nothing but their renewal", within=60)
        job = stage(conn, queue="q.77")
        conn.commit()
        await eventually(lambda: states(conn)[job] == "published", "it is heard of")
