"""audit and forget: both stores know the same jobs, and a job is known where it is placed."""

from __future__ import annotations

from uuid import uuid4

import pytest

from redisjobs.broker import Fence, OtherLife, Stale
from tests.support.builders import publication
from tests.support.eventually import eventually
from tests.support.queue import QueueByHand


async def test_what_waits_runs_or_has_just_ended_is_not_missing(q: QueueByHand):
    jobs = [publication(), publication(), publication(), publication(delay_ms=60_000)]
    await q.publish(*jobs)
    await q.finish(await q.take_one())
    await q.take_one()

    assert await q.carrier.audit(q.fence, [(job.job_id, 0, 0) for job in jobs]) == []


async def test_what_is_nowhere_or_in_another_life_is_missing(q: QueueByHand):
    unknown, former = uuid4().bytes, publication()
    await q.publish(former)

    assert await q.carrier.audit(q.fence, [(unknown, 0, 0), (former.job_id, 1, 0)]) == [unknown, former.job_id]


@pytest.mark.parametrize("lost", ["jobs", "due", "outcomes", "ready1"])
async def test_a_job_whose_place_is_lost_is_missing(q: QueueByHand, lost: str):
    ended, waiting, later = publication(), publication(), publication(delay_ms=60_000)
    await q.publish(ended)
    await q.finish(await q.take_one())
    await q.publish(waiting, later)
    q.redis.delete(q.key(lost))
    expected = {"due": [later], "outcomes": [ended], "ready1": [waiting]}.get(lost, [ended, waiting, later])

    missing = await q.carrier.audit(q.fence, [(job.job_id, 0, 0) for job in (ended, waiting, later)])

    assert missing == [job.job_id for job in expected]


async def test_thousands_are_audited_and_forgotten_in_one_call(q: QueueByHand):
    jobs = [publication(key=str(n).encode()) for n in range(9000)]
    await q.publish(*jobs[:4500])

    missing = await q.carrier.audit(q.fence, [(job.job_id, 0, 0) for job in jobs])
    assert missing == [job.job_id for job in jobs[4500:]]

    assert await q.carrier.forget(q.fence, [job.job_id for job in jobs]) == 9000
    assert q.left() == {}


async def test_a_ghost_goes_with_its_entry_its_key_and_its_times(q: QueueByHand):
    jobs = [publication(key=b"a"), publication(key=b"b", delay_ms=60_000, attempts=2), publication(key=b"c")]
    await q.publish(*jobs)
    await q.take()
    await q.finish((await q.broker.recall("q", "w1", lease_ms=60_000))[0], "retry", delay_ms=60_000)
    held = (await q.broker.recall("q", "w1", lease_ms=60_000))[0]

    assert await q.carrier.forget(q.fence, [job.job_id for job in jobs]) == 2

    assert set(q.left()[q.key("jobs")]) == {held.job_id}
    assert await q.finish(held) == "ok"
    assert await q.carrier.forget(q.fence, [held.job_id]) == 0  # its outcome is under way
    await q.settle()
    q.bury()
    assert q.left() == {}


async def test_a_held_ghost_is_forgotten_once_its_lease_has_ended_or_its_stream_is_lost(q: QueueByHand):
    await q.publish(publication(), publication(band=0))
    lapsed = await q.take("w1", 2, lease_ms=60_000)
    assert await q.carrier.forget(q.fence, [each.job_id for each in lapsed]) == 0
    q.redis.delete(q.key("ready0"))
    q.redis.xclaim(q.key("ready1"), "workers", "w1", 0, [lapsed[1].entry], idle=60_001)

    assert await q.carrier.forget(q.fence, [each.job_id for each in lapsed]) == 2

    assert await q.finish(lapsed[0]) == "gone"
    assert q.left() == {}


async def test_direct_jobs_are_nobodys_ghosts(q: QueueByHand):
    job = publication(direct=True)
    await q.broker.enqueue_direct("q", [job])

    assert await q.carrier.forget(q.fence, [job.job_id]) == 0
    assert (await q.take_one()).job_id == job.job_id


async def test_a_record_that_nobody_can_read_is_forgotten(q: QueueByHand):
    garbage = {uuid4().bytes: text for text in (b"", b"!", b"! 1-1", b"1-1 0 1 0 - 7 0 0\n", bytes(range(256)))}
    q.redis.hset(q.key("jobs"), mapping=garbage)

    assert await q.carrier.audit(q.fence, [(each, 0, 0) for each in garbage]) == list(garbage)
    assert await q.carrier.forget(q.fence, list(garbage)) == 5
    assert q.left() == {}


async def test_some_jobs_walks_over_all_that_redis_knows(q: QueueByHand):
    jobs = [publication() for _ in range(700)]
    await q.publish(*jobs)
    leftovers = {uuid4().bytes: b"1 0 0 - - 0 -" for _ in range(700)}
    q.redis.hset(q.key("runs"), mapping=leftovers)
    found: set[bytes] = set()

    cursor, ids = await q.carrier.some_jobs("q", 0, 100)
    while cursor:
        found.update(ids)
        cursor, ids = await q.carrier.some_jobs("q", cursor, 100)
    found.update(ids)

    assert found == {job.job_id for job in jobs} | set(leftovers)
    await q.carrier.forget(q.fence, list(found))
    assert q.left() == {}


async def test_a_lapsed_lease_that_nobody_knows_leaves_no_run_behind(q: QueueByHand):
    await q.publish(publication())
    await q.take_one(lease_ms=1)
    q.redis.delete(q.key("jobs"))

    async def is_clean() -> bool:
        await q.reclaim()
        _, ids = await q.carrier.some_jobs("q", 1, 100)
        await q.carrier.forget(q.fence, ids)
        return q.left() == {}

    await eventually(is_clean, "nothing is left")


async def test_a_stale_relay_forgets_nothing(q: QueueByHand):
    job = publication()
    await q.publish(job)
    await q.carrier.open("q", 2, paused=False)

    for call in (q.carrier.audit(q.fence, [(job.job_id, 0, 0)]), q.carrier.forget(q.fence, [job.job_id])):
        with pytest.raises(Stale):
            await call
    other = Fence("q", 2, "life-0")
    for call in (q.carrier.audit(other, [(job.job_id, 0, 0)]), q.carrier.forget(other, [job.job_id])):
        with pytest.raises(OtherLife):
            await call
    assert len(await q.take()) == 1
