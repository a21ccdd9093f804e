"""settled: what is in Postgres is not read again, and nothing else is touched."""

from __future__ import annotations

import pytest

from redisjobs.broker import Fence, OtherLife, Stale
from tests.support.builders import publication
from tests.support.queue import QueueByHand


async def test_outcomes_are_read_in_order_from_the_settled_position_on(q: QueueByHand):
    await q.publish(publication(), publication(), publication())
    first, second, third = await q.take()
    await q.finish(second, "retry")
    await q.finish(third)
    assert [outcome.job_id for outcome in await q.settle()] == [second.job_id, third.job_id]

    await q.finish(first)

    assert [outcome.job_id for outcome in await q.outcomes()] == [first.job_id]
    assert (await q.carrier.open("q", 1, paused=False)).settled == q.settled


async def test_settling_nothing_moves_nothing(q: QueueByHand):
    await q.publish(publication())
    await q.finish(await q.take_one())
    await q.settle()
    before = q.dump()

    await q.carrier.settled(q.fence, [])

    assert q.dump() == before


async def test_settling_again_does_not_lengthen_the_grace(q: QueueByHand):
    await q.publish(publication())
    await q.finish(await q.take_one())
    (outcome,) = await q.settle()
    before = q.dump()

    await q.carrier.settled(q.fence, [outcome.position])

    assert q.dump() == before


async def test_a_late_settled_of_the_former_life_leaves_the_next_one_alone(q: QueueByHand):
    job = publication(key=b"k")
    await q.publish(job)
    await q.finish(await q.take_one(), "dead")
    (dead,) = await q.settle()
    await q.publish(publication(job_id=job.job_id, life=1, number=2, key=b"k"))

    await q.carrier.settled(q.fence, [dead.position])
    q.bury()

    delivery = await q.take_one()
    assert (delivery.life, await q.finish(delivery)) == (1, "ok")
    await q.settle()
    q.bury()
    assert q.left() == {}


async def test_a_stale_relay_settles_nothing(q: QueueByHand):
    await q.publish(publication())
    await q.finish(await q.take_one())
    (outcome,) = await q.outcomes()
    await q.carrier.open("q", 2, paused=False)
    before = q.dump()

    with pytest.raises(Stale):
        await q.carrier.settled(q.fence, [outcome.position])
    with pytest.raises(OtherLife):
        await q.carrier.settled(Fence("q", 2, "life-0"), [outcome.position])

    assert q.dump() == before


async def test_what_no_script_wrote_is_removed_and_stops_nothing(q: QueueByHand):
    q.redis.xadd(q.key("outcomes"), {b"payload": b"\x80\x04cos\nsystem\n"})
    assert await q.outcomes() == []
    q.redis.xadd(q.key("outcomes"), {bytes(16): b"done and dusted"})
    await q.publish(publication())
    held = await q.take_one()
    await q.finish(held)

    assert [outcome.job_id for outcome in await q.settle()] == [held.job_id]

    q.bury()
    assert q.left() == {}
