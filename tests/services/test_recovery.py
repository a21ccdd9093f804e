"""After Redis lost its data everything that had not settled runs, in order, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from typing import Any
from uuid import UUID

import msgpack
import psycopg
import pytest
import redis as redis_py

from redisjobs import recovery
from redisjobs.errors import DatabaseUnavailable
from tests.support.builders import finish, publication, stage, states
from tests.support.proxy import Proxy
from tests.support.relays import Hand, RelayByHand, in_line, job_of, relay_by_hand
from tests.support.servers import RedisServer

Conn = psycopg.Connection[tuple[object, ...]]


async def test_after_flushall_what_had_not_settled_runs_in_its_old_order(
    conn: Conn, relay: RelayByHand, worker: Hand, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
):
    jobs = [stage(conn) for _ in range(30)]
    conn.commit()
    await relay.rounds()
    await worker.run(count=10)
    await relay.rounds()

    redis.flushall()
    await relay.renewed()
    await relay.rounds()

    assert in_line(redis) == jobs[10:]
    assert redis.sismember("rj:queues", "default")
    assert [states(conn)[job] for job in jobs] == ["done"] * 10 + ["published"] * 20
    said = [record for record in caplog.records if "recovery" in record.getMessage()]
    assert [record.levelno for record in said] == [logging.WARNING] * 2


async def test_the_first_opening_of_a_queue_is_no_recovery(
    conn: Conn, relay: RelayByHand, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    stage(conn)
    conn.commit()

    await relay.rounds()

    said = [
        (record.levelname, record.getMessage().split()[0]) for record in caplog.records if "redisjobs" in record.name
    ]
    assert ("INFO", "queue.opened") in said
    assert "WARNING" not in [level for level, _ in said]


async def test_recovery_in_chunks_goes_on_where_a_crash_left_it(
    conn: Conn, database_url: str, redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recovery, "CHUNK", 7)
    jobs = [stage(conn) for _ in range(40)]
    conn.commit()
    async with relay_by_hand(database_url, redis_url, name="first") as first:
        await first.rounds()
    redis.flushall()
    conn.execute(
        "UPDATE redisjobs.outbox SET state = 'staged' WHERE id = ANY (%s)", [jobs[:14]]
    )  # two chunks, then a crash
    conn.execute("UPDATE redisjobs.queues SET lease_until = '-infinity'")
    conn.commit()

    async with relay_by_hand(database_url, redis_url, name="second") as second:
        await second.renewed()
        await second.rounds()

    assert in_line(redis) == jobs


@pytest.mark.parametrize("fault", list(product(["lose_reply", "lose_request"], ["epoch =", "LIMIT"])), ids="-".join)
async def test_recovery_whose_statement_has_an_unknown_end_is_done_again(
    conn: Conn, postgres_proxy: Proxy, redis_url: str, redis: redis_py.Redis, fault: tuple[str, str]
):
    jobs = [stage(conn) for _ in range(10)]
    conn.commit()
    async with relay_by_hand(postgres_proxy.url, redis_url) as relay:
        await relay.rounds()
        redis.flushall()
        lost = getattr(postgres_proxy, fault[0])(fault[1])
        with contextlib.suppress(DatabaseUnavailable):
            await relay.renewed()
            await relay.rounds()
        await lost.happened()
        await relay.renewed()
        await relay.rounds()

    assert in_line(redis) == jobs


@pytest.mark.parametrize(
    "fault", list(product(["lose_reply", "lose_request"], ["open", "adopt", "publish"])), ids="-".join
)
async def test_recovery_whose_call_to_redis_has_an_unknown_end_is_done_again(
    conn: Conn, database_url: str, redis_proxy: Proxy, redis: redis_py.Redis, fault: tuple[str, str]
):
    jobs = [stage(conn) for _ in range(10)]
    conn.commit()
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        await relay.rounds()
        redis.flushall()
        lost = getattr(redis_proxy, fault[0])(fault[1])
        for _ in range(4):
            with contextlib.suppress(Exception):
                await relay.renewed()
        await lost.happened()
        await relay.rounds()

    assert in_line(redis) == jobs
    assert set(states(conn).values()) == {"published"}


async def test_two_relays_that_recover_at_once_publish_everything_once(
    conn: Conn, database_url: str, redis_url: str, redis: redis_py.Redis
):
    jobs = {f"q{n}": [stage(conn, queue=f"q{n}") for _ in range(20)] for n in range(6)}
    conn.commit()
    async with relay_by_hand(database_url, redis_url) as first, relay_by_hand(database_url, redis_url) as second:
        await first.rounds()
        conn.execute("UPDATE redisjobs.queues SET lease_until = '-infinity', holder = NULL WHERE queue < 'q3'")
        conn.commit()
        await second.renewed()
        redis.flushall()

        await asyncio.gather(first.renewed(), second.renewed())
        await asyncio.gather(first.rounds(), second.rounds())

    assert {queue: in_line(redis, queue) for queue in jobs} == jobs


async def test_due_times_survive_flushall(conn: Conn, relay: RelayByHand, worker: Hand, redis: redis_py.Redis):
    job = stage(conn)
    conn.commit()
    await relay.rounds()
    await worker.run("snooze", delay_ms=600_000)
    await relay.rounds()

    redis.flushall()
    await relay.renewed()
    await relay.rounds()

    assert in_line(redis) == []
    score = redis.zscore("rj:{default}:due", job.bytes)
    assert score is not None
    assert 590 < score / 1000 - redis.time()[0] <= 601


async def test_counted_attempts_survive_flushall(conn: Conn, relay: RelayByHand, worker: Hand, redis: redis_py.Redis):
    stage(conn)
    conn.commit()
    await relay.rounds()
    await worker.run("retry", counted=True)
    await relay.rounds()

    redis.flushall()
    await relay.renewed()
    await relay.rounds()
    await worker.promote()

    again = await worker.one()
    assert (again.attempts, again.number) == (1, 2)


async def test_windows_of_keys_survive_flushall(
    conn: Conn, relay: RelayByHand, worker: Hand, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recovery, "WINDOWS_AT_ONCE", 2)
    names = [f"k{n}" for n in range(5)]
    for name in names:
        stage(conn, idempotency_key=name, key_window=timedelta(hours=1))
    conn.commit()
    await relay.rounds()
    await worker.run("done", count=4)
    await worker.run("dead")
    await relay.rounds()

    redis.flushall()
    await relay.renewed()
    twins = {name: stage(conn, idempotency_key=name) for name in [*names, "free"]}
    conn.commit()
    await relay.rounds()

    ends = states(conn)
    assert {name: ends[job] for name, job in twins.items()} == dict.fromkeys(names, "deduplicated") | {
        "free": "published"
    }


async def test_a_finish_from_the_lost_life_is_refused(
    conn: Conn, relay: RelayByHand, worker: Hand, redis: redis_py.Redis
):
    job = stage(conn)
    conn.commit()
    await relay.rounds()
    held = await worker.one()
    redis.flushall()
    await relay.renewed()
    await relay.rounds()

    assert await worker.end(finish(held)) != ["ok"]
    await worker.run()
    await relay.rounds()

    assert states(conn) == {job: "done"}


async def test_a_restart_of_redis_that_kept_its_data_is_no_loss(
    conn: Conn, database_url: str, start_redis: Callable[..., RedisServer], caplog: pytest.LogCaptureFixture
):
    server = start_redis(appendonly="yes", appendfsync="always")
    jobs = [stage(conn) for _ in range(5)]
    conn.commit()
    async with relay_by_hand(database_url, server.url) as relay:
        await relay.rounds()
        server.restart()
        await relay.renewed()
        await relay.rounds()
        with server.client() as client:
            assert in_line(client) == jobs
    assert not [record for record in caplog.records if "recovery" in record.getMessage()]


async def test_an_empty_restart_is_recovered_from(
    conn: Conn, database_url: str, start_redis: Callable[..., RedisServer]
):
    server = start_redis()
    jobs = [stage(conn) for _ in range(5)]
    conn.commit()
    async with relay_by_hand(database_url, server.url) as relay:
        await relay.rounds()
        server.kill()
        server.start()
        await relay.renewed()
        await relay.rounds()
        with server.client() as client:
            assert in_line(client) == jobs


# the audit


async def audit(relay: RelayByHand) -> int:
    relay.relay.audit.begin(age_s=0)
    mended = 0
    while not relay.relay.audit.through:
        mended += await relay.relay.audit.step(relay.relay.leases.held)
    await relay.rounds()
    return mended


@pytest.mark.parametrize("key", ["ready:1", "due", "jobs"])
async def test_the_audit_finds_jobs_that_a_lost_key_took_along(
    conn: Conn, relay: RelayByHand, worker: Hand, redis: redis_py.Redis, key: str
):
    waiting, due = stage(conn), stage(conn, run_at="2099-01-01 00:00Z", idempotency_key="k")
    conn.commit()
    await relay.rounds()
    redis.delete("rj:{default}:" + key)

    mended = await audit(relay)

    assert mended == {"ready:1": 1, "due": 1, "jobs": 2}[key]
    assert in_line(redis)[-1:] == [waiting]
    assert redis.zscore("rj:{default}:due", due.bytes)
    assert await audit(relay) == 0
    assert [job_of(each) for each in await worker.take()] == [waiting]


async def test_after_a_failover_what_was_published_just_before_is_looked_for_at_once(
    conn: Conn, relay: RelayByHand, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
):
    async def has_restarted() -> bool:
        return True

    job = stage(conn)
    conn.commit()
    await relay.rounds()
    redis.delete("rj:{default}:ready:1", "rj:{default}:jobs")  # its replica had not heard of them
    monkeypatch.setattr(relay.relay.memory, "has_restarted", has_restarted)

    await relay.renewed()
    await relay.rounds()

    assert in_line(redis) == [job]


async def test_the_audit_leaves_alone_what_runs_has_ended_or_has_settled(conn: Conn, relay: RelayByHand, worker: Hand):
    for _ in range(6):
        stage(conn)
    conn.commit()
    await relay.rounds()
    settled, ended, *_ = await worker.take(4)
    await worker.end(finish(settled))
    await relay.rounds()
    await worker.end(finish(ended))

    assert await audit(relay) == 0


async def test_the_audit_forgets_what_postgres_does_not_know(
    conn: Conn, relay: RelayByHand, worker: Hand, redis: redis_py.Redis
):
    kept = stage(conn)
    ghosts = [stage(conn, idempotency_key="k"), stage(conn, run_at="2099-01-01 00:00Z", idempotency_key="l")]
    conn.commit()
    await relay.rounds()
    conn.execute("DELETE FROM redisjobs.outbox WHERE id = ANY (%s)", [ghosts])
    conn.commit()

    assert await audit(relay) == 2

    assert redis.hkeys("rj:{default}:jobs") == [kept.bytes]
    assert redis.hlen("rj:{default}:keys") == redis.zcard("rj:{default}:due") == 0
    assert [job_of(each) for each in await worker.take()] == [kept]


async def test_the_audit_lets_go_of_the_key_of_a_run_that_ended_before_redis_went_back(
    conn: Conn, relay: RelayByHand, worker: Hand, redis: redis_py.Redis
):
    run, sleeper = stage(conn, idempotency_key="k"), stage(conn, idempotency_key="of a sleeper")
    conn.commit()
    await relay.rounds()
    await worker.run("suspended", delay_ms=-1, record=msgpack.packb({"w": 1}))
    await relay.rounds()
    keys: Any = redis.hgetall("rj:{default}:keys")
    ends: Any = redis.zrange("rj:{default}:windows", 0, -1, withscores=True)
    conn.execute("UPDATE redisjobs.outbox SET cancel_requested = true WHERE id = %s", [run])
    conn.commit()
    await relay.rounds()
    assert redis.hkeys("rj:{default}:keys") == [b"of a sleeper"]

    redis.hset("rj:{default}:keys", mapping=keys)  # as in a replica that had not heard of that end
    redis.zadd("rj:{default}:windows", dict(ends))
    await audit(relay)

    assert await worker.broker.enqueue_direct("default", [publication(key=b"k", direct=True)]) == [("new", None)]
    assert await worker.broker.holder("default", "of a sleeper") == sleeper.bytes


async def test_the_audit_lets_go_of_a_key_whose_window_was_lost(
    conn: Conn, relay: RelayByHand, worker: Hand, redis: redis_py.Redis
):
    stage(conn, idempotency_key="k", key_window=timedelta(hours=1))
    conn.commit()
    await relay.rounds()
    await worker.run()
    await relay.rounds()
    await worker.broker.enqueue_direct("default", [publication(key=b"of a direct job", direct=True)])
    redis.delete("rj:{default}:windows")

    await audit(relay)

    assert redis.hkeys("rj:{default}:keys") == [b"of a direct job"]


async def test_the_audit_walks_all_queues_in_small_steps(conn: Conn, relay: RelayByHand, redis: redis_py.Redis):
    jobs: dict[str, list[UUID]] = {f"q{n}": [stage(conn, queue=f"q{n}") for _ in range(40)] for n in range(30)}
    conn.commit()
    await relay.rounds(200)
    for queue in jobs:
        redis.delete(f"rj:{{{queue}}}:ready:1")

    assert await audit(relay) == 1200

    assert {queue: sorted(in_line(redis, queue)) for queue in jobs} == {
        queue: sorted(ids) for queue, ids in jobs.items()
    }


async def test_another_process_behind_the_address_starts_the_audit_anew(
    conn: Conn, database_url: str, start_redis: Callable[..., RedisServer]
):
    server = start_redis(appendonly="yes", appendfsync="always")
    jobs = [stage(conn) for _ in range(5)]
    conn.commit()
    async with relay_by_hand(database_url, server.url) as relay:
        await relay.rounds()
        conn.execute("UPDATE redisjobs.outbox SET published_at = now() - interval '1 hour'")
        conn.commit()
        with server.client() as client:
            client.delete("rj:{default}:ready:1")
        relay.relay._due["audit"] = 1e12
        await relay.renewed()
        server.restart()

        await relay.renewed()
        await relay.rounds()
        with server.client() as client:
            assert in_line(client) == jobs
