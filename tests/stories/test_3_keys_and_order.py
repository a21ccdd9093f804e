"""Idempotency keys and their windows, and who goes first (rules I1, I2, L5; promise 5; model rules 7, 11; case I03)."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
import redis as redis_py

from redisjobs import Context, OptionError
from tests.stories.road import Road
from tests.support.eventually import eventually


async def test_while_a_job_with_a_key_lives_a_second_one_is_not_run(road: Road):
    go_on = asyncio.Event()

    @road.app.job
    async def remind(n: int) -> None:
        road.seen.append(n)
        await go_on.wait()

    once = remind.using(idempotency_key="order-1")
    await road.work()
    first, second = road.commit(once.call(n=1), once.call(n=2))
    await road.reaches("deduplicated", second)
    named = "SELECT duplicate_of::text FROM redisjobs.finished WHERE id = %(id)s"
    assert road.query(named, id=second) == [(first,)]

    await eventually(lambda: road.seen, "the first runs")
    (third,) = road.commit(once.call(n=3))
    await road.reaches("deduplicated", third)
    assert await road.app.holder("default", "order-1") == first
    go_on.set()
    await road.reaches("done", first)
    assert await road.app.holder("default", "order-1") is None

    (after,) = road.commit(once.call(n=4))
    await road.reaches("done", after)
    assert road.seen == [1, 4]


async def test_a_window_keeps_the_key_after_the_end_and_then_lets_it_go(road: Road):
    @road.app.job
    async def remind(n: int) -> None:
        road.seen.append(n)

    once = remind.using(idempotency_key="k", window=1.5)
    await road.work()
    (first,) = road.commit(once.call(n=1))
    await road.reaches("done", first)
    (second,) = road.commit(once.call(n=2))
    await road.reaches("deduplicated", second)
    assert await road.app.holder("default", "k") == first

    over = "SELECT 1 FROM redisjobs.finished WHERE id = %(id)s AND key_until < clock_timestamp() - interval '0.2 s'"
    await eventually(lambda: road.query(over, id=first), "the window is over")
    assert await road.app.holder("default", "k") is None
    (third,) = road.commit(once.call(n=3))
    await road.reaches("done", third)
    assert road.seen == [1, 3]


async def test_queues_do_not_share_keys_and_keys_are_compared_byte_by_byte(road: Road):
    @road.app.job
    async def note(what: str) -> None:
        road.seen.append(what)

    keys = ["k", "K", " k", "k ", "ḱ", "k\u0301", "%s", "*", "x" * 512]
    calls = [note.using(idempotency_key=key, delay=2).call(what=key) for key in keys]
    calls.append(note.using(idempotency_key="k", queue="other", delay=2).call(what="other queue"))
    jobs = road.commit(*calls)
    await road.reaches("published", *jobs)
    assert [await road.app.holder("default", key) for key in keys] == jobs[: len(keys)]
    assert await road.app.holder("other", "k") == jobs[-1]

    await road.work(queues=["default", "other"])
    await road.reaches("done", *jobs)
    assert sorted(road.seen) == sorted([*keys, "other queue"])


@pytest.mark.parametrize(
    "key", [" ", "k" * 300, "\N{RECEIPT}\u200d\u2764\ufe0f"], ids=["a space", "300 characters", "emoji"]
)
async def test_i03_an_odd_key_is_one_key_and_no_copy_runs_even_after_redis_was_emptied(
    road: Road, redis: redis_py.Redis, key: str
):
    @road.app.job
    async def note(ctx: Context) -> None:
        road.seen.append(ctx.job_id)

    once = note.using(idempotency_key=key, delay=1)
    first, second = road.commit(once.call(), once.call())
    await road.reaches("published", first)
    await road.reaches("deduplicated", second)
    redis.flushall()
    (third,) = road.commit(once.call())
    await road.work()
    await road.reaches("done", first)
    await road.reaches("deduplicated", third)
    assert road.seen == [first]


async def test_i03_an_empty_key_or_id_is_refused_at_the_call_and_by_the_table(road: Road):
    @road.app.job
    async def note() -> None:
        road.seen.append("ran")

    for key in ("", "a\0b"):
        with pytest.raises(OptionError, match="idempotency_key"):
            note.using(idempotency_key=key).call()
    with pytest.raises(psycopg.errors.CheckViolation):
        road.query("SELECT redisjobs.enqueue('note', idempotency_key => '')")
    for odd in ("", " ", "\N{RECEIPT}", "1" * 300):
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            road.query("INSERT INTO redisjobs.outbox (id, job, input) VALUES (%(id)s, 'note', '{}')", id=odd)
    assert road.query("SELECT count(*) FROM redisjobs.outbox") == [(0,)]


async def test_a_key_of_a_rolled_back_job_is_free(road: Road):
    @road.app.job
    async def note(n: int) -> None:
        road.seen.append(n)

    once = note.using(idempotency_key="k")
    await road.work()
    with road.connect() as connection:
        once.enqueue(connection, n=1)
        connection.rollback()
        kept = once.enqueue(connection, n=2)
    await road.reaches("done", kept)
    assert road.seen == [2]


async def test_jobs_are_published_in_the_order_of_their_commits(road: Road):
    @road.app.job
    async def note(n: int) -> None:
        road.seen.append(n)

    with road.connect() as slow, road.connect() as quick:
        note.enqueue(slow, n=-1)  # staged first, committed last: overlapping transactions are not ordered
        for n in range(0, 50, 2):
            note.enqueue(quick, n=n)
            note.enqueue(quick, n=n + 1)
            quick.commit()
    await eventually(
        lambda: not road.query("SELECT 1 FROM redisjobs.outbox WHERE state = 'staged'"), "all are published"
    )
    await road.work(concurrency=1)
    await eventually(lambda: len(road.seen) == 51, "all run")
    assert [n for n in road.seen if n >= 0] == list(range(50))


async def test_a_high_priority_goes_first_and_a_low_one_still_moves(road: Road):
    @road.app.job
    async def note(what: str) -> None:
        road.seen.append(what)

    @road.app.job(priority=-1)
    async def rest() -> None:
        road.seen.append("low")

    jobs = road.commit(
        *(note.call(what="normal") for _ in range(60)),
        *(note.using(priority=1).call(what="high") for _ in range(60)),
        *(rest.call() for _ in range(60)),
    )
    await road.reaches("published", *jobs)
    await road.work(concurrency=1)
    await eventually(lambda: len(road.seen) == 180, "all run")

    assert road.seen.index("high") < road.seen.index("normal")
    lows = [at for at, what in enumerate(road.seen) if what == "low"]
    assert all(at < 10 * nth for nth, at in enumerate(lows[:10], 1)), "one in ten is low while others are busy (L5)"
    middle = [sum(at for at, what in enumerate(road.seen) if what == band) for band in ("high", "normal", "low")]
    assert middle == sorted(middle)


async def test_a_key_in_a_row_of_another_language_counts_the_same(road: Road):
    @road.app.job
    async def note() -> None:
        road.seen.append("ran")

    with psycopg.connect(road.database_url) as connection:
        connection.execute(
            """INSERT INTO redisjobs.outbox (job, input, idempotency_key, key_window, run_at) VALUES
               ('note', '{}', 'k', '1 hour', now()), ('note', '{}', 'k', '1 hour', now())"""
        )
    await road.work()
    ended = "SELECT state FROM redisjobs.finished ORDER BY state"
    await eventually(lambda: len(road.query(ended)) == 2, "both have ended")
    assert road.query(ended) == [("deduplicated",), ("done",)]
    assert road.seen == ["ran"]
