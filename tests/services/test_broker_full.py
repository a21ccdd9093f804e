"""A full Redis with noeviction: nothing new gets in, and everything that ends work still goes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from redisjobs.errors import BrokerUnavailable
from tests.support.builders import publication
from tests.support.queue import QueueByHand
from tests.support.redis_versions import AnyRedis


@pytest.fixture
async def full(any_real_redis: AnyRedis) -> AsyncIterator[QueueByHand]:
    """A queue with jobs of every kind; `fill` makes its Redis full."""
    async with QueueByHand(any_real_redis.url) as opened:
        yield opened
        opened.redis.config_set("maxmemory", 0)


def fill(q: QueueByHand) -> None:
    """From now on Redis has more than it may have."""
    q.redis.config_set("maxmemory-policy", "noeviction")
    q.redis.config_set("maxmemory", q.redis.info("memory")["used_memory"] // 2)


async def test_publish_is_refused_whole_and_nothing_is_written(full: QueueByHand):
    known, running = publication(), publication(key=b"k")
    await full.publish(running, known)
    await full.take_one()
    fill(full)
    before = full.dump()

    for jobs in ([publication()], [known, publication(key=b"k"), publication(key=b"a", attempts=1)]):
        with pytest.raises(BrokerUnavailable, match="maxmemory"):
            await full.publish(*jobs)
        with pytest.raises(BrokerUnavailable, match="maxmemory"):
            await full.broker.enqueue_direct("q", jobs)
    assert full.dump() == before

    full.redis.config_set("maxmemory", 0)
    assert await full.publish(publication()) == [("new", None)]


async def test_work_that_is_there_comes_to_its_end(full: QueueByHand):
    jobs = [publication(key=str(n).encode(), window_ms=1000) for n in range(6)]
    await full.publish(*jobs, publication(delay_ms=1), publication(direct=True))
    held, later, lapsed, handed_back = await full.take(count=4, lease_ms=1)
    full.redis.xgroup_create(full.key("ready2"), "workers", "0", mkstream=True)
    fill(full)

    lease = (held.job_id, held.entry, held.start, held.band)
    assert full.heart.renew("q", "w1", [lease]) == {}
    assert await full.finish(held, record=b"x" * 10_000, keep_ms=1000) == "ok"
    assert await full.finish(later, "retry") == "ok"
    assert await full.finish(handed_back, "released") == "ok"
    assert await full.carrier.cancel(full.fence, [(jobs[4].job_id, 0, 0), (lapsed.job_id, 0, 0)]) == [
        "ended",
        "running",
    ]
    assert (await full.broker.promote("q")).moved >= 1
    (entry,) = await full.broker.wait("q", "w2", 1000)
    assert len((await full.broker.begin("q", "w2", [entry], lease_ms=60_000)).deliveries) == 1
    assert len(await full.broker.recall("q", "w2", lease_ms=60_000)) == 1
    assert len(await full.take("w2")) == 4
    assert len(await full.settle()) == 3
    assert full.bury() > 0


async def test_a_new_relay_can_open_adopt_and_clear_a_full_queue(full: QueueByHand):
    await full.publish(publication(key=b"k"), publication())
    await full.finish(await full.take_one())
    fill(full)

    await full.open(token=2, epoch="life-2")
    await full.carrier.adopt(full.fence, [(b"window", bytes(16), 1000)])
    (waiting,) = [entry for _, entry in full.redis.xrange(full.key("ready1"))]

    assert len(await full.settle()) == 1
    assert await full.carrier.audit(full.fence, [(waiting[b"j"], 0, 0)]) == []
    assert await full.carrier.forget(full.fence, [waiting[b"j"]]) == 1
    assert full.bury() == 1


async def test_orphans_are_taken_over_or_die(full: QueueByHand):
    await full.publish(publication(), publication())
    await full.take("dead", lease_ms=1)
    entries = [entry for entry, _ in full.redis.xrange(full.key("ready1"))]
    full.redis.xclaim(full.key("ready1"), "workers", "dead", 0, entries, idle=99_999)
    fill(full)

    assert len(await full.reclaim("w2", 1, lease_ms=1000)) == 1
    assert await full.reclaim("w2", 1, lease_ms=1000, losses=1) == []
    assert [outcome.word for outcome in await full.outcomes()] == ["dead"]
