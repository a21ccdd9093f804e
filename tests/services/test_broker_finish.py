"""finish: an attempt ends once, whoever says it and however often."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest

from redisjobs.broker import Finish, Word
from tests.support import builders
from tests.support.builders import publication
from tests.support.eventually import eventually
from tests.support.queue import QueueByHand

WORDS = get_args(Word)
FINAL = ("done", "dead", "cancelled", "expired")
WAITING = ("retry", "snooze", "parked")


@pytest.mark.parametrize("word", WORDS)
async def test_a_repeat_is_told_so_and_changes_nothing(q: QueueByHand, word: Word):
    await q.publish(publication(key=b"k"))
    delivery = await q.take_one()

    assert await q.finish(delivery, word, delay_ms=60_000, record=b"r") == "ok"
    before = q.dump()
    assert await q.finish(delivery, word, delay_ms=60_000, record=b"r") == "repeat"

    assert q.dump() == before


@pytest.mark.parametrize("word", FINAL)
async def test_an_end_leaves_a_tombstone_and_one_outcome(q: QueueByHand, word: Word):
    job = publication(key=b"k", number=3, life=1, attempts=2)
    await q.publish(job)

    await q.finish(await q.take_one(), word, record=b"r")

    (outcome,) = await q.outcomes()
    assert (outcome.job_id, outcome.word, outcome.life, outcome.number) == (job.job_id, word, 1, 3)
    assert (outcome.attempts, outcome.record, outcome.envelope, outcome.delay_s) == (3, b"r", b"", 0.0)
    assert set(q.left()) == {q.key("jobs"), q.key("outcomes")}
    await q.settle()
    q.bury()
    assert q.left() == {}


@pytest.mark.parametrize("word", WAITING)
async def test_a_waiting_job_is_due_later_and_says_so(q: QueueByHand, word: Word):
    await q.publish(publication())

    await q.finish(await q.take_one(), word, delay_ms=60_000, counted=word == "retry", record=b"r")

    (outcome,) = await q.outcomes()
    assert (outcome.word, outcome.attempts) == (word, 1 if word == "retry" else 0)
    assert 50 < outcome.delay_s <= 60
    assert q.redis.zcard(q.key("due")) == 1
    assert await q.take() == []


async def test_what_is_handed_back_is_there_at_once_uncounted_and_without_an_outcome(q: QueueByHand):
    await q.publish(publication(band=2))
    first = await q.take_one()

    assert await q.finish(first, "released") == "ok"
    second = await q.take_one("w2")

    assert (second.job_id, second.start, second.attempts, second.band) == (first.job_id, 2, 0, 2)
    assert await q.outcomes() == []
    assert await q.finish(first) == "repeat"
    assert await q.finish(second, consumer="w2") == "ok"


async def test_an_attempt_with_another_holder_entry_or_start_is_lost(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()
    before = q.dump()

    assert await q.finish(held, consumer="w2") == "lost"
    held.start += 1
    assert await q.finish(held) == "lost"
    held.start, held.entry = held.start - 1, b"1-1"
    assert await q.finish(held) == "lost"

    assert q.dump() == before


async def test_what_nobody_knows_is_gone(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()
    q.redis.flushall()

    assert await q.finish(held) == "gone"
    assert q.dump() == {}


async def test_a_repeat_within_the_grace_is_told_so_and_afterwards_gone(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()
    await q.finish(held)
    await q.settle()

    q.bury(grace_ms=60_000)
    assert await q.finish(held) == "repeat"
    q.bury(grace_ms=0)
    assert await q.finish(held) == "gone"


async def test_the_same_attempt_twice_in_one_call_ends_once(q: QueueByHand):
    await q.publish(publication(), publication())
    first, second = await q.take()
    twice = [builders.finish(each, "retry", delay_ms=60_000) for each in (first, second, first)]

    assert await q.broker.finish("q", "w1", twice) == ["ok", "ok", "repeat"]
    assert [outcome.attempts for outcome in await q.outcomes()] == [1, 1]


async def test_of_two_ends_in_one_call_the_first_counts(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()

    answers = await q.broker.finish("q", "w1", [builders.finish(held), builders.finish(held, "dead")])

    assert answers == ["ok", "repeat"]
    assert [outcome.word for outcome in await q.outcomes()] == ["done"]


async def test_one_bad_item_does_not_stop_the_others(q: QueueByHand):
    await q.publish(*[publication() for _ in range(3)])
    first, second, third = await q.take()
    second.start = 7

    words = await q.broker.finish("q", "w1", [builders.finish(each) for each in (first, second, third)])

    assert words == ["ok", "lost", "ok"]


async def test_attempts_are_counted_where_they_count(q: QueueByHand):
    await q.publish(publication())
    counts: list[int] = []
    for word in ("retry", "snooze", "released", "retry", "parked"):
        delivery = await q.take_one()
        counts.append(delivery.attempts)
        await q.finish(delivery, word)
        await q.broker.promote("q")

    assert counts == [0, 1, 1, 1, 2]
    last = await q.take_one()
    assert (last.start, last.attempts) == (6, 2)


@pytest.mark.parametrize("word", [*WAITING, "suspended", "released"])
async def test_a_flagged_job_that_would_come_back_ends_as_cancelled(q: QueueByHand, word: Word):
    await q.publish(publication(key=b"k"))
    held = await q.take_one()
    await q.carrier.cancel(q.fence, [(held.job_id, 0, 0)])

    assert await q.finish(held, word, delay_ms=1000) == "ok"

    assert [outcome.word for outcome in await q.outcomes()] == ["cancelled"]
    assert await q.finish(held, word, delay_ms=1000) == "repeat"
    await q.settle()
    q.bury()
    assert q.left() == {}


async def test_a_flagged_job_that_is_done_is_done(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()
    await q.carrier.cancel(q.fence, [(held.job_id, 0, 0)])

    await q.finish(held)

    assert [outcome.word for outcome in await q.outcomes()] == ["done"]
    assert q.redis.exists(q.key("cancels")) == 0


async def test_an_outcome_tells_its_time_even_in_the_year_9999(q: QueueByHand):
    await q.publish(publication())

    await q.finish(await q.take_one(), "snooze", delay_ms=252_000_000_000_000)

    (outcome,) = await q.outcomes()
    assert outcome.delay_s > 251_000_000_000


async def test_a_kept_result_is_waited_for_and_goes_by_itself(q: QueueByHand):
    job = publication()
    await q.publish(job)
    waiting = asyncio.create_task(q.broker.wait_result("q", job.job_id, 10))

    await q.finish(await q.take_one(), record=b"\x00result\n", keep_ms=300)

    result = await waiting
    assert result is not None
    assert (result.word, result.record) == ("done", b"\x00result\n")
    assert q.redis.pttl(q.broker.keys.result("q", job.job_id)) > 0
    await eventually(lambda: not q.redis.exists(q.broker.keys.result("q", job.job_id)), "the result has gone")
    assert await q.broker.wait_result("q", job.job_id, 0) is None


async def test_only_ends_are_kept_where_they_are_waited_for_and_each_at_its_place(q: QueueByHand):
    await q.publish(*[publication() for _ in range(3)])
    first, second, third = await q.take()
    finishes = [
        builders.finish(first, "retry", delay_ms=60_000, keep_ms=60_000),
        builders.finish(second, "dead", record=b"2", keep_ms=60_000),
        builders.finish(third, record=b"3", keep_ms=60_000),
    ]

    assert await q.broker.finish("q", "w1", finishes) == ["ok"] * 3

    assert await q.broker.wait_result("q", first.job_id, 0) is None
    kept = [await q.broker.wait_result("q", each.job_id, 0) for each in (second, third)]
    assert [(each.word, each.record) for each in kept if each] == [("dead", b"2"), ("done", b"3")]


async def test_a_direct_job_that_died_brings_its_envelope_and_others_only_their_end(q: QueueByHand):
    jobs = [publication(direct=True) for _ in range(3)]
    await q.broker.enqueue_direct("q", jobs)
    first, second, third = await q.take()

    await q.finish(first)
    await q.finish(second, "dead", record=b"why")
    await q.finish(third, "retry", delay_ms=60_000)

    told = {outcome.job_id: (outcome.word, outcome.envelope) for outcome in await q.outcomes()}
    assert told[second.job_id] == ("dead", jobs[1].envelope)
    q.bury()
    assert [outcome.word for outcome in await q.outcomes()] == ["dead"]  # nobody waits for the others


async def test_a_large_batch_of_records_goes_out_in_entries_of_bounded_size(q: QueueByHand):
    await q.publish(*[publication() for _ in range(10)])
    finishes = [builders.finish(each, record=b"x" * 600_000) for each in await q.take()]

    assert await q.broker.finish("q", "w1", finishes) == ["ok"] * 10

    outcomes = await q.outcomes()
    assert len(outcomes) == 10
    assert len({outcome.position for outcome in outcomes}) >= 5
    await q.settle()
    q.bury()
    assert q.left() == {}


async def test_what_is_over_in_postgres_is_forgotten_and_the_next_one_of_its_lane_goes_on(q: QueueByHand):
    over, behind = publication(key=b"k", lane=b"a", order=1), publication(lane=b"a", order=2)
    await q.publish(over, behind)
    held = await q.take_one()

    assert await q.broker.finish("q", "w1", [Finish(held, "over")]) == ["ok"]

    assert await q.outcomes() == []
    assert await q.broker.holder("q", "k") is None
    assert (await q.take_one()).job_id == behind.job_id
    assert await q.broker.finish("q", "w1", [Finish(held, "over")]) == ["gone"]


async def test_only_who_holds_a_job_can_say_that_it_is_over(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one("w1", lease_ms=1)
    (taken_over,) = await eventually(lambda: q.reclaim("w2"), "its lease has lapsed")

    assert await q.broker.finish("q", "w1", [Finish(held, "over")]) == ["lost"]
    assert await q.finish(taken_over, consumer="w2") == "ok"
