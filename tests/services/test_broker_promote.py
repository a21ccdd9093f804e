"""promote and bury: what is due starts, and what is over goes."""

from __future__ import annotations

from uuid import uuid4

from tests.support import builders
from tests.support.builders import publication
from tests.support.eventually import eventually
from tests.support.queue import QueueByHand


async def test_a_due_job_joins_its_stream_and_the_next_one_is_announced(q: QueueByHand):
    soon, later = publication(delay_ms=1, band=2, key=b"k"), publication(delay_ms=60_000)
    await q.publish(soon, later)

    async def moved() -> int:
        return (await q.broker.promote("q")).moved

    assert await eventually(moved, "the first is due") == 1
    promoted = await q.broker.promote("q")
    assert promoted.moved == 0
    assert promoted.next_due_ms is not None
    assert 50_000 < promoted.next_due_ms <= 60_000
    delivery = await q.take_one()
    assert (delivery.job_id, delivery.band, delivery.body) == (soon.job_id, 2, soon.envelope)


async def test_nothing_is_due_in_an_empty_queue(q: QueueByHand):
    promoted = await q.broker.promote("q")

    assert (promoted.moved, promoted.next_due_ms, promoted.cancelled) == (0, None, [])
    assert q.left() == {}


async def test_at_most_so_many_are_moved_earliest_first(q: QueueByHand):
    jobs = [publication(delay_ms=60_000) for _ in range(5)]
    await q.publish(*jobs)
    q.redis.zadd(q.key("due"), {job.job_id: n for n, job in enumerate(reversed(jobs))})

    assert (await q.broker.promote("q", 2)).moved == 2

    assert [each.job_id for each in await q.take()] == [jobs[4].job_id, jobs[3].job_id]


async def test_what_was_parked_is_so_no_longer(q: QueueByHand):
    await q.publish(publication())
    await q.finish(await q.take_one(), "parked")
    assert b" p " in (q.record((await q.outcomes())[0].job_id) or b"")

    await q.broker.promote("q")

    assert b" - 1 " in (q.record((await q.outcomes())[0].job_id) or b"")


async def test_due_ids_without_a_waiting_job_are_dropped(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()
    q.redis.zadd(q.key("due"), {uuid4().bytes: 1, held.job_id: 1})

    await q.broker.promote("q")

    assert q.redis.exists(q.key("due")) == 0
    assert await q.take() == []
    assert await q.finish(held) == "ok"


async def test_running_jobs_whose_cancel_was_asked_for_are_told_and_others_forgotten(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()
    await q.carrier.cancel(q.fence, [(held.job_id, 0, 0)])
    q.redis.sadd(q.key("cancels"), uuid4().bytes)

    assert (await q.broker.promote("q")).cancelled == [held.job_id]
    assert q.redis.smembers(q.key("cancels")) == {held.job_id}
    await q.finish(held)
    assert (await q.broker.promote("q")).cancelled == []
    assert q.redis.exists(q.key("cancels")) == 0


async def test_only_settled_outcomes_are_buried_and_only_after_their_grace(q: QueueByHand):
    await q.publish(publication(), publication())
    await q.finish(await q.take_one())
    await q.settle()
    await q.finish(await q.take_one())

    assert q.script("bury", 10, 60_000) == 0
    assert q.script("bury", 10, 0) == 1

    assert len(q.left()[q.key("jobs")]) == 1
    assert len(await q.outcomes()) == 1


async def test_a_grave_does_not_take_the_next_life_of_its_job(q: QueueByHand):
    job = publication()
    await q.publish(job)
    await q.finish(await q.take_one(), "dead")
    await q.publish(publication(job_id=job.job_id, life=1, number=2))

    await q.settle()
    q.bury()

    assert await q.finish(await q.take_one()) == "ok"


async def test_promote_buries_what_is_old(q: QueueByHand):
    for _ in range(120):
        await q.publish(publication())
        await q.finish(await q.take_one())
    await q.settle()
    q.redis.zadd(q.key("graves"), dict.fromkeys(q.redis.zrange(q.key("graves"), 0, -1), 1))

    await q.broker.promote("q")

    assert q.left() == {}


async def test_lost_graves_are_dug_again_for_what_was_settled(q: QueueByHand):
    await q.publish(publication(), publication())
    first, second = await q.take()
    await q.broker.finish("q", "w1", [builders.finish(first)])
    await q.settle()
    await q.finish(second)
    q.redis.delete(q.key("graves"))

    await q.broker.promote("q")

    assert q.redis.zcard(q.key("graves")) == 1
    q.bury()
    assert [outcome.job_id for outcome in await q.outcomes()] == [second.job_id]
    assert set(q.left()[q.key("jobs")]) == {second.job_id}
