"""Durable runs on the road: suspended, woken, cancelled and ended, on real stores; no wake-up is lost or doubled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import msgpack
import psycopg
import pytest
import redis as redis_py

from redisjobs.settler import LOST_LEASES
from redisjobs.steps import Ending
from tests.support.builders import finish, stage, states
from tests.support.eventually import eventually
from tests.support.proxy import Proxy
from tests.support.relays import Hand, RelayByHand, envelope_of, relay_by_hand
from tests.support.sleepers import Sleeper, Sleepers, sleepers

Conn = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
async def relay(database_url: str, redis_url: str) -> AsyncIterator[RelayByHand]:
    async with relay_by_hand(database_url, redis_url, horizon=60) as made:
        yield made


@pytest.fixture
async def runs(database_url: str, worker: Hand) -> AsyncIterator[Sleepers]:
    async with sleepers(database_url, worker) as made:
        yield made


async def begun(conn: Conn, relay: RelayByHand, runs: Sleepers, **columns: object) -> Sleeper:
    """A run that a worker has claimed."""
    stage(conn, **columns)
    conn.commit()
    await relay.rounds()
    return await runs.take()


def send(conn: Conn, name: str = "paid", key: str = "7", *, commit: bool = True) -> None:
    conn.execute("SELECT redisjobs.send_event(%s, %s, '{\"n\": 1}')", [name, key])
    if commit:
        conn.commit()


def taken(conn: Conn) -> list[tuple[Any, ...]]:
    """Who took the events."""
    found = conn.execute("SELECT run, step FROM redisjobs.events ORDER BY id").fetchall()
    conn.commit()
    return found


def row(conn: Conn, run: UUID, columns: str) -> tuple[Any, ...]:
    found = conn.execute(f"SELECT {columns} FROM redisjobs.outbox WHERE id = %s".encode(), [run]).fetchone()
    conn.commit()
    assert found is not None
    return found


# waking


@pytest.mark.parametrize("sent", range(6))
async def test_an_event_wakes_its_run_whenever_it_is_sent(conn: Conn, relay: RelayByHand, runs: Sleepers, sent: int):
    """T7: before the wait and after it, before and after each station of the suspension."""
    run = await begun(conn, relay, runs)

    async def at(place: int) -> None:
        if sent == place:
            send(conn)
            await relay.relay.deliverer.deliver()

    await at(0)
    if (await run.wait()).state == "waiting":
        await at(1)
        await run.suspend()
        await at(2)
        await relay.relay.settler.settle(relay.hold())
        await at(3)
        await relay.relay.deliverer.deliver()
        await at(4)
        await relay.rounds()
        await at(5)
        await relay.rounds()
        run = await runs.take()
        assert (run.token.number, run.token.start) == (2, 2)

    waited = await run.wait()
    assert (waited.state, waited.value) == ("done", b'{"n": 1}')
    assert taken(conn) == [(run.id, "paid")]
    await run.end()
    await relay.rounds()
    assert states(conn) == {run.id: "done"}
    assert conn.execute("SELECT count(*) FROM redisjobs.steps").fetchone() == (0,)


@pytest.mark.parametrize("open_from", [(began, commits) for commits in range(1, 6) for began in range(commits)])
async def test_an_event_of_a_long_transaction_wakes_its_run_whenever_that_commits(
    conn: Conn, relay: RelayByHand, runs: Sleepers, database_url: str, open_from: tuple[int, int]
):
    began, commits = open_from
    run = await begun(conn, relay, runs)
    with psycopg.connect(database_url) as sender:

        async def at(place: int) -> None:
            if place == began:
                send(sender, commit=False)
            if place == commits:
                sender.commit()

        await at(0)
        if (await run.wait()).state == "waiting":
            stations: list[Callable[[], Awaitable[object]]]
            stations = [run.suspend, relay.round, relay.relay.deliverer.deliver, relay.rounds]
            for place, do in enumerate(stations, 1):
                await at(place)
                await do()
            await at(5)
            await relay.rounds()
            run = await runs.take()
        assert (await run.wait()).state == "done"


async def test_an_event_that_is_looked_at_while_its_wait_is_recorded_is_not_lost(
    conn: Conn, relay: RelayByHand, runs: Sleepers, database_url: str
):
    """A pass that has read the waits, and commits only after the suspension of one that it did not see has settled."""
    run = await begun(conn, relay, runs)
    send(conn)
    with psycopg.connect(database_url) as passing:
        passing.execute("SELECT redisjobs.deliver_events(100)")
        assert (await run.wait()).state == "waiting"
        await run.suspend()
        assert await relay.relay.settler.settle(relay.hold()) == 0  # what it would hand out again is held by the pass
        assert [each.job_id for each in relay.hold().held_up.outcomes] == [run.id.bytes]
        passing.commit()

    await relay.rounds()

    assert (await (await runs.take()).wait()).state == "done"


async def test_a_run_that_a_user_has_locked_holds_up_no_event_of_another(
    conn: Conn, relay: RelayByHand, runs: Sleepers, database_url: str
):
    """As by a cancel in a transaction that stays open."""
    locked, free = await begun(conn, relay, runs), await begun(conn, relay, runs)
    await locked.wait(key="1")
    await free.wait(key="2")
    for run in (locked, free):
        await run.suspend()
    await relay.rounds()
    with psycopg.connect(database_url) as user:
        user.execute("SELECT redisjobs.cancel(%s)", [locked.id])
        send(conn, key="1")
        send(conn, key="2")
        await relay.rounds()
        assert states(conn) == {locked.id: "suspended", free.id: "published"}
        assert relay.relay.deliverer.left
        user.rollback()
    await relay.rounds()

    assert states(conn) == {locked.id: "published", free.id: "published"}
    assert not relay.relay.deliverer.left


async def test_an_attempt_of_a_publication_that_has_settled_cannot_claim_its_run(
    conn: Conn, relay: RelayByHand, runs: Sleepers
):
    """As of a Redis that went back behind the suspension."""
    run = await begun(conn, relay, runs)
    await run.wait()
    await run.suspend()
    await relay.rounds()

    assert (await run.store.claim(replace(run.token, start=2))).word == "gone"
    assert (await run.store.claim(replace(run.token, number=2))).word == "ok"


async def test_a_run_that_is_woken_while_its_suspension_settles_joins_the_line(
    conn: Conn, redis_url: str, postgres_proxy: Proxy, relay: RelayByHand, runs: Sleepers
):
    run = await begun(conn, relay, runs)
    await run.wait()
    await run.suspend()
    await relay.relay.leases.let_go()
    async with relay_by_hand(postgres_proxy.url, redis_url) as slow:
        with postgres_proxy.hold_request("settled = t.number") as held:
            settling = asyncio.create_task(slow.rounds())
            await held.happened()
            send(conn)
            assert await relay.relay.deliverer.deliver() == 1
            held.release()
        await settling
        await slow.rounds()

    assert (await (await runs.take()).wait()).state == "done"


async def test_an_event_that_is_rolled_back_wakes_nobody(conn: Conn, relay: RelayByHand, runs: Sleepers):
    run = await begun(conn, relay, runs)
    await run.wait()
    await run.suspend()
    await relay.rounds()
    send(conn, commit=False)
    await relay.rounds()
    conn.rollback()
    await relay.rounds()

    assert states(conn) == {run.id: "suspended"}
    assert taken(conn) == []


async def test_of_two_that_wait_for_one_event_the_first_gets_it(conn: Conn, relay: RelayByHand, runs: Sleepers):
    first, second = await begun(conn, relay, runs), await begun(conn, relay, runs)
    for run in (second, first):
        await run.wait()
    for run in (first, second):
        await run.suspend()
    await relay.rounds()
    send(conn)
    await relay.rounds()

    assert states(conn) == {first.id: "suspended", second.id: "published"}
    send(conn)
    await relay.rounds()
    assert states(conn) == {first.id: "published", second.id: "published"}
    assert sorted(taken(conn)) == sorted([(first.id, "paid"), (second.id, "paid")])


async def test_a_wait_that_runs_out_comes_back_without_an_event(conn: Conn, relay: RelayByHand, runs: Sleepers):
    run = await begun(conn, relay, runs)
    await run.wait(due_in=0.2)
    await run.suspend(delay_ms=200)
    await relay.round()

    async def is_back() -> bool:
        await relay.rounds()
        return states(conn) == {run.id: "published"}

    await eventually(is_back, "its time has come")
    waited = await (await runs.take()).wait()
    assert (waited.state, waited.detail) == ("done", {"timed_out": True})


async def test_a_run_that_sleeps_waits_in_redis_or_behind_the_horizon_in_postgres(
    conn: Conn, relay: RelayByHand, runs: Sleepers, redis: redis_py.Redis
):
    short, long = await begun(conn, relay, runs), await begun(conn, relay, runs)
    await short.suspend(delay_ms=30_000, waits=False)
    await long.suspend(delay_ms=300_000, waits=False)
    await relay.rounds()

    assert states(conn) == {short.id: "published", long.id: "deferred"}
    assert redis.zrange("rj:{default}:due", 0, -1) == [short.id.bytes]


async def test_a_sleep_of_nothing_is_over_at_once(conn: Conn, relay: RelayByHand, runs: Sleepers):
    run = await begun(conn, relay, runs)
    await run.suspend(delay_ms=0, waits=False)
    await relay.rounds()

    assert (await runs.take()).token.number == 2
    assert states(conn) == {run.id: "published"}


async def test_a_suspended_run_that_expires_is_brought_to_a_worker_for_its_end(
    conn: Conn, relay: RelayByHand, runs: Sleepers, worker: Hand
):
    run = await begun(conn, relay, runs)
    conn.execute("UPDATE redisjobs.outbox SET expires_at = clock_timestamp() + interval '0.2 s'")
    conn.commit()
    await run.wait()
    await run.suspend()
    await relay.round()

    async def is_back() -> bool:
        await relay.rounds()
        return states(conn) == {run.id: "published"}

    await eventually(is_back, "its time has come")
    assert (await worker.one()).expired


async def test_ten_thousand_runs_are_suspended_and_woken_in_batches(conn: Conn, relay: RelayByHand, worker: Hand):
    many = 10_000
    conn.execute(
        "INSERT INTO redisjobs.outbox (job, input, headers) SELECT 'add', '[]', json_build_object('n', n)"
        " FROM generate_series(1, %s) n", [many],
    )  # fmt: skip
    conn.commit()
    await relay.rounds(200)
    waits = msgpack.packb({"w": 1})
    while taken_now := await worker.take(500):
        await worker.end(*[finish(each, "suspended", delay_ms=-1, record=waits) for each in taken_now])
    await relay.rounds(200)
    conn.execute(
        "INSERT INTO redisjobs.steps (run, name, kind, state, awaited, event, key)"
        " SELECT id, 'w', 'event', 'waiting', true, 'paid', headers ->> 'n' FROM redisjobs.outbox"
    )
    assert conn.execute("SELECT count(*) FROM redisjobs.outbox WHERE state = 'suspended'").fetchone() == (many,)
    conn.execute("INSERT INTO redisjobs.events (name, key) SELECT 'paid', n FROM generate_series(1, %s) n", [many])
    conn.commit()

    await relay.rounds(200)

    ended = 0
    while taken_now := await worker.take(500):
        assert {each.number for each in taken_now} == {2}
        ended += len(taken_now)
        await worker.end(*[finish(each) for each in taken_now])
    await relay.rounds(200)
    assert ended == many
    assert conn.execute("SELECT state, count(*) FROM redisjobs.finished GROUP BY 1").fetchall() == [("done", many)]
    assert conn.execute("SELECT count(*) FROM redisjobs.events WHERE taken_at IS NOT NULL").fetchone() == (many,)


# keys, cancels, losses


async def test_i1_a_suspended_run_holds_its_key(conn: Conn, relay: RelayByHand, runs: Sleepers):
    run = await begun(conn, relay, runs, idempotency_key="k")
    await run.wait()
    await run.suspend()
    await relay.rounds()
    second = stage(conn, idempotency_key="k")
    conn.commit()
    await relay.rounds()

    assert states(conn) == {run.id: "suspended", second: "deduplicated"}


async def test_flushall_leaves_suspended_runs_asleep_and_their_keys_held(
    conn: Conn, relay: RelayByHand, runs: Sleepers, redis: redis_py.Redis
):
    run, sleeps = await begun(conn, relay, runs, idempotency_key="k"), await begun(conn, relay, runs)
    await run.wait()
    await run.suspend()
    await sleeps.suspend(delay_ms=300_000, waits=False)
    await relay.rounds()
    redis.flushall()
    await relay.renewed()
    second = stage(conn, idempotency_key="k")
    conn.commit()
    await relay.rounds()

    assert states(conn) == {run.id: "suspended", sleeps.id: "deferred", second: "deduplicated"}
    send(conn)
    await relay.rounds()
    assert (await (await runs.take()).wait()).state == "done"


async def test_flushall_before_a_suspension_has_settled_runs_the_body_again(
    conn: Conn, relay: RelayByHand, runs: Sleepers, redis: redis_py.Redis
):
    run = await begun(conn, relay, runs)
    await run.wait()
    await run.suspend()
    redis.flushall()
    await relay.renewed()
    await relay.rounds()

    again = await runs.take()
    assert (again.id, again.token.number) == (run.id, 2)
    send(conn)
    assert (await again.wait()).state == "done"


@pytest.mark.parametrize("window", [None, "1 hour"])
async def test_w7_a_suspended_run_that_is_cancelled_ends_and_gives_its_key_back(
    conn: Conn, relay: RelayByHand, runs: Sleepers, window: str | None
):
    run = await begun(conn, relay, runs, idempotency_key="k", key_window=window)
    await run.wait()
    await run.suspend()
    await relay.rounds()
    conn.execute("SELECT redisjobs.cancel(%s)", [run.id])
    conn.commit()
    await relay.rounds()
    second = stage(conn, idempotency_key="k")
    conn.commit()
    await relay.rounds()

    assert states(conn) == {run.id: "cancelled", second: "deduplicated" if window else "published"}
    assert conn.execute("SELECT count(*) FROM redisjobs.steps").fetchone() == (0,)


async def test_a_key_whose_release_got_lost_is_freed_for_the_next_job(conn: Conn, relay: RelayByHand, runs: Sleepers):
    run = await begun(conn, relay, runs, idempotency_key="k")
    await run.wait()
    await run.suspend()
    await relay.rounds()
    conn.execute("DELETE FROM redisjobs.outbox")  # as a relay that dies before it tells Redis
    second = stage(conn, idempotency_key="k")
    conn.commit()
    await relay.rounds()

    assert states(conn) == {second: "published"}


async def test_a_run_with_undos_that_is_cancelled_in_its_sleep_goes_to_a_worker_for_them(
    conn: Conn, relay: RelayByHand, runs: Sleepers, worker: Hand
):
    run = await begun(conn, relay, runs)
    await run.put(undo=True)
    await run.wait()
    await run.suspend()
    await relay.rounds()
    conn.execute("SELECT redisjobs.cancel(%s)", [run.id])
    conn.commit()
    await relay.rounds()

    held = await worker.one()
    assert envelope_of(held).is_ending
    assert not held.cancel
    conn.execute("SELECT redisjobs.cancel(%s)", [run.id])  # once more: it is on its way to that
    conn.commit()
    await relay.rounds()
    assert (await worker.broker.promote("default")).cancelled == []
    await worker.end(finish(held, "cancelled", record=msgpack.packb({"u": 1, "why": "it was cancelled"})))
    await relay.rounds()
    assert states(conn) == {run.id: "cancelled"}


async def loses_its_lease(redis: redis_py.Redis, worker: Hand, entry: bytes) -> None:
    """The worker that has it dies, for the last time that is forgiven."""
    redis.xclaim("rj:{default}:ready:1", "workers", "hand", 0, [entry], idle=99_999)
    redis.hdel("rj:{default}:life", "swept")
    assert await worker.broker.reclaim("default", "w2", 1, lease_ms=1, max_losses=1) == []


async def test_a_run_with_undos_whose_worker_dies_for_good_goes_to_another_for_them_once(
    conn: Conn, relay: RelayByHand, runs: Sleepers, worker: Hand, redis: redis_py.Redis
):
    run = await begun(conn, relay, runs)
    await run.put(undo=True)
    await loses_its_lease(redis, worker, run.held.entry)
    await relay.renewed()
    await relay.rounds()
    held = await worker.one()
    assert envelope_of(held).is_ending
    await loses_its_lease(redis, worker, held.entry)
    await relay.renewed()
    await relay.rounds()

    reason, ending = conn.execute("SELECT reason, ending ->> 'word' FROM redisjobs.dead").fetchall()[0]
    assert (reason, ending) == (LOST_LEASES, "dead")
    assert conn.execute("SELECT name FROM redisjobs.steps").fetchall() == [("charge",)]


async def test_a_run_whose_workers_die_over_its_undos_has_taken_the_attempts_that_led_to_its_end(
    conn: Conn, relay: RelayByHand, runs: Sleepers, worker: Hand, redis: redis_py.Redis
):
    run = await begun(conn, relay, runs)
    await run.put(undo=True)
    await run.store.begin_ending(run.token, Ending("dead", "attempt 3 of 3 failed", attempts=3))
    await loses_its_lease(redis, worker, run.held.entry)
    await relay.renewed()
    await relay.rounds()

    assert conn.execute("SELECT attempts FROM redisjobs.dead").fetchall() == [(3,)]
