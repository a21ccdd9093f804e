"""reclaim: what a dead worker held goes to another, and its loss is counted."""

from __future__ import annotations

from uuid import uuid4

from redisjobs.broker import Delivery
from tests.support.builders import publication
from tests.support.eventually import eventually
from tests.support.queue import QueueByHand


async def reclaimed(q: QueueByHand, consumer: str = "w2", **given: int):
    """The one delivery whose lease has ended, once it has."""
    (delivery,) = await eventually(lambda: q.reclaim(consumer, **given), "a lease has ended")
    return delivery


async def test_it_looks_at_an_empty_redis_without_complaint(q: QueueByHand):
    q.redis.flushall()

    assert await q.reclaim() == []


async def test_a_lapsed_lease_goes_to_another_and_the_former_holder_is_refused(q: QueueByHand):
    await q.publish(publication())
    first = await q.take_one("w1", lease_ms=1)

    second = await reclaimed(q)

    assert (second.job_id, second.entry) == (first.job_id, first.entry)
    assert (second.start, second.losses, second.attempts) == (2, 1, 0)
    assert await q.finish(first, consumer="w1") == "lost"
    assert await q.finish(second, consumer="w2") == "ok"


async def test_a_lease_of_another_length_is_judged_by_its_own(q: QueueByHand):
    await q.publish(publication(), publication())
    await q.take_one("w1", lease_ms=60_000)
    short = await q.take_one("w1", lease_ms=1)

    assert (await reclaimed(q)).job_id == short.job_id
    q.redis.hdel(q.key("life"), "swept")
    assert await q.reclaim("w3", lease_ms=1000) == []


async def test_the_third_loss_is_a_dead_letter_and_an_accepted_finish_starts_the_count_anew(q: QueueByHand):
    job = publication()
    await q.publish(job)
    await q.take_one("w1", lease_ms=1)
    await reclaimed(q, "w2")
    third = await reclaimed(q, "w3")
    assert third.losses == 2
    assert await q.finish(third, "retry", consumer="w3") == "ok"
    await q.broker.promote("q")
    assert (await q.take_one("w1", lease_ms=1)).losses == 0
    await reclaimed(q, "w2")
    last = await reclaimed(q, "w3")

    async def is_dead() -> bool:
        assert await q.reclaim("w4") == []
        return [outcome.word for outcome in await q.outcomes()] == ["retry", "dead"]

    await eventually(is_dead, "the third loss in a row has killed it")
    assert await q.finish(last, consumer="w3") == "lost"
    assert (await q.outcomes())[-1].attempts == 1
    await q.settle()
    q.bury()
    assert q.left() == {}


async def test_entries_that_were_read_and_never_begun_count_no_loss(q: QueueByHand):
    await q.take()
    await q.publish(publication())
    for consumer in ("w1", "w2", "w3", "w4"):
        q.redis.xclaim(q.key("ready1"), "workers", consumer, 0, [e for e, _ in q.redis.xrange(q.key("ready1"))])
        q.redis.xreadgroup("workers", consumer, {q.key("ready1"): ">"})

    delivery = await reclaimed(q, "w5")

    assert (delivery.start, delivery.losses) == (1, 0)


async def test_a_lapsed_job_whose_cancel_was_asked_for_ends(q: QueueByHand):
    await q.publish(publication(key=b"k"))
    held = await q.take_one("w1", lease_ms=1)
    await q.carrier.cancel(q.fence, [(held.job_id, 0, 0)])

    async def is_cancelled() -> bool:
        assert await q.reclaim() == []
        return [outcome.word for outcome in await q.outcomes()] == ["cancelled"]

    await eventually(is_cancelled, "it ended as cancelled")
    assert q.redis.exists(q.key("cancels"), q.key("keys")) == 0


async def test_of_many_orphans_only_as_many_are_taken_as_there_is_room_for(q: QueueByHand):
    await q.publish(*[publication(band=n % 3) for n in range(30)])
    held = await q.take("dead", lease_ms=1)
    for stream in ("ready0", "ready1", "ready2"):
        entries = [entry for entry, _ in q.redis.xrange(q.key(stream))]
        q.redis.xclaim(q.key(stream), "workers", "dead", 0, entries, idle=99_999)

    got: list[Delivery] = []
    while some := await q.reclaim("w2", 7, lease_ms=30_000):
        assert len(some) <= 7
        got += some

    assert sorted(each.job_id for each in got) == sorted(each.job_id for each in held)


async def test_an_orphan_goes_to_one_of_those_that_ask_at_once(q: QueueByHand):
    await q.publish(*[publication() for _ in range(50)])
    await q.take("dead", lease_ms=1)
    q.redis.xclaim(q.key("ready1"), "workers", "dead", 0, [e for e, _ in q.redis.xrange(q.key("ready1"))], idle=99_999)

    got = [each for n in range(8) for each in await q.reclaim(f"w{n}", 10, 2000)]

    assert len(got) == len({each.job_id for each in got}) == 50
    assert {each.start for each in got} == {2}


async def test_between_two_sweeps_it_looks_at_nothing(q: QueueByHand):
    assert await q.reclaim(lease_ms=60_000) == []
    await q.publish(publication())
    await q.take_one("w1", lease_ms=1)
    q.redis.xclaim(q.key("ready1"), "workers", "w1", 0, [e for e, _ in q.redis.xrange(q.key("ready1"))], idle=99_999)

    assert await q.reclaim(lease_ms=60_000) == []


async def test_a_clock_that_was_set_back_does_not_stop_it(q: QueueByHand):
    await q.publish(publication())
    await q.take_one("w1", lease_ms=1)
    seconds, _ = q.redis.time()
    q.redis.hset(q.key("life"), "swept", (seconds + 86_400) * 1000)

    await reclaimed(q)


async def test_a_paused_queue_starts_no_orphan(q: QueueByHand):
    await q.publish(publication())
    await q.take_one("w1", lease_ms=1)
    await q.open(token=2, paused=True)
    q.redis.xclaim(q.key("ready1"), "workers", "w1", 0, [e for e, _ in q.redis.xrange(q.key("ready1"))], idle=99_999)

    assert await q.reclaim() == []

    await q.open(token=3, paused=False)
    assert (await reclaimed(q)).losses == 1


async def test_pending_entries_without_a_job_or_a_body_are_dropped(q: QueueByHand):
    jobs = [publication() for _ in range(3)]
    await q.publish(*jobs)
    trimmed, lost, _ = await q.take("w1", lease_ms=1)
    q.redis.xadd(q.key("ready1"), {b"j": uuid4().bytes})
    q.redis.xadd(q.key("ready1"), {b"x": b""})
    q.redis.xreadgroup("workers", "w1", {q.key("ready1"): ">"})
    q.redis.xdel(q.key("ready1"), trimmed.entry)
    q.redis.hdel(q.key("jobs"), lost.job_id)

    async def only_one_is_left() -> bool:
        got.extend(await q.reclaim())
        return q.depths() == [0, 1, 0, 0] and len(q.redis.xpending_range(q.key("ready1"), "workers", "-", "+", 99)) == 1

    got: list[Delivery] = []
    await eventually(only_one_is_left, "what is no job has gone")
    assert {each.job_id for each in got} == {jobs[2].job_id}
