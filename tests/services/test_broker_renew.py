"""renew: a heartbeat keeps a lease, and says when it is gone."""

from __future__ import annotations

from uuid import uuid4

import pytest

from redisjobs.broker import Delivery
from tests.support.builders import publication
from tests.support.queue import QueueByHand


def lease(delivery: Delivery) -> tuple[bytes, bytes, int, int]:
    return delivery.job_id, delivery.entry, delivery.start, delivery.band


async def test_a_renewed_lease_is_not_reclaimed(q: QueueByHand):
    await q.publish(publication(band=2))
    delivery = await q.take_one(lease_ms=60_000)
    q.redis.xclaim(q.key("ready2"), "workers", "w1", 0, [delivery.entry], idle=59_000, justid=True)

    def idle() -> int:
        return int(q.redis.xpending_range(q.key("ready2"), "workers", "-", "+", 1)[0]["time_since_delivered"])

    assert idle() >= 59_000
    assert q.heart.renew("q", "w1", [lease(delivery)]) == {}
    assert idle() < 59_000


async def test_every_other_token_is_lost(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()
    job_id, entry, start, band = lease(held)

    assert q.heart.renew("q", "w2", [lease(held)]) == {job_id: "lost"}
    assert q.heart.renew("q", "w1", [(job_id, entry, start + 1, band)]) == {job_id: "lost"}
    assert q.heart.renew("q", "w1", [(job_id, b"1-1", start, band)]) == {job_id: "lost"}
    unknown = uuid4().bytes
    assert q.heart.renew("q", "w1", [(unknown, entry, start, band), lease(held)]) == {unknown: "lost"}
    assert q.heart.renew("q", "w1", []) == {}


async def test_an_ended_attempt_is_lost(q: QueueByHand):
    await q.publish(publication(), publication())
    done, later = await q.take()
    await q.finish(done)
    await q.finish(later, "retry", delay_ms=60_000)

    assert q.heart.renew("q", "w1", [lease(done), lease(later)]) == {done.job_id: "lost", later.job_id: "lost"}


async def test_a_cancel_is_told_and_the_lease_goes_on(q: QueueByHand):
    await q.publish(publication(), publication())
    first, second = await q.take()
    assert await q.carrier.cancel(q.fence, [(first.job_id, 0, 0)]) == ["running"]

    assert q.heart.renew("q", "w1", [lease(first), lease(second)]) == {first.job_id: "cancelled"}
    assert await q.finish(first) == "ok"


@pytest.mark.parametrize("name", ["ready0", "ready1", "ready2", "ready3"])
async def test_a_lost_stream_does_not_stop_the_heartbeat_of_the_others(q: QueueByHand, name: str):
    await q.publish(*[publication(band=band) for band in (0, 1, 2)])
    held = await q.take()
    q.redis.delete(q.key(name))

    assert q.heart.renew("q", "w1", [lease(each) for each in held]) == {}
    assert [await q.finish(each) for each in held] == ["ok"] * 3


async def test_thousands_of_leases_are_renewed(q: QueueByHand):
    await q.publish(*[publication(band=n % 3) for n in range(3000)])
    held = [each for _ in range(6) for each in await q.take(count=500)]
    assert len(held) == 3000

    assert q.script("renew", "w1", *[value for each in held for value in lease(each)]) == []
