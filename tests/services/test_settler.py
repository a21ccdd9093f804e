"""Outcomes on their way back to Postgres."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import msgpack
import psycopg
import pytest
import redis as redis_py

from redisjobs.base.postgres import id_array
from redisjobs.broker.values import Outcome
from redisjobs.errors import StoreUnavailable
from redisjobs.record import pack
from redisjobs.settler import FAILURES_KEPT, LOST_LEASES, Settlement, fold, read_record
from tests.support.builders import envelope, finish, publication, stage, states
from tests.support.clock import settle as turns_of_the_loop
from tests.support.proxy import Proxy
from tests.support.relays import Hand, RelayByHand, relay_by_hand

Conn = psycopg.Connection[tuple[object, ...]]


def failed(attempt: int = 1, **parts: Any) -> bytes:
    failure = {"attempt": attempt, "at": "2026-01-01T00:00:00Z", "type": "ValueError", "message": f"no {attempt}",
               "traceback": "…"}  # fmt: skip
    packed: bytes = msgpack.packb({"e": failure} | parts)
    return packed


def outcome(word: str, job: bytes = b"j" * 16, *, life: int = 0, record: bytes = b"", number: int = 1) -> Outcome:
    return Outcome(b"1-1", job, word, life, number, 1, 0.0, b"", record)


# folding


def test_the_last_outcome_of_a_job_in_a_batch_counts():
    [settled] = fold([outcome("retry", record=failed(1)), outcome("snooze"), outcome("done")])

    assert settled.outcome.word == "done"
    assert [failure["attempt"] for failure in settled.failures] == [1]


def test_every_failure_on_the_way_is_kept_up_to_a_bound():
    many = [outcome("retry", record=failed(attempt)) for attempt in range(1, 41)]

    [settled] = fold([*many, outcome("dead", record=failed(41))])

    assert [failure["attempt"] for failure in settled.failures] == list(range(42 - FAILURES_KEPT, 42))
    assert settled.error == "ValueError: no 41"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_outcome_of_a_former_life_gives_way(order: tuple[int, int]):
    both = [outcome("dead", life=0, record=failed(1)), outcome("done", life=1)]

    [settled] = fold([both[at] for at in order])

    assert (settled.outcome.word, settled.outcome.life, settled.failures) == ("done", 1, [])


def test_rule_1_of_a_suspension_and_what_followed_it_the_later_counts():
    waiting = outcome("suspended", record=pack(waits=True))

    [settled] = fold([outcome("retry", record=failed(1)), waiting])
    assert (settled.is_suspension, settled.waits, len(settled.failures)) == (True, True, 1)
    [settled] = fold([waiting, outcome("done", number=2)])
    assert (settled.outcome.word, settled.outcome.number, settled.waits) == ("done", 2, False)
    [settled] = fold([outcome("done", number=2), waiting])
    assert (settled.outcome.word, settled.outcome.number) == ("done", 2)


def test_a_child_tells_its_result_or_its_last_error():
    [done] = fold([outcome("done", record=pack(result=("json", b"7")))])
    [dead] = fold([outcome("retry", record=failed(1)), outcome("dead", record=failed(2))])
    [lost] = fold([outcome("dead")])

    assert (done.told.codec, done.told.result, done.told.detail()) == ("json", b"7", None)
    assert (dead.told.type, dead.told.message) == ("ValueError", "no 2")
    assert (lost.told.type, lost.told.message) == (None, LOST_LEASES)


def test_a_death_without_an_error_is_one_by_lost_leases():
    [settled] = fold([outcome("dead")])

    assert settled.error == LOST_LEASES


@pytest.mark.parametrize(
    "record",
    [
        b"\xc1", b"\x00", msgpack.packb([1]), msgpack.packb(5),
        msgpack.packb({"e": 5, "why": 7, "keep": "x", "r": "text", "rc": b"x"}),
        msgpack.packb({"keep": float("nan")}), msgpack.packb({"keep": -1}), msgpack.packb({1: 2}),
        msgpack.packb({"e": {"at": b"bytes"}}), msgpack.packb({"e": {"at": float("inf")}}),
        b"\x81\xa1e" + 900 * b"\x91" + b"\xc0",
    ],
)  # fmt: skip
def test_a_record_that_no_worker_of_ours_writes_is_left_out(record: bytes):
    assert read_record(record) == {}
    [settled] = fold([outcome("done", record=record)])
    assert settled.is_plain


def test_text_that_postgres_refuses_is_mended():
    told = msgpack.packb({"why": "a\0b", "e": {"type": "X", "message": "\ud800\0"}}, unicode_errors="surrogatepass")

    record = read_record(told)

    assert "\0" not in str(record["why"]) + str(record["e"]["message"])
    str(record["e"]["message"]).encode()


# ends


async def test_a_retry_and_the_end_in_one_batch_end_the_job_once(conn: Conn, relay: RelayByHand, worker: Hand):
    job = stage(conn)
    conn.commit()
    await relay.rounds()
    await worker.run("retry", counted=True, record=failed())
    await worker.promote()
    await worker.run("done")

    await relay.rounds()

    assert states(conn) == {job: "done"}
    assert conn.execute("SELECT attempts, last_error FROM redisjobs.finished").fetchone() == (2, "ValueError: no 1")
    assert conn.execute("SELECT count(*) FROM redisjobs.outbox").fetchone() == (0,)


@pytest.mark.parametrize(
    ("word", "state"), [("done", "done"), ("dead", "dead"), ("cancelled", "cancelled"), ("expired", "expired"),
                        ("retry", "retrying"), ("snooze", "snoozed"), ("parked", "parked")]
)  # fmt: skip
async def test_each_word_has_its_state(conn: Conn, relay: RelayByHand, worker: Hand, word: str, state: str):
    job = stage(conn)
    conn.commit()
    await relay.rounds()

    await worker.run(word, delay_ms=60_000)
    await relay.rounds()

    assert states(conn) == {job: state}


async def test_an_attempt_that_was_handed_back_changes_nothing(conn: Conn, relay: RelayByHand, worker: Hand):
    job = stage(conn)
    conn.commit()
    await relay.rounds()

    await worker.run("released")
    await relay.rounds()

    assert states(conn) == {job: "published"}


async def test_a_retry_writes_its_due_time_into_the_row(conn: Conn, relay: RelayByHand, worker: Hand):
    stage(conn)
    conn.commit()
    await relay.rounds()

    await worker.run("snooze", delay_ms=600_000)
    await relay.rounds()

    row = conn.execute("SELECT extract(epoch FROM run_at - now())::float FROM redisjobs.outbox").fetchone()
    assert row is not None
    assert 590 < float(str(row[0])) <= 601


async def test_a_dead_letter_keeps_its_arguments_and_every_failure(
    conn: Conn, relay: RelayByHand, worker: Hand, caplog: pytest.LogCaptureFixture
):
    job = stage(conn, "pay", {"a": 1}, tenant_id="t", headers='{"h": 1}')
    conn.commit()
    for attempt in (1, 2):
        await relay.rounds()
        await worker.promote()
        await worker.run("retry", counted=True, record=failed(attempt))
    await relay.rounds()
    await worker.promote()
    await worker.run("dead", counted=True, record=failed(3))
    await relay.rounds()

    row = conn.execute(
        "SELECT id, job, input::text, tenant_id, headers::text, attempts, reason,"
        " jsonb_path_query_array(failures, '$[*].attempt') FROM redisjobs.dead"
    ).fetchone()
    assert row == (job, "pay", '{"a": 1}', "t", '{"h": 1}', 3, "ValueError: no 3", [1, 2, 3])
    assert any(f"redisjobs dead show {job}" in record.getMessage() for record in caplog.records)


async def test_failures_over_many_batches_are_bounded(conn: Conn, relay: RelayByHand, worker: Hand):
    stage(conn)
    conn.commit()
    await relay.rounds()
    for attempt in range(1, 36):
        await worker.run("retry", counted=True, record=failed(attempt))
        await worker.promote()
        await relay.rounds()
    await worker.run("dead", counted=True, record=failed(36))
    await relay.rounds()

    row = conn.execute(
        "SELECT jsonb_array_length(failures), failures->0->'attempt', failures->-1->'attempt', attempts"
        " FROM redisjobs.dead"
    )
    assert row.fetchone() == (FAILURES_KEPT, 7, 36, 36)


async def test_a_job_without_a_row_has_its_dead_letter_too(conn: Conn, relay: RelayByHand, worker: Hand):
    direct = publication(envelope("direct", a=1), direct=True)
    await worker.broker.enqueue_direct("fresh", [direct])
    await worker.run("dead", queue="fresh", record=failed())

    await relay.rounds()

    row = conn.execute(
        "SELECT id, job, queue, convert_from(payload, 'utf8'), codec, reason FROM redisjobs.dead"
    ).fetchone()
    assert row == (UUID(bytes=direct.job_id), "direct", "fresh", '{"a": 1}', "json", "ValueError: no 1")


@pytest.mark.parametrize(
    "packed",
    [
        b"no envelope",
        msgpack.packb(["a\0b", "json", b"{}", {}]),
        msgpack.packb(["a", "json", b"{}", {"h": "no json"}]),
        msgpack.packb(["a", "json", b"{}", {"p": 10**9}]),
        msgpack.packb(["a", "json", b"{}", {"w": float("inf")}]),
    ],
)
async def test_no_envelope_of_a_dead_direct_job_stops_the_settling(
    conn: Conn, relay: RelayByHand, worker: Hand, packed: bytes
):
    await worker.broker.enqueue_direct("default", [publication(direct=True, envelope=packed)])
    await worker.run("dead")
    job = stage(conn)
    conn.commit()
    await relay.rounds()
    await worker.run()

    await relay.rounds()

    assert states(conn)[job] == "done"
    assert conn.execute("SELECT count(*) FROM redisjobs.dead").fetchone() == (1,)


async def test_no_record_of_a_foreign_worker_stops_the_settling(conn: Conn, relay: RelayByHand, worker: Hand):
    records = [b"\xc1", failed(why="a\0b", r=b"x", rc="\0"), msgpack.packb({"e": {"message": "\0"}, "keep": 1e300})]
    jobs = [stage(conn) for _ in records]
    conn.commit()
    await relay.rounds()
    taken = await worker.take()
    await worker.end(*[finish(each, "dead", record=record) for each, record in zip(taken, records, strict=True)])

    await relay.rounds()

    assert states(conn) == dict.fromkeys(jobs, "dead")


async def test_a_result_is_kept_with_the_finished_job(conn: Conn, relay: RelayByHand, worker: Hand):
    stage(conn)
    conn.commit()
    await relay.rounds()

    await worker.run("done", record=msgpack.packb({"r": b"42", "rc": "json", "keep": 7200.0}))
    await relay.rounds()

    row = conn.execute(
        "SELECT result, result_codec, extract(epoch FROM keep_until - finished_at)::float FROM redisjobs.finished"
    ).fetchone()
    assert row is not None
    assert row[:2] == (b"42", "json")
    assert abs(float(str(row[2])) - 7200) < 5


# events


async def test_a_queue_without_events_to_look_at_again_does_not_hide_those_of_another(
    relay: RelayByHand, monkeypatch: pytest.MonkeyPatch
):
    settler = relay.relay.settler
    early, late = Settlement(outcome("suspended", b"e" * 16)), Settlement(outcome("suspended", b"l" * 16))

    async def change(what: str, statement: bytes, parameters: dict[str, Any]) -> int:
        del what, statement
        if parameters["ids"] == id_array([early.outcome.job_id]):
            return 1
        await turns_of_the_loop()
        return 0

    monkeypatch.setattr(settler._database, "change", change)
    await asyncio.gather(settler._look_again([late]), settler._look_again([early]))

    assert settler.told


# repeats


async def test_a_batch_that_is_settled_twice_has_an_effect_once(
    conn: Conn, database_url: str, redis_proxy: Proxy, worker: Hand
):
    done, dead = stage(conn), stage(conn)
    conn.commit()
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        await relay.rounds()
        first, second = await worker.take()
        await worker.end(finish(first), finish(second, "dead"))

        lost = redis_proxy.lose_request("settled")
        with pytest.raises(StoreUnavailable):
            await relay.rounds()
        await lost.happened()
        await relay.rounds()

    assert states(conn) == {done: "done", dead: "dead"}


@pytest.mark.parametrize("word", ["retry", "suspended"])
async def test_a_failure_that_is_settled_twice_is_kept_once(
    conn: Conn, database_url: str, redis_proxy: Proxy, worker: Hand, word: Any
):
    stage(conn)
    conn.commit()
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        await relay.rounds()
        await worker.run(word, delay_ms=60_000, record=failed(1))
        lost = redis_proxy.lose_request("settled")
        with pytest.raises(StoreUnavailable):
            await relay.rounds()
        await lost.happened()
        await relay.rounds()

    assert conn.execute("SELECT jsonb_array_length(failures) FROM redisjobs.outbox").fetchall() == [(1,)]


async def test_a_repeated_settling_leaves_a_redriven_job_alone(
    conn: Conn, database_url: str, redis_proxy: Proxy, worker: Hand
):
    job = stage(conn)
    conn.commit()
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        await relay.rounds()
        await worker.run("dead", record=failed())
        lost = redis_proxy.lose_request("settled")
        with pytest.raises(StoreUnavailable):
            await relay.rounds()
        await lost.happened()
        conn.execute("SELECT redisjobs.redrive(ARRAY[%s])", [job])
        conn.commit()

        await relay.rounds()
        assert states(conn) == {job: "published"}
        second = await worker.one()
        assert (second.life, second.number, second.attempts) == (1, 3, 0)
        await worker.end(finish(second))
        await relay.rounds()

    assert states(conn) == {job: "done"}


async def test_a_repeated_settling_leaves_a_redriven_direct_job_alone(
    conn: Conn, database_url: str, redis_proxy: Proxy, worker: Hand
):
    direct = publication(direct=True)
    job = UUID(bytes=direct.job_id)
    await worker.broker.enqueue_direct("default", [direct])
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        await worker.run("dead", record=failed())
        lost = redis_proxy.lose_request("settled")
        with pytest.raises(StoreUnavailable):
            await relay.rounds()
        await lost.happened()
        conn.execute("SELECT redisjobs.redrive(ARRAY[%s])", [job])
        conn.commit()

        await relay.rounds()
        assert states(conn) == {job: "published"}
        await worker.run("dead", record=failed())
        await relay.rounds()

    assert states(conn) == {job: "dead"}


async def test_an_id_that_is_used_again_has_its_last_dead_letter_and_stops_no_queue(
    conn: Conn, relay: RelayByHand, worker: Hand, redis: redis_py.Redis
):
    job = uuid4()
    for a in (1, 2):
        stage(conn, "a", {"a": a}, id=job)
        conn.commit()
        await relay.rounds()
        await worker.run("dead", record=failed())
        if a == 2:
            assert conn.execute("SELECT redisjobs.redrive(ARRAY[%s])", [job]).fetchone() == (0,)
        conn.commit()
        await relay.rounds()
        redis.delete("rj:{default}:jobs")  # its tombstone, as after the grace
    other = stage(conn)
    conn.commit()
    await relay.rounds()
    await worker.run()
    await relay.rounds()

    assert states(conn) == {job: "dead", other: "done"}
    assert conn.execute("SELECT input::text FROM redisjobs.dead").fetchone() == ('{"a": 2}',)


async def test_a_redriven_job_is_no_repeat_of_its_former_life(conn: Conn, relay: RelayByHand, worker: Hand):
    job = stage(conn, "a", {"x": 1}, idempotency_key="k")
    conn.commit()
    await relay.rounds()
    await worker.run("dead", record=failed())
    await relay.rounds()

    conn.execute("SELECT redisjobs.redrive(ARRAY[%s, %s])", [job, job])
    conn.commit()
    await relay.rounds()
    await worker.run("dead", record=failed(1))
    await relay.rounds()

    row = conn.execute(
        "SELECT redrives, attempts, jsonb_array_length(failures), input::text FROM redisjobs.dead"
    ).fetchone()
    assert row == (1, 1, 2, '{"x": 1}')


async def test_outcomes_wait_while_postgres_is_away(conn: Conn, postgres_proxy: Proxy, redis_url: str, worker: Hand):
    jobs = [stage(conn) for _ in range(3)]
    conn.commit()
    async with relay_by_hand(postgres_proxy.url, redis_url) as relay:
        await relay.rounds()
        await worker.run()
        lost = postgres_proxy.lose_request("redisjobs.finished")
        with pytest.raises(StoreUnavailable):
            await relay.rounds()
        await lost.happened()

        await relay.rounds()

    assert states(conn) == dict.fromkeys(jobs, "done")


async def test_a_new_holder_settles_what_the_last_one_left(conn: Conn, database_url: str, redis_url: str, worker: Hand):
    job = stage(conn)
    conn.commit()
    async with relay_by_hand(database_url, redis_url) as first:
        await first.rounds()
        await worker.run()
        await first.relay.leases.let_go()
        async with relay_by_hand(database_url, redis_url) as second:
            await second.renewed()
            await second.rounds()

    assert states(conn) == {job: "done"}


# what is remembered


async def test_without_retention_a_finished_job_leaves_no_trace_unless_it_asks_for_it(
    conn: Conn, database_url: str, redis_url: str, worker: Hand
):
    gone = stage(conn)
    kept = stage(conn, "keeps")
    windowed = stage(conn, idempotency_key="k", key_window=timedelta(minutes=1))
    conn.commit()
    async with relay_by_hand(database_url, redis_url, retention=0) as relay:
        await relay.rounds()
        first, second, third = await worker.take()
        await worker.end(finish(first), finish(second, record=msgpack.packb({"keep": 60.0})), finish(third))
        await relay.rounds()

    assert states(conn) == {kept: "done", windowed: "done"}
    assert gone not in states(conn)


async def test_finished_jobs_lie_in_partitions_that_are_dropped_when_their_hour_is_over(
    conn: Conn, relay: RelayByHand, worker: Hand
):
    await relay.relay.settler.clean()
    stage(conn)
    conn.commit()
    await relay.rounds()
    await worker.run()
    await relay.rounds()
    parts = [str(name) for (name,) in conn.execute("SELECT tableoid::regclass FROM redisjobs.finished").fetchall()]
    assert len(parts) == 1
    assert parts[0].startswith("redisjobs.finished_2")
    conn.execute("SELECT redisjobs.make_room(now() - interval '3 hours')")
    conn.execute("INSERT INTO redisjobs.finished (id, job, queue, state, keep_until) VALUES"
                 " (gen_random_uuid(), 'old', 'q', 'done', now() - interval '3 hours'),"
                 " (gen_random_uuid(), 'older', 'q', 'done', now() - interval '9 days')")  # fmt: skip
    conn.commit()

    assert await relay.relay.settler.clean() == 1

    assert conn.execute("SELECT job FROM redisjobs.finished").fetchall() == [("add",)]


@pytest.mark.parametrize("style", ["SQL, DMY", "Postgres, MDY", "German"])
def test_an_hour_is_an_hour_under_any_date_style(conn: Conn, style: str):
    conn.execute("SELECT set_config('datestyle', %s, false), set_config('timezone', 'Asia/Kolkata', false)", [style])
    conn.execute("SELECT redisjobs.make_room('2030-02-03 04:30Z'), redisjobs.make_room('2030-02-03 04:59Z')")
    conn.execute("SET timezone = 'UTC'; SET datestyle = 'ISO'")

    bounds = conn.execute(
        "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = 'finished_2030020304'"
    ).fetchall()
    assert bounds == [("FOR VALUES FROM ('2030-02-03 04:00:00+00') TO ('2030-02-03 05:00:00+00')",)]


async def test_what_lies_in_the_common_partition_moves_when_its_hour_gets_one(conn: Conn):
    conn.execute("INSERT INTO redisjobs.finished (id, job, queue, state, keep_until)"
                 " SELECT gen_random_uuid(), 'a', 'q', 'done', now() + interval '10 hours'"
                 " FROM generate_series(1, 3)")  # fmt: skip

    conn.execute("SELECT redisjobs.make_room(now() + interval '10 hours')")

    assert conn.execute("SELECT count(*) FROM redisjobs.finished_other").fetchone() == (0,)
    assert conn.execute("SELECT count(*) FROM redisjobs.finished").fetchone() == (3,)


async def test_a_long_reader_delays_the_cleaning_and_stops_no_round(
    conn: Conn, relay: RelayByHand, worker: Hand, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING)
    conn.execute("SELECT redisjobs.make_room(now() - interval '3 hours')")
    conn.commit()
    conn.execute("SELECT count(*) FROM redisjobs.finished")

    assert await relay.relay.settler.clean() == 0

    conn.rollback()
    assert await relay.relay.settler.clean() == 1
