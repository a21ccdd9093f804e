"""The whole life of jobs on every Redis that is promised, and on fakeredis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from redisjobs.broker import Entry, OtherLife, Stale, Word
from tests.support import builders
from tests.support.builders import publication
from tests.support.eventually import eventually
from tests.support.queue import QueueByHand
from tests.support.redis_versions import AnyRedis

BACK: tuple[Word, ...] = ("retry", "snooze", "parked", "released")
ENDS: tuple[Word, ...] = ("done", "dead", "cancelled", "expired")


@pytest.fixture
async def q(any_redis: AnyRedis) -> AsyncIterator[QueueByHand]:
    async with QueueByHand(any_redis.url) as opened:
        yield opened


async def is_clean(q: QueueByHand) -> bool:
    await q.settle()
    q.bury()
    return q.left() == {}


async def test_from_publication_to_burial(q: QueueByHand):
    jobs = [publication(band=n % 3, key=str(n).encode()) for n in range(9)]

    assert await q.publish(*jobs) == [("new", None)] * 9
    assert await q.publish(*jobs, publication(key=b"0")) == [("repeat", None)] * 9 + [("dup", jobs[0].job_id)]
    assert await q.run_all() == [job.job_id for band in range(3) for job in jobs[band::3]]
    assert [outcome.word for outcome in await q.settle()] == ["done"] * 9
    assert await q.publish(*jobs) == [("repeat", None)] * 9
    q.bury()

    assert q.left() == {}


async def test_every_way_back_and_every_end(q: QueueByHand):
    await q.publish(publication(key=b"k", window_ms=1))
    for word in BACK:
        delivery = await q.take_one()
        assert await q.finish(delivery, word) == "ok"
        assert await q.finish(delivery, word) == "repeat"
        await q.broker.promote("q")
    for word in ENDS:
        delivery = await q.take_one()
        assert await q.finish(delivery, word, record=b"\x00\xff\n") == "ok"
        assert await q.finish(delivery, word, record=b"\x00\xff\n") == "repeat"
        await q.publish(publication())

    words = [outcome.word for outcome in await q.outcomes()]
    assert words == ["retry", "snooze", "parked", "done", "dead", "cancelled", "expired"]
    await q.run_all()
    await eventually(lambda: is_clean(q), "nothing is left, the window neither")


async def test_a_lane_goes_on_job_by_job(q: QueueByHand):
    jobs = [publication(lane=b"lane", order=n, delay_ms=n % 2) for n in range(1, 8)]
    direct = [publication(lane=b"lane", direct=True) for _ in range(2)]

    assert await q.publish(*jobs) == [("new", None)] * 7
    assert await q.publish(*jobs) == [("repeat", None)] * 7
    assert await q.broker.enqueue_direct("q", direct) == [("new", None)] * 2
    held = await q.take()
    assert [each.job_id for each in held] == [jobs[1].job_id]
    await eventually(lambda: _is_due(q), "what was due stands in its lane")
    assert await q.finish(held[0], "retry", skips=True) == "ok"
    assert await q.run_all() == [job.job_id for job in [*jobs[:6], *direct, jobs[6]]]
    await eventually(lambda: is_clean(q), "nothing is left")


async def _is_due(q: QueueByHand) -> bool:
    await q.broker.promote("q")
    return not q.redis.exists(q.key("due"))


async def test_a_suspended_job_is_published_anew_and_keeps_its_key(q: QueueByHand):
    job, second = publication(key=b"k"), publication(key=b"k")
    await q.publish(job)
    held = await q.take_one()

    assert await q.finish(held, "suspended", delay_ms=60_000) == "ok"
    assert await q.finish(held, "suspended", delay_ms=60_000) == "repeat"
    assert await q.publish(job, second) == [("repeat", None), ("dup", job.job_id)]
    assert await q.carrier.cancel(q.fence, [(job.job_id, 0, 0), (job.job_id, 0, 1)]) == ["over", "over"]
    assert await q.carrier.cancel(q.fence, [(job.job_id, 0, 1)]) == ["unknown"]
    assert await q.carrier.audit(q.fence, [(job.job_id, 0, 0), (job.job_id, 0, 1)]) == [job.job_id]

    again = replace(job, number=2, after=1)
    assert await q.publish(again) == [("new", None)]
    assert await q.publish(again) == [("repeat", None)]
    assert await q.finish(held, "suspended", delay_ms=60_000) == "repeat"
    assert await q.publish(second) == [("dup", job.job_id)]
    next_one = await q.take_one()
    assert (next_one.number, next_one.start) == (2, 2)
    await q.finish(next_one)
    assert [(each.word, each.number) for each in await q.outcomes()] == [("suspended", 1), ("done", 2)]
    assert await q.publish(second) == [("new", None)]
    await q.run_all()
    assert await is_clean(q)


async def test_keys_of_suspended_jobs_are_restored_and_freed(q: QueueByHand):
    gone, kept, late = publication(key=b"gone"), publication(key=b"kept", window_ms=60_000), publication(key=b"gone")
    await q.carrier.adopt(q.fence, [(b"gone", gone.job_id, -1), (b"kept", kept.job_id, -1)])
    assert await q.publish(late) == [("dup", gone.job_id)]
    assert await q.broker.holder("q", "kept") == kept.job_id

    await q.carrier.free(q.fence, [(b"gone", gone.job_id, 0), (b"kept", kept.job_id, 60_000), (b"none", bytes(16), 0)])

    assert await q.publish(late, publication(key=b"kept")) == [("new", None), ("kept", kept.job_id)]
    await q.carrier.free(q.fence, [(b"gone", late.job_id, 0)])
    assert await q.broker.holder("q", "gone") == late.job_id


async def test_waiting_and_beginning(q: QueueByHand):
    await q.take()
    await q.publish(publication(), publication(band=0))
    entries: list[Entry] = []
    while len(entries) < 2:
        entries += await q.broker.wait("q", "w1", 1000)

    begun = (await q.broker.begin("q", "w1", entries, lease_ms=60_000, room=1)).deliveries
    again = (await q.broker.begin("q", "w1", entries, lease_ms=60_000, room=1)).deliveries

    assert begun == again == await q.broker.recall("q", "w1", lease_ms=60_000)
    assert len(begun) == len(await q.take("w2")) == 1


async def test_a_dead_workers_job_goes_on_and_in_the_end_dies(q: QueueByHand):
    await q.publish(publication())
    delivery = await q.take_one("w1", lease_ms=1)
    for losses in (1, 2):
        (delivery,) = await eventually(lambda: q.reclaim("w2", lease_ms=1), "its lease has ended")
        assert delivery.losses == losses
    assert q.heart.renew("q", "w1", [(delivery.job_id, delivery.entry, 1, 1)]) == {delivery.job_id: "lost"}

    async def dead() -> bool:
        assert await q.reclaim("w3", lease_ms=1) == []
        return [outcome.word for outcome in await q.outcomes()] == ["dead"]

    await eventually(dead, "it was lost for the third time")
    assert await q.finish(delivery, consumer="w2") == "lost"
    assert await is_clean(q)


async def test_due_cancelled_audited_forgotten(q: QueueByHand):
    due, waiting, running = publication(delay_ms=1), publication(), publication(band=0)
    await q.publish(running, waiting, due)
    held = await q.take_one()
    assert await q.carrier.audit(q.fence, [(job.job_id, 0, 0) for job in (due, waiting, running)]) == []
    words = await q.carrier.cancel(q.fence, [(waiting.job_id, 0, 0), (running.job_id, 0, 0), (bytes(16), 0, 0)])
    assert words == ["ended", "running", "unknown"]
    promoted = await q.broker.promote("q")
    assert promoted.cancelled == [running.job_id]
    assert await q.carrier.forget(q.fence, [due.job_id, running.job_id]) == 1
    assert await q.finish(held, "retry") == "ok"
    assert [outcome.word for outcome in await q.outcomes()] == ["cancelled", "cancelled"]
    assert await is_clean(q)
    assert await q.broker.leave("q", "w1") == 0


async def test_relays_are_fenced_and_lives_told_apart(q: QueueByHand):
    fence = q.fence
    await q.publish(publication())
    await q.open(token=2, paused=True)
    with pytest.raises(Stale):
        await q.carrier.publish(fence, [publication()])
    assert (await q.broker.take("q", "w1", 1, lease_ms=1000)).paused is True
    q.redis.flushall()
    with pytest.raises(OtherLife):
        await q.publish(publication())
    await q.open(token=2, epoch="life-2")
    await q.carrier.adopt(q.fence, [(b"k", bytes(16), 60_000)])
    assert await q.publish(publication(key=b"k")) == [("kept", bytes(16))]
    assert await q.broker.holder("q", "k") == bytes(16)


async def test_direct_jobs_and_kept_results(q: QueueByHand):
    job = publication(direct=True)
    assert await q.broker.enqueue_direct("q", [job, job]) == [("new", None), ("repeat", None)]
    assert await q.broker.queues() == {"q"}

    held = await q.take_one()
    assert await q.broker.finish("q", "w1", [builders.finish(held, record=b"r", keep_ms=60_000)]) == ["ok"]

    result = await q.broker.wait_result("q", job.job_id, 1)
    assert result is not None
    assert (result.word, result.record) == ("done", b"r")
    q.redis.delete(q.broker.keys.result("q", job.job_id))
    assert await is_clean(q)


async def test_thousands_in_one_call(q: QueueByHand):
    jobs = [publication(key=str(n).encode()) for n in range(3000)]
    await q.publish(*jobs)
    assert set(await q.publish(*jobs)) == {("repeat", None)}

    assert set(await q.carrier.cancel(q.fence, [(job.job_id, 0, 0) for job in jobs])) == {"ended"}

    assert await is_clean(q)


async def test_a_lost_group_and_a_lost_stream(q: QueueByHand):
    await q.publish(publication(), publication())
    held = await q.take_one()
    lease = (held.job_id, held.entry, held.start, held.band)
    q.redis.xgroup_destroy(q.key("ready1"), "workers")
    assert len(await q.take()) == 1
    q.redis.delete(q.key("ready1"))
    assert q.heart.renew("q", "w1", [lease]) == {}
    assert await q.finish(held) == "ok"
