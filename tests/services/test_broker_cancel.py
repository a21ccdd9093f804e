"""cancel: what waits ends at once, what runs is flagged, and each has one end."""

from __future__ import annotations

from uuid import uuid4

import pytest

from redisjobs.broker import Fence, OtherLife, Stale, Word
from tests.support.builders import publication
from tests.support.queue import QueueByHand


async def test_a_waiting_job_ends_and_never_starts(q: QueueByHand):
    waiting, later = publication(key=b"a"), publication(key=b"b", delay_ms=60_000)
    await q.publish(waiting, later)

    words = await q.carrier.cancel(q.fence, [(waiting.job_id, 0, 0), (later.job_id, 0, 0)])

    assert words == ["ended", "ended"]
    assert await q.take() == []
    assert [outcome.word for outcome in await q.outcomes()] == ["cancelled", "cancelled"]
    await q.settle()
    q.bury()
    assert q.left() == {}


async def test_an_entry_that_was_read_but_not_begun_ends_too(q: QueueByHand):
    await q.take()
    await q.publish(publication())
    (entry,) = await q.broker.wait("q", "w1", 1000)

    assert await q.carrier.cancel(q.fence, [(entry.job_id, 0, 0)]) == ["ended"]

    assert (await q.broker.begin("q", "w1", [entry], lease_ms=1000)).deliveries == []
    assert q.redis.xpending_range(q.key("ready1"), "workers", "-", "+", 9) == []


async def test_a_running_job_is_flagged_and_ends_with_its_attempt(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()

    assert await q.carrier.cancel(q.fence, [(held.job_id, 0, 0)]) == ["running"]
    before = q.dump()
    assert await q.carrier.cancel(q.fence, [(held.job_id, 0, 0)]) == ["running"]

    assert q.dump() == before
    assert await q.finish(held, "cancelled") == "ok"
    assert await q.carrier.cancel(q.fence, [(held.job_id, 0, 0)]) == ["over"]


@pytest.mark.parametrize("word", ["released", "retry", "snooze"])
async def test_whose_finish_was_accepted_before_is_told_so_after_the_cancel_too(q: QueueByHand, word: Word):
    await q.publish(publication())
    held = await q.take_one()
    assert await q.finish(held, word, delay_ms=60_000) == "ok"
    assert await q.carrier.cancel(q.fence, [(held.job_id, 0, 0)]) == ["ended"]

    assert await q.finish(held, word, delay_ms=60_000) == "repeat"
    assert await q.finish(held, word, consumer="w2") == "lost"
    assert [outcome.word for outcome in await q.outcomes()][-1] == "cancelled"


async def test_an_ended_job_is_over_and_one_without_a_place_unknown(q: QueueByHand):
    await q.publish(publication(), publication())
    done, trimmed = await q.take()
    await q.finish(done)
    q.redis.xdel(q.key("ready1"), trimmed.entry)

    words = await q.carrier.cancel(q.fence, [(done.job_id, 0, 0), (trimmed.job_id, 0, 0), (uuid4().bytes, 0, 0)])

    assert words == ["over", "unknown", "unknown"]


async def test_the_same_job_twice_in_one_call_has_one_end(q: QueueByHand):
    job = publication()
    await q.publish(job)

    assert await q.carrier.cancel(q.fence, [(job.job_id, 0, 0), (job.job_id, 0, 0)]) == ["ended", "ended"]

    (entry,) = q.redis.execute_command("XRANGE", q.key("outcomes"), "-", "+")
    assert len(entry[1]) == 1
    assert await q.carrier.cancel(q.fence, [(job.job_id, 0, 0)]) == ["over"]


async def test_the_former_life_of_a_redriven_job_does_not_answer_for_it(q: QueueByHand):
    dead, running = publication(), publication()
    await q.publish(dead)
    await q.finish(await q.take_one(), "dead")
    await q.publish(running)
    former = await q.take_one()

    assert await q.carrier.cancel(q.fence, [(dead.job_id, 1, 0), (running.job_id, 1, 0)]) == ["unknown", "unknown"]

    assert await q.finish(former) == "gone"


async def test_thousands_are_cancelled_in_one_call(q: QueueByHand):
    jobs = [publication(key=str(n).encode()) for n in range(5000)]
    assert set(await q.publish(*jobs)) == {("new", None)}

    words = await q.carrier.cancel(q.fence, [(job.job_id, 0, 0) for job in jobs])

    assert words == ["ended"] * 5000
    assert len(await q.settle()) == 5000
    q.bury()
    assert q.left() == {}


async def test_a_stale_relay_cancels_nothing(q: QueueByHand):
    job = publication()
    await q.publish(job)
    await q.carrier.open("q", 2, paused=False)
    before = q.dump()

    with pytest.raises(Stale):
        await q.carrier.cancel(q.fence, [(job.job_id, 0, 0)])
    with pytest.raises(OtherLife):
        await q.carrier.cancel(Fence("q", 2, "life-0"), [(job.job_id, 0, 0)])

    assert q.dump() == before
