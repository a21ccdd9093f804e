"""A commit is heard of at once, a busy queue costs its producers no NOTIFY, and no order of events loses one."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator

import psycopg
import pytest
import redis as redis_py

from redisjobs.dozing import BUSY_WAKES
from tests.support.builders import stage, states
from tests.support.eventually import always, eventually
from tests.support.listening import Listener, heard
from tests.support.pgbouncer import PgBouncer
from tests.support.relays import RelayByHand, in_line, relay_by_hand

Conn = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
async def relay(database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RelayByHand]:
    """It never looks by itself within a test: what it finds, it has heard of. Nor does it doze before `get_quiet`."""
    monkeypatch.setattr("redisjobs.dozing.DOZE_S", 60.0)
    async with relay_by_hand(database_url, redis_url, interval=60, lease=600) as made:
        yield made


async def started(relay: RelayByHand) -> None:
    await relay.relay.start()
    await eventually(lambda: relay.relay.ear.hears, "the relay hears itself")
    await eventually(lambda: relay.relay._due.get("look", 0) > 0, "it has looked once")


async def test_a_commit_is_heard_of_at_once(conn: Conn, relay: RelayByHand, redis: redis_py.Redis):
    stage(conn, queue="q")
    conn.commit()
    await relay.rounds()
    await started(relay)

    job = stage(conn, queue="q")
    conn.commit()

    await eventually(lambda: job in in_line(redis, "q"), "it is published")


async def test_a_queue_that_nobody_has_seen_is_heard_of_at_once(conn: Conn, relay: RelayByHand, redis: redis_py.Redis):
    await started(relay)

    job = stage(conn, queue="quite.new")
    conn.commit()

    await eventually(lambda: in_line(redis, "quite.new") == [job], "it is published")


async def test_a_name_that_is_none_harms_nobody(conn: Conn, relay: RelayByHand, redis: redis_py.Redis):
    await started(relay)
    for payload in ("", "no name", "x" * 7000, "{a}", "?x", "!"):
        conn.execute("SELECT pg_notify('redisjobs.wake', %s)", [payload])
    job = stage(conn)
    conn.commit()

    await eventually(lambda: in_line(redis) == [job], "it is published")
    assert list(relay.relay.leases.held) == ["default"]


async def test_a_pause_is_heard_of_at_once_and_so_is_its_end(conn: Conn, relay: RelayByHand, redis: redis_py.Redis):
    stage(conn)
    conn.commit()
    await relay.rounds()
    await started(relay)

    conn.execute("SELECT redisjobs.pause('default')")
    conn.commit()
    await eventually(lambda: redis.hget("rj:{default}:life", "paused") == b"1", "it is paused")
    conn.execute("SELECT redisjobs.pause('default', false)")
    conn.commit()
    await eventually(lambda: redis.hget("rj:{default}:life", "paused") == b"0", "it goes on")


async def test_a_cancel_is_heard_of(conn: Conn, relay: RelayByHand):
    job = stage(conn)
    conn.commit()
    await relay.rounds()
    await started(relay)

    conn.execute("SELECT redisjobs.cancel(%s)", [job])
    conn.commit()

    await eventually(lambda: states(conn) == {job: "cancelled"}, "it is cancelled")


# who must notify


def polls(relay: RelayByHand) -> bool:
    return relay.relay.activity["default"].polled


async def get_busy(conn: Conn, relay: RelayByHand) -> None:
    stage(conn)
    conn.commit()
    await relay.rounds()
    relay.relay.activity["default"].wakes = BUSY_WAKES
    stage(conn)
    conn.commit()
    await relay.rounds()
    assert polls(relay)


async def get_quiet(relay: RelayByHand) -> None:
    relay.relay.activity["default"].last_work = -math.inf
    await relay.round()


async def sleeps(relay: RelayByHand) -> bool:
    """After a quiet round. It may take several: any transaction on the server, as of autovacuum, is an older one."""
    await get_quiet(relay)
    return not polls(relay)


async def test_producers_of_a_polled_queue_do_not_notify(conn: Conn, relay: RelayByHand, listener: Listener):
    await get_busy(conn, relay)
    heard(listener)

    stage(conn)
    stage(conn, queue="other")
    conn.commit()

    assert heard(listener) == ["other"]


async def test_a_polled_queue_that_has_gone_quiet_asks_for_notice_again(
    conn: Conn, relay: RelayByHand, listener: Listener
):
    await get_busy(conn, relay)
    await eventually(lambda: sleeps(relay), "it sleeps")
    heard(listener)

    stage(conn)
    conn.commit()

    assert heard(listener) == ["default"]


async def test_the_relay_polls_on_until_every_transaction_older_than_its_flag_has_ended(
    conn: Conn, relay: RelayByHand, listener: Listener, redis: redis_py.Redis
):
    await get_busy(conn, relay)
    late = stage(conn)  # its trigger has seen that nobody sleeps
    for _ in range(3):
        await get_quiet(relay)
    assert polls(relay)
    heard(listener)

    conn.commit()
    assert heard(listener) == []
    await get_quiet(relay)
    assert late in in_line(redis)
    await eventually(lambda: sleeps(relay), "it sleeps")


async def test_a_row_that_commits_between_the_last_read_and_the_last_look_is_found(
    conn: Conn, relay: RelayByHand, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
):
    await get_busy(conn, relay)
    late = stage(conn)
    await get_quiet(relay)
    ask = relay.relay.leases.oldest_running

    async def commits_first() -> int:
        conn.commit()
        return await ask()

    monkeypatch.setattr(relay.relay.leases, "oldest_running", commits_first)
    relay.relay._due["look"] = 1e12

    await relay.relay.tick()
    assert not polls(relay)
    relay.relay.activity["default"].busy_until = 0.0
    await relay.relay.tick()

    assert late in in_line(redis)


async def test_a_relay_that_takes_over_a_polled_queue_polls_it_too(
    conn: Conn, database_url: str, redis_url: str, relay: RelayByHand
):
    await get_busy(conn, relay)
    conn.execute("UPDATE redisjobs.queues SET lease_until = '-infinity'")  # the first was killed
    conn.commit()

    async with relay_by_hand(database_url, redis_url) as second:
        await second.renewed()
        assert second.relay.activity["default"].polled


async def test_a_relay_that_stops_leaves_producers_notifying(conn: Conn, relay: RelayByHand, listener: Listener):
    await relay.relay.start()
    await get_busy(conn, relay)
    await relay.relay.stop()
    heard(listener)

    stage(conn)
    conn.commit()

    assert heard(listener) == ["default"]


async def test_a_burst_of_commits_is_polled_and_then_slept_on(
    conn: Conn, database_url: str, redis_url: str, redis: redis_py.Redis
):
    async with relay_by_hand(database_url, redis_url) as relay:
        await started(relay)

        def burst() -> int:
            with psycopg.connect(database_url, autocommit=True) as producer:
                return len([stage(producer) for _ in range(1500)])

        count = await asyncio.to_thread(burst)
        await eventually(lambda: len(in_line(redis)) == count, "all are published", within=30)
        await eventually(lambda: not polls(relay), "it sleeps again", within=30)
        assert conn.execute("SELECT asleep FROM redisjobs.queues").fetchone() == (True,)


# an ear that is cut off, or deaf


async def test_after_a_lost_session_it_listens_and_looks_again(conn: Conn, relay: RelayByHand, redis: redis_py.Redis):
    stage(conn)
    conn.commit()
    await relay.rounds()
    await started(relay)
    conn.autocommit = True
    conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' OR query = 'SELECT 1'"
    )
    conn.execute("UPDATE redisjobs.queues SET asleep = false")  # nobody is told of the next commit
    job = stage(conn)

    await eventually(lambda: job in in_line(redis), "it is found when the ear is back")


async def test_behind_a_transaction_pooler_it_says_once_that_it_is_deaf_and_everything_runs(
    database_url: str, redis_url: str, pgbouncer: PgBouncer, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    async with relay_by_hand(pgbouncer.url, redis_url) as relay:
        await relay.relay.start()
        await eventually(lambda: [r for r in caplog.records if "relay.deaf" in r.getMessage()], "it says so")

        def produce() -> list[object]:
            with psycopg.connect(pgbouncer.url, autocommit=True, prepare_threshold=None) as producer:
                return [stage(producer) for _ in range(200)]

        jobs = await asyncio.to_thread(produce)
        await eventually(lambda: in_line(redis) == jobs, "all are published in order")
        await always(lambda: not relay.relay.ear.hears, "it is deaf", lasting=0.3)

    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [line.split()[0] for line in said] == ["relay.deaf"]


def audits_next_in(relay: RelayByHand) -> float:
    """Seconds until the relay's audit looks again."""
    return relay.relay._due.get("audit", 0.0) - relay.relay.clock.monotonic()


async def test_at_rest_a_hearing_relay_asks_little(
    conn: Conn, database_url: str, redis_url: str, redis: redis_py.Redis
):
    stage(conn)
    conn.commit()
    async with relay_by_hand(database_url, redis_url) as relay:
        await relay.rounds()
        await started(relay)
        await eventually(lambda: not polls(relay), "it sleeps")
        await eventually(lambda: audits_next_in(relay) > 30, "the audit of its beginning is through")
        relay.relay.activity["default"].busy_until = 0.0
        redis.config_resetstat()

        await always(lambda: True, "it rests", lasting=2)

        calls = {name: stat["calls"] for name, stat in redis.info("commandstats").items()}
        assert sum(calls.values()) - calls.get("cmdstat_info", 0) <= 10
