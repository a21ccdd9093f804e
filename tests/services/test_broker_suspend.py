"""Durable runs in Redis: a suspension ends a publication, and leaves a tombstone and its key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redisjobs.broker import Publication, Word
from tests.support.builders import publication
from tests.support.eventually import eventually
from tests.support.queue import QueueByHand


async def suspended(q: QueueByHand, **given: object) -> Publication:
    """A job whose first publication has ended in a suspension."""
    job = publication(**given)
    await q.publish(job)
    assert await q.finish(await q.take_one(), "suspended", delay_ms=-1) == "ok"
    return job


async def test_a_suspended_job_costs_redis_nothing_but_its_key(q: QueueByHand):
    job = await suspended(q, key=b"k")
    await q.settle()
    q.bury()

    assert q.left() == {q.key("keys"): {b"k": job.job_id}, q.key("windows"): {b"k": 9e15}}


async def test_a_suspension_says_when_it_ends_or_that_it_has_no_time(q: QueueByHand):
    await q.publish(*[publication() for _ in range(3)])
    for held, delay_ms in zip(await q.take(), (-1, 0, 60_000), strict=True):
        await q.finish(held, "suspended", delay_ms=delay_ms)

    never, now, later = [each.delay_s for each in await q.outcomes()]
    assert (never, now) == (-1.0, 0.0)
    assert 55 < later <= 60


async def test_rule_6_a_cancel_wins_over_a_suspension(q: QueueByHand):
    job = publication(key=b"k")
    await q.publish(job)
    held = await q.take_one()
    await q.carrier.cancel(q.fence, [(job.job_id, 0, 0)])

    await q.finish(held, "suspended", delay_ms=-1)

    assert [each.word for each in await q.outcomes()] == ["cancelled"]
    assert await q.broker.holder("q", "k") is None


async def test_a_suspension_lets_no_lease_and_no_due_time_stand(q: QueueByHand):
    await suspended(q)

    assert await q.reclaim() == []
    assert (await q.broker.promote("q")).next_due_ms is None
    assert q.depths() == [0, 0, 0, 0]


async def test_only_the_tombstone_of_what_has_settled_makes_way(q: QueueByHand):
    job = await suspended(q)

    assert await q.publish(replace(job, number=2, after=0)) == [("repeat", None)]
    assert await q.publish(replace(job, number=2, after=1)) == [("new", None)]
    await q.finish(await q.take_one(), "suspended", delay_ms=-1)
    assert await q.publish(replace(job, number=3, after=1)) == [("repeat", None)]
    assert await q.publish(replace(job, number=3, after=2)) == [("new", None)]


async def test_an_end_is_never_replaced_by_what_follows_an_earlier_suspension(q: QueueByHand):
    job = await suspended(q)
    await q.publish(replace(job, number=2, after=1))
    await q.finish(await q.take_one())

    assert await q.publish(replace(job, number=2, after=1), replace(job, number=3, after=1)) == [("repeat", None)] * 2


async def test_rule_14_a_repeated_finish_is_told_so_after_the_next_publication(q: QueueByHand):
    job = publication(attempts=3)
    await q.publish(job)
    first = await q.take_one()
    await q.finish(first, "suspended", delay_ms=-1)
    await q.publish(replace(job, number=2, after=1))

    assert await q.finish(first, "suspended", delay_ms=-1) == "repeat"
    assert await q.finish(first, "suspended", consumer="w2", delay_ms=-1) == "lost"
    second = await q.take_one()
    assert (second.start, second.attempts) == (2, 3)
    assert await q.finish(first, "suspended", delay_ms=-1) == "repeat"
    assert await q.finish(second) == "ok"


async def test_a_worker_that_lost_the_next_publication_is_told_lost_and_not_repeat(q: QueueByHand):
    job = await suspended(q)
    await q.publish(replace(job, number=2, after=1))
    held = await q.take_one(lease_ms=1)
    (taken_over,) = await eventually(q.reclaim, "the lease has ended")

    assert await q.finish(held) == "lost"
    assert await q.finish(taken_over, consumer="w2") == "ok"


async def test_a_redis_that_went_back_before_the_suspension_gives_way_to_the_next_publication(q: QueueByHand):
    """What it still runs under the old publication is refused: no two attempts of a run are right."""
    job = publication(key=b"k")
    await q.publish(job)
    zombie = await q.take_one()

    assert await q.carrier.audit(q.fence, [(job.job_id, 0, 1)]) == [job.job_id]
    assert await q.publish(replace(job, number=2, after=1)) == [("new", None)]
    assert await q.finish(zombie) == "lost"
    held = await q.take_one()
    assert (held.number, held.start) == (2, 2)
    assert await q.broker.holder("q", "k") == job.job_id
    await q.finish(held)
    assert await q.broker.holder("q", "k") is None


async def test_a_cancel_forgets_what_a_redis_that_went_back_runs(q: QueueByHand):
    job = publication(key=b"k")
    await q.publish(job)
    zombie = await q.take_one()

    assert await q.carrier.cancel(q.fence, [(job.job_id, 0, 1)]) == ["unknown"]
    assert await q.finish(zombie) == "gone"
    assert q.left() == {}


async def test_a_redriven_job_is_not_held_back_by_a_suspension_of_its_former_life(q: QueueByHand):
    job = await suspended(q)

    assert await q.publish(replace(job, life=1, number=3)) == [("new", None)]


async def test_a_run_that_lost_its_key_to_another_job_goes_on_without_it(q: QueueByHand):
    job, thief = await suspended(q, key=b"k"), publication(key=b"k")
    q.redis.delete(q.key("keys"), q.key("windows"))
    await q.publish(thief)

    assert await q.publish(replace(job, number=2, after=1)) == [("new", None)]
    ran = await q.run_all()

    assert ran == [thief.job_id, job.job_id]
    assert q.redis.exists(q.key("keys")) == 0


async def test_a_second_job_with_the_key_of_a_suspended_one_is_its_duplicate(q: QueueByHand):
    job = await suspended(q, key=b"k", window_ms=60_000)
    await q.settle()
    q.bury()

    assert await q.publish(publication(key=b"k")) == [("dup", job.job_id)]
    assert await q.broker.holder("q", "k") == job.job_id


async def test_a_direct_job_that_is_suspended_comes_back_at_once(q: QueueByHand):
    """It has no row that could wake it."""
    await q.broker.enqueue_direct("q", [publication(direct=True)])

    assert await q.finish(await q.take_one(), "suspended", delay_ms=-1) == "ok"
    await q.broker.promote("q")

    assert (await q.take_one()).start == 2


async def test_nobody_takes_a_suspension_for_a_result(q: QueueByHand):
    job = await suspended(q)

    assert await q.broker.wait_result("q", job.job_id, 0.01) is None


@pytest.mark.parametrize("word", ["done", "dead", "cancelled", "expired"])
async def test_the_key_is_free_once_the_run_ends(q: QueueByHand, word: Word):
    job = await suspended(q, key=b"k")
    await q.publish(replace(job, number=2, after=1))
    await q.finish(await q.take_one(), word)

    assert await q.broker.holder("q", "k") is None
