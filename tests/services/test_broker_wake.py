"""limited and wake: a job that found a limit full waits apart, and comes back to the front."""

from __future__ import annotations

import pytest

from tests.support.builders import publication
from tests.support.eventually import eventually
from tests.support.queue import QueueByHand

HOUR_MS = 3_600_000


async def test_what_waits_for_a_limit_is_placed_untold_and_uncounted(q: QueueByHand):
    job = publication(attempts=1)
    await q.publish(job)

    assert await q.finish(await q.take_one(), "limited", delay_ms=HOUR_MS, counted=False) == "ok"

    assert await q.outcomes() == []
    assert q.depths() == [0, 0, 0, 0]
    assert await q.publish(job) == [("repeat", None)]
    assert await q.carrier.audit(q.fence, [(job.job_id, 0, 0)]) == []
    promoted = await q.broker.promote("q")
    assert promoted.next_due_ms is not None
    assert HOUR_MS - 60_000 < promoted.next_due_ms <= HOUR_MS
    assert await q.broker.wake("q", [(job.job_id, 0)]) == ["woken"]
    again = await q.take_one()
    assert (again.attempts, again.losses) == (1, 0)


@pytest.mark.parametrize("band", [0, 1, 2])
async def test_the_woken_go_before_all_bands_and_keep_their_own(q: QueueByHand, band: int):
    first, *others = [publication(band=band), *(publication(band=each) for each in (0, 1, 2))]
    await q.publish(first)
    held = await q.take_one()
    await q.publish(*others)
    await q.finish(held, "limited", delay_ms=HOUR_MS, counted=False)

    assert await q.broker.wake("q", [(first.job_id, 0)]) == ["woken"]
    assert q.depths() == [1, 1, 1, 1]
    woken = await q.take_one()
    assert (woken.job_id, woken.band) == (first.job_id, 3)
    assert q.heart.renew("q", "w1", [(woken.job_id, woken.entry, woken.start, woken.band)]) == {}

    await q.finish(woken, "retry")
    assert q.depths() == [1, 1, 1, 0]
    await q.broker.promote("q")
    assert [q.redis.xlen(q.key(f"ready{each}")) for each in range(4)][band] == 2
    assert len(await q.run_all()) == 4
    await q.settle()
    q.bury()
    assert q.left() == {}


async def test_a_wake_that_comes_before_the_job_was_given_back_is_not_lost(q: QueueByHand):
    job = publication()
    await q.publish(job)
    held = await q.take_one()

    assert await q.broker.wake("q", [(job.job_id, 0)]) == ["held"]
    assert await q.finish(held, "limited", delay_ms=HOUR_MS, counted=False) == "ok"

    again = await q.take_one()
    assert (again.job_id, again.band) == (job.job_id, 3)
    await q.finish(again, "limited", delay_ms=HOUR_MS, counted=False)
    assert await q.take() == [], "it was woken once"


async def test_a_wake_may_be_repeated_and_tells_where_the_job_is(q: QueueByHand):
    job, ended, due = publication(), publication(), publication(delay_ms=60_000)
    await q.publish(job, ended, due)
    held, over = await q.take()
    await q.finish(over)
    await q.finish(held, "limited", delay_ms=HOUR_MS, counted=False)
    asked = [(job.job_id, 0), (ended.job_id, 0), (due.job_id, 0), (bytes(16), 0)]

    assert await q.broker.wake("q", asked) == ["woken", "gone", "gone", "gone"]
    assert await q.broker.wake("q", asked) == ["ready", "gone", "gone", "gone"]
    assert len(await q.take()) == 1


async def test_a_wake_for_later_moves_the_time_at_which_it_comes(q: QueueByHand):
    job = publication()
    await q.publish(job)
    await q.finish(await q.take_one(), "limited", delay_ms=HOUR_MS, counted=False)

    assert await q.broker.wake("q", [(job.job_id, 60_000)]) == ["woken"]
    assert 30_000 < ((await q.broker.promote("q")).next_due_ms or 0) <= 60_000
    assert await q.broker.wake("q", [(job.job_id, 1)]) == ["woken"]
    while not (await q.broker.promote("q")).moved:
        pass
    assert (await q.take_one()).band == 3, "it has waited, and goes to the front"


async def test_who_only_ever_finds_a_limit_full_still_dies_of_its_lost_leases(q: QueueByHand):
    job = publication()
    await q.publish(job)
    await q.take_one(lease_ms=1)
    (again,) = await eventually(q.reclaim, "the lease has lapsed")
    assert again.losses == 1

    await q.finish(again, "limited", consumer="w2", delay_ms=HOUR_MS, counted=False)
    await q.broker.wake("q", [(job.job_id, 0)])

    assert (await q.take_one()).losses == 1


async def test_a_cancel_ends_who_waits_for_a_limit(q: QueueByHand):
    job = publication()
    await q.publish(job)
    await q.finish(await q.take_one(), "limited", delay_ms=HOUR_MS, counted=False)

    assert await q.carrier.cancel(q.fence, [(job.job_id, 0, 0)]) == ["ended"]
    assert await q.broker.wake("q", [(job.job_id, 0)]) == ["gone"]


async def test_a_job_with_extras_keeps_its_key_and_its_envelope(q: QueueByHand):
    job = publication(key=b"k 1\n", window_ms=5000, lane=b"lane", share=b"share")
    other = publication(key=b"k 1\n")
    await q.publish(job)

    assert await q.publish(other) == [("dup", job.job_id)]
    held = await q.take_one()
    assert held.body == job.envelope
    assert await q.finish(held) == "ok"
    assert await q.publish(other) == [("kept", job.job_id)]
