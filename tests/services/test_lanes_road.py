"""Lanes through both stores: what ends in Postgres, what Redis loses, and what runs again, in order."""

from __future__ import annotations

from uuid import UUID

import msgpack
import psycopg
import pytest
import redis as redis_py

from tests.support.builders import finish, stage, states
from tests.support.relays import Hand, RelayByHand, job_of

Conn = psycopg.Connection[tuple[object, ...]]

WAITS = msgpack.packb({"w": 1})


def in_lane(conn: Conn, count: int, lane: str = "a") -> list[UUID]:
    jobs = [stage(conn, lane=lane) for _ in range(count)]
    conn.commit()
    return jobs


async def drained(relay: RelayByHand, worker: Hand) -> list[UUID]:
    """What runs until nothing does, in order."""
    ran: list[UUID] = []
    while True:
        await relay.rounds()
        taken = await worker.run()
        if not taken:
            return ran
        ran += taken


async def suspended(conn: Conn, relay: RelayByHand, worker: Hand) -> list[UUID]:
    """Three jobs of a lane, the first of which is a run that has gone to sleep."""
    jobs = in_lane(conn, 3)
    await relay.rounds()
    held = await worker.one()
    assert job_of(held) == jobs[0]
    await worker.end(finish(held, "suspended", delay_ms=-1, record=WAITS))
    await relay.rounds()
    assert states(conn)[jobs[0]] == "suspended"
    assert await worker.take() == []
    return jobs


def wake(conn: Conn, job: UUID) -> None:
    conn.execute("SELECT redisjobs.stage_runs(ARRAY[%s::uuid])", [job])
    conn.commit()


async def test_jobs_run_in_the_order_of_staging(conn: Conn, relay: RelayByHand, worker: Hand):
    jobs = in_lane(conn, 5)

    assert await drained(relay, worker) == jobs


async def test_a_suspended_run_keeps_its_lane_and_goes_on_before_the_others(
    conn: Conn, relay: RelayByHand, worker: Hand
):
    jobs = await suspended(conn, relay, worker)

    wake(conn, jobs[0])
    assert await drained(relay, worker) == jobs


async def test_a_run_that_is_cancelled_while_it_sleeps_lets_its_lane_go_on(
    conn: Conn, relay: RelayByHand, worker: Hand
):
    jobs = await suspended(conn, relay, worker)

    conn.execute("UPDATE redisjobs.outbox SET cancel_requested = true WHERE id = %s", [jobs[0]])
    conn.commit()
    assert await drained(relay, worker) == jobs[1:]
    assert states(conn)[jobs[0]] == "cancelled"


async def test_a_suspended_run_keeps_its_lane_though_redis_is_emptied(
    conn: Conn, relay: RelayByHand, worker: Hand, redis: redis_py.Redis
):
    jobs = await suspended(conn, relay, worker)

    redis.flushall()
    await relay.renewed()
    await relay.rounds()
    assert await worker.take() == []
    wake(conn, jobs[0])
    assert await drained(relay, worker) == jobs


async def test_a_lane_runs_in_its_old_order_after_redis_was_emptied_a_retry_first(
    conn: Conn, relay: RelayByHand, worker: Hand, redis: redis_py.Redis
):
    jobs = in_lane(conn, 4)
    await relay.rounds()
    await worker.end(finish(await worker.one()))
    await worker.end(finish(await worker.one(), "retry", delay_ms=60_000))
    await relay.rounds()

    redis.flushall()
    await relay.renewed()
    await relay.rounds()
    assert await worker.take() == []
    redis.zadd("rj:{default}:due", {jobs[1].bytes: 0})
    await worker.broker.promote("default")
    assert await drained(relay, worker) == jobs[1:]


async def test_the_audit_finds_a_lane_that_stands_still_for_a_run_without_a_row(
    conn: Conn, relay: RelayByHand, worker: Hand, caplog: pytest.LogCaptureFixture
):
    jobs = await suspended(conn, relay, worker)
    conn.execute("DELETE FROM redisjobs.outbox WHERE id = %s", [jobs[0]])
    conn.commit()

    audit = relay.relay.audit
    audit.begin()
    while not audit.through:
        await audit.step(relay.relay.leases.held)

    assert "audit.lanes_stood_still" in caplog.text
    assert await drained(relay, worker) == jobs[1:]


async def test_a_dead_letter_lets_its_lane_go_on_and_comes_back_at_its_end(
    conn: Conn, relay: RelayByHand, worker: Hand
):
    jobs = in_lane(conn, 3)
    await relay.rounds()
    await worker.end(finish(await worker.one(), "dead"))
    await relay.rounds()

    conn.execute("SELECT redisjobs.redrive(ARRAY[%s::uuid])", [jobs[0]])
    conn.commit()
    assert await drained(relay, worker) == [*jobs[1:], jobs[0]]
