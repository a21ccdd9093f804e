"""Rows on their way into Redis: stopped queues, waiting rows, keys and cancels."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest
import redis as redis_py

from redisjobs.broker import Stale
from redisjobs.staged import StagedRow
from tests.support.builders import finish, publication, stage, states
from tests.support.proxy import Proxy
from tests.support.relays import Hand, RelayByHand, envelope_of, in_line, job_of, relay_by_hand
from tests.support.wire import Request

Conn = psycopg.Connection[tuple[object, ...]]


def soon(**distance: float) -> datetime:
    return datetime.now(UTC) + timedelta(**distance)


# a row that fails


def refuses(job: UUID):
    def matches(request: Request) -> bool:
        return request.sha is not None and any(job.bytes == word for word in request.words)

    return matches


async def test_a_row_that_redis_refuses_stops_its_queue_there_and_no_other(
    conn: Conn, database_url: str, redis: redis_py.Redis, redis_proxy: Proxy, caplog: pytest.LogCaptureFixture
):
    jobs = [stage(conn) for _ in range(5)]
    other = stage(conn, queue="other")
    conn.commit()
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        with redis_proxy.answer("ERR no such thing", refuses(jobs[2])):
            for _ in range(4):
                await relay.round()
            assert in_line(redis) == jobs[:2]
            assert in_line(redis, "other") == [other]
            failing = conn.execute("SELECT failing FROM redisjobs.queues WHERE queue = 'default'").fetchone()
            conn.commit()

        assert failing is not None
        assert isinstance(failing[0], dict)
        assert failing[0]["id"] == str(jobs[2])
        assert "no such thing" in failing[0]["error"]
        said = [record for record in caplog.records if "outbox.publish_failed" in record.getMessage()]
        assert len(said) == 1
        assert str(jobs[2]) in said[0].getMessage()

        await relay.rounds()
        assert in_line(redis) == jobs
        assert conn.execute("SELECT count(*) FROM redisjobs.queues WHERE failing IS NOT NULL").fetchone() == (0,)


async def test_a_row_that_cannot_be_made_ready_is_named_after_those_before_it_went(
    conn: Conn, relay: RelayByHand, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
):
    first, bad, last = stage(conn), stage(conn, "bad"), stage(conn)
    conn.commit()
    made = StagedRow.publication

    def odd(row: StagedRow, share_by: str | None = None):
        if row.job == "bad":
            raise OverflowError("too odd")
        return made(row, share_by)

    with monkeypatch.context() as patched:
        patched.setattr(StagedRow, "publication", odd)
        for _ in range(3):
            await relay.round()
        assert in_line(redis) == [first]
        named = conn.execute("SELECT failing->>'id', failing->>'error' FROM redisjobs.queues").fetchone()
        assert named == (str(bad), "OverflowError: too odd")
        conn.commit()

    await relay.rounds()
    assert in_line(redis) == [first, bad, last]


async def test_a_failing_row_that_is_set_aside_lets_the_rest_go_and_comes_back_at_the_end(
    conn: Conn, database_url: str, redis: redis_py.Redis, redis_proxy: Proxy
):
    bad, *good = [stage(conn) for _ in range(4)]
    conn.commit()
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        with redis_proxy.answer("ERR no such thing", refuses(bad)):
            await relay.round()
            conn.execute("SELECT redisjobs.set_aside(ARRAY[%s])", [bad])
            conn.commit()
            await relay.rounds()
        assert in_line(redis) == good
        assert states(conn)[bad] == "set_aside"
        assert conn.execute("SELECT count(*) FROM redisjobs.queues WHERE failing IS NOT NULL").fetchone() == (0,)

        conn.execute("SELECT redisjobs.set_aside(ARRAY[%s], false)", [bad])
        conn.commit()
        await relay.rounds()

    assert in_line(redis) == [*good, bad]


async def test_the_name_of_a_failing_row_goes_when_another_relay_gets_it_through(
    conn: Conn, database_url: str, redis_url: str, redis_proxy: Proxy
):
    bad = stage(conn)
    conn.commit()
    async with relay_by_hand(database_url, redis_proxy.url) as first:
        redis_proxy.answer("ERR no such thing", refuses(bad))
        await first.round()
        await first.relay.leases.let_go()

    async with relay_by_hand(database_url, redis_url) as second:
        await second.rounds()

    assert conn.execute("SELECT failing FROM redisjobs.queues").fetchall() == [(None,)]


# rows that wait


async def test_a_row_due_behind_the_horizon_waits_in_postgres_and_costs_redis_nothing(
    conn: Conn, relay: RelayByHand, redis: redis_py.Redis
):
    far, near = stage(conn, run_at=soon(hours=2)), stage(conn, run_at=soon(minutes=30))
    conn.commit()

    await relay.rounds()

    assert states(conn) == {far: "deferred", near: "published"}
    assert redis.hkeys("rj:{default}:jobs") == [near.bytes]


async def test_a_far_row_with_a_key_goes_at_once_for_its_key_must_be_held(conn: Conn, relay: RelayByHand, worker: Hand):
    far, twin = stage(conn, run_at=soon(hours=2), idempotency_key="k"), stage(conn, idempotency_key="k")
    conn.commit()

    await relay.rounds()

    assert states(conn) == {far: "published", twin: "deduplicated"}
    assert await worker.take() == []


async def test_a_deferred_row_joins_the_line_when_it_comes_within_the_horizon(
    conn: Conn, relay: RelayByHand, redis: redis_py.Redis
):
    far = stage(conn, run_at=soon(hours=2))
    conn.commit()
    await relay.rounds()

    conn.execute("UPDATE redisjobs.outbox SET run_at = now() + interval '30 minutes'")
    conn.commit()
    await relay.rounds()

    assert states(conn) == {far: "published"}
    score = redis.zscore("rj:{default}:due", far.bytes)
    assert score is not None
    assert 29 * 60 < score / 1000 - redis.time()[0] < 31 * 60


async def test_many_far_rows_leave_the_line_and_do_not_hold_up_a_near_one(
    conn: Conn, relay: RelayByHand, redis: redis_py.Redis
):
    conn.execute(
        "INSERT INTO redisjobs.outbox (job, input, run_at)"
        " SELECT 'a', '{}', now() + interval '1 day' FROM generate_series(1, 3000)"
    )
    near = stage(conn)
    conn.commit()

    await relay.rounds()

    assert in_line(redis) == [near]
    assert redis.hlen("rj:{default}:jobs") == 1
    assert relay.hold().floor.seq > 2000


async def test_a_due_time_travels_as_a_distance(conn: Conn, relay: RelayByHand, redis: redis_py.Redis):
    job = stage(conn, run_at=soon(seconds=100))
    conn.commit()

    await relay.rounds()

    score = redis.zscore("rj:{default}:due", job.bytes)
    assert score is not None
    assert 90 < score / 1000 - redis.time()[0] <= 101


# keys


async def test_a_second_job_with_a_key_settles_as_a_duplicate_and_names_the_first(
    conn: Conn, relay: RelayByHand, redis: redis_py.Redis
):
    first, second, elsewhere, free = (
        stage(conn, idempotency_key="k"), stage(conn, idempotency_key="k"),
        stage(conn, idempotency_key="k", queue="other"), stage(conn, idempotency_key="K"),
    )  # fmt: skip
    conn.commit()

    await relay.rounds()

    assert states(conn) == {first: "published", second: "deduplicated", elsewhere: "published", free: "published"}
    assert conn.execute("SELECT duplicate_of FROM redisjobs.finished").fetchall() == [(first,)]


async def test_the_key_is_free_after_the_end_and_kept_for_its_window(conn: Conn, relay: RelayByHand, worker: Hand):
    plain, windowed = stage(conn, idempotency_key="a"), stage(conn, idempotency_key="b", key_window=timedelta(hours=1))
    conn.commit()
    await relay.rounds()
    await worker.run()
    await relay.rounds()

    again, twin = stage(conn, idempotency_key="a"), stage(conn, idempotency_key="b")
    conn.commit()
    await relay.rounds()

    assert states(conn) == {plain: "done", windowed: "done", again: "published", twin: "deduplicated"}


async def test_a_ghost_in_redis_is_forgotten_and_the_row_is_published(conn: Conn, relay: RelayByHand, worker: Hand):
    ghost = stage(conn, idempotency_key="k")
    conn.commit()
    await relay.rounds()
    conn.execute("DELETE FROM redisjobs.outbox")  # as if Redis had gone back to a state before the job's end
    job = stage(conn, idempotency_key="k")
    conn.commit()

    await relay.rounds()

    assert states(conn) == {job: "published"}
    assert [job_of(each) for each in await worker.take()] == [job]
    assert ghost != job


async def test_a_row_behind_a_ghost_that_somebody_holds_waits_without_being_passed_over(
    conn: Conn, relay: RelayByHand, worker: Hand, redis: redis_py.Redis
):
    stage(conn, idempotency_key="k")
    conn.commit()
    await relay.rounds()
    held = await worker.one()
    conn.execute("DELETE FROM redisjobs.outbox")
    waits = stage(conn, idempotency_key="k")
    conn.commit()
    for _ in range(3):
        others = [stage(conn) for _ in range(3)]
        conn.commit()
        await relay.round()
        assert all(states(conn)[other] == "published" for other in others)
    assert states(conn)[waits] == "staged"

    await worker.end(finish(held))
    await relay.rounds()

    assert states(conn)[waits] == "published"
    assert waits in in_line(redis)


async def test_a_live_job_without_a_row_holds_its_key(conn: Conn, relay: RelayByHand, worker: Hand):
    direct = publication("direct", key=b"k", direct=True)
    await worker.broker.enqueue_direct("default", [direct])
    twin = stage(conn, idempotency_key="k")
    conn.commit()

    await relay.rounds()

    assert states(conn) == {twin: "deduplicated"}
    assert conn.execute("SELECT duplicate_of FROM redisjobs.finished").fetchone() == (UUID(bytes=direct.job_id),)


async def test_a_window_counts_although_postgres_knows_nothing_of_the_job_that_ended(
    conn: Conn, relay: RelayByHand, worker: Hand
):
    direct = publication("direct", key=b"direct", window_ms=3_600_000, direct=True)
    await worker.broker.enqueue_direct("default", [direct])
    purged = stage(conn, idempotency_key="purged", key_window=timedelta(hours=1))
    conn.commit()
    await relay.rounds()
    await worker.run("dead")
    await relay.rounds()
    conn.execute("DELETE FROM redisjobs.dead")
    twins = [stage(conn, idempotency_key=key) for key in ("direct", "purged")]
    conn.commit()

    await relay.rounds()

    assert states(conn) == dict.fromkeys(twins, "deduplicated")
    found = conn.execute("SELECT id, duplicate_of FROM redisjobs.finished").fetchall()
    assert set(found) == set(zip(twins, [UUID(bytes=direct.job_id), purged], strict=True))


async def test_a_row_published_again_is_no_duplicate_of_itself(conn: Conn, relay: RelayByHand, redis: redis_py.Redis):
    job = stage(conn, idempotency_key="k")
    conn.commit()
    await relay.rounds()
    conn.execute("UPDATE redisjobs.outbox SET state = 'staged'")  # a mark that got lost
    conn.commit()
    relay.hold().floor.reset()

    await relay.rounds()

    assert states(conn) == {job: "published"}
    assert in_line(redis) == [job]


async def test_without_retention_a_duplicate_leaves_no_trace(conn: Conn, database_url: str, redis_url: str):
    stage(conn, idempotency_key="k")
    stage(conn, idempotency_key="k")
    conn.commit()

    async with relay_by_hand(database_url, redis_url, retention=0) as relay:
        await relay.rounds()

    assert list(states(conn).values()) == ["published"]


# cancels


def ask_to_cancel(conn: Conn, job: UUID) -> object:
    row = conn.execute("SELECT redisjobs.cancel(%s)", [job]).fetchone()
    conn.commit()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("where", ["staged", "deferred", "set_aside", "published", "due"])
async def test_a_job_that_waits_anywhere_ends_at_its_cancel(
    conn: Conn, relay: RelayByHand, worker: Hand, redis: redis_py.Redis, where: str
):
    run_at = {"deferred": soon(hours=2), "due": soon(minutes=1)}.get(where)
    job = stage(conn, run_at=run_at)
    conn.commit()
    if where == "set_aside":
        conn.execute("SELECT redisjobs.set_aside(ARRAY[%s])", [job])
        conn.commit()
    elif where != "staged":
        await relay.rounds()

    assert ask_to_cancel(conn, job) == "requested"
    await relay.rounds()

    assert states(conn) == {job: "cancelled"}
    assert await worker.take() == []
    assert redis.zcard("rj:{default}:due") == 0
    assert ask_to_cancel(conn, job) == "cancelled"


async def test_a_cancel_of_a_running_job_is_a_flag_for_its_holder(conn: Conn, relay: RelayByHand, worker: Hand):
    job = stage(conn)
    conn.commit()
    await relay.rounds()
    held = await worker.one()

    ask_to_cancel(conn, job)
    await relay.round()
    assert (await worker.broker.promote("default")).cancelled == [job.bytes]
    assert states(conn) == {job: "published"}

    await worker.end(finish(held, "retry", delay_ms=1000))
    await relay.rounds()
    assert states(conn) == {job: "cancelled"}


@pytest.mark.parametrize("word", ["done", "dead"])
def test_a_cancel_after_the_end_says_what_the_job_has_become(conn: Conn, word: str):
    job = uuid4()
    table = {"done": "finished (id, job, queue, state, keep_until) VALUES (%s, 'a', 'q', 'done', now())",
             "dead": "dead (id, job, queue, reason) VALUES (%s, 'a', 'q', 'r')"}[word]  # fmt: skip
    conn.execute(f"INSERT INTO redisjobs.{table}".encode(), [job])

    assert ask_to_cancel(conn, job) == word
    assert ask_to_cancel(conn, uuid4()) == "unknown"


async def test_a_cancel_while_the_row_is_in_the_relays_hand_does_not_let_it_run(
    conn: Conn, database_url: str, redis_proxy: Proxy, worker: Hand
):
    job = stage(conn)
    conn.commit()
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        held = redis_proxy.hold_request("publish")
        await relay.relay.start()
        await held.happened()
        assert ask_to_cancel(conn, job) == "requested"
        held.release()
        await relay.relay.stop()
        await relay.rounds()

    assert states(conn) == {job: "cancelled"}
    assert await worker.take() == []


async def test_a_cancel_in_a_transaction_that_rolls_back_is_none(conn: Conn, relay: RelayByHand):
    job = stage(conn)
    conn.commit()
    conn.execute("SELECT redisjobs.cancel(%s)", [job])
    conn.rollback()

    await relay.rounds()

    assert states(conn) == {job: "published"}


async def test_a_cancelled_row_whose_mark_was_lost_is_marked(conn: Conn, relay: RelayByHand, worker: Hand):
    job = stage(conn)
    conn.commit()
    await relay.rounds()
    held = await worker.one()
    conn.execute("UPDATE redisjobs.outbox SET state = 'staged', cancel_requested = true")
    conn.commit()
    relay.hold().floor.reset()

    await relay.round()
    assert states(conn) == {job: "published"}

    await worker.end(finish(held, "cancelled"))
    await relay.rounds()
    assert states(conn) == {job: "cancelled"}


# what travels


async def test_everything_that_a_row_says_is_in_the_envelope(conn: Conn, relay: RelayByHand, worker: Hand):
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    stage(conn, "mail", {"to": "ä"}, idempotency_key="k", key_window=timedelta(minutes=1), priority=-3, max_attempts=4,
          run_at="2001-01-01 00:00Z", expires_at="2100-01-01 00:00Z", tenant_id="t", traceparent=trace,
          enqueued_by="me", headers=json.dumps({"h": [1]}))  # fmt: skip
    stage(conn, "mail", payload=b"\x00\xff", codec="odd")
    conn.commit()

    await relay.rounds()
    second, first = map(envelope_of, await worker.take())

    assert (first.job, first.codec, first.payload) == ("mail", "json", json.dumps({"to": "ä"}).encode())
    assert (first.idempotency_key, first.key_window, first.priority, first.max_attempts) == ("k", 60.0, -3, 4)
    assert (first.run_at, first.expires_at) == (978_307_200_000_000, 4_102_444_800_000_000)
    assert (first.tenant_id, first.traceparent, first.enqueued_by) == ("t", trace, "me")
    assert first.headers == json.dumps({"h": [1]})
    assert first.staged_at
    assert (second.codec, second.payload) == ("odd", b"\x00\xff")


async def test_large_rows_travel_in_several_calls(
    conn: Conn, database_url: str, redis: redis_py.Redis, redis_proxy: Proxy
):
    jobs = [stage(conn, payload=b"x" * 300_000, codec="msgpack") for _ in range(9)]
    conn.commit()
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        calls = redis_proxy.hold_reply("publish", times=None)
        calls.release()
        await relay.rounds()

    assert in_line(redis) == jobs
    assert calls.count == 3


async def test_a_stale_hold_publishes_and_marks_nothing(
    conn: Conn, relay: RelayByHand, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING)
    stage(conn)
    conn.commit()
    await relay.rounds()
    late = stage(conn)
    conn.execute("UPDATE redisjobs.queues SET holder = 'other', token = token + 1, lease_until = 'infinity'")
    conn.commit()
    hold = relay.hold()

    with pytest.raises(Stale):
        await relay.relay.publisher.publish(hold)

    assert states(conn)[late] == "staged"
