"""Lost data: whatever single key, stream or whole Redis is lost, an audit later every job still ends, and ends once."""

from __future__ import annotations

from collections import Counter

import pytest

from redisjobs.broker import Delivery, Publication
from tests.support.builders import publication
from tests.support.queue import QueueByHand

KEYS = (
    "jobs",
    "runs",
    "due",
    "keys",
    "windows",
    "outcomes",
    "graves",
    "cancels",
    "lanes",
    "behind",
    "life",
    "ready0",
    "ready1",
    "ready2",
    "ready3",
    "shares",
    "ring",
)


class Rows:
    """What Postgres knows: which jobs are published and have not ended, and how each ended."""

    def __init__(self, q: QueueByHand) -> None:
        self.q = q
        self.open: dict[bytes, Publication] = {}
        self.ends: Counter[bytes] = Counter()
        self.epoch = 1

    async def publish(self, *jobs: Publication) -> None:
        self.open |= {job.job_id: job for job in jobs}
        words = await self.q.publish(*jobs)
        assert {word for word, _ in words} <= {"new", "repeat"}

    async def settle(self) -> None:
        for outcome in await self.q.settle():
            if outcome.word != "retry" and outcome.job_id in self.open:
                del self.open[outcome.job_id]
                self.ends[outcome.job_id] += 1

    async def recover(self) -> None:
        """What a relay does: look at the life, settle, audit both ways, publish what is missing."""
        life = await self.q.carrier.open("q", 1, paused=False)
        if life.epoch != self.q.fence.epoch:
            self.epoch += 1
            await self.q.open(epoch=f"life-{self.epoch}")
        await self.settle()
        missing = await self.q.carrier.audit(self.q.fence, [(job_id, 0, 0) for job_id in self.open])
        await self.publish(*[self.open[job_id] for job_id in missing])
        cursor = -1
        while cursor:
            cursor, ids = await self.q.carrier.some_jobs("q", max(cursor, 0), 1000)
            await self.q.carrier.forget(self.q.fence, [each for each in ids if each not in self.open])
        _, lanes = await self.q.carrier.some_lanes("q", 0, 1000)
        await self.q.carrier.vacate(self.q.fence, [each for each in lanes if each[1] not in self.open])


async def stage(q: QueueByHand) -> tuple[Rows, list[Delivery]]:
    """Jobs in every state: waiting in each band and share, due, retrying, running, done and settled, done and not."""
    rows = Rows(q)
    jobs = [
        publication(band=n % 3, key=str(n).encode(), window_ms=60_000 * (n % 2), share=(b"", b"a", b"b")[n // 4])
        for n in range(12)
    ]
    jobs += [publication(lane=b"lane", order=order, band=0) for order in range(1, 4)]
    await rows.publish(*jobs)
    await q.take("w1", 6)
    running = await q.broker.recall("q", "w1", lease_ms=30_000)
    await q.finish(running[0])
    await rows.settle()
    await q.finish(running[1])
    await q.finish(running[2], "retry", delay_ms=1)
    await rows.publish(publication(key=b"later", delay_ms=1), publication(key=b"with attempts", attempts=2))
    return rows, running[3:]


async def to_the_end(q: QueueByHand, rows: Rows, running: list[Delivery]) -> None:
    await rows.recover()
    for delivery in running:
        await q.finish(delivery)
    for _ in range(6):
        await q.run_all()
        await q.reclaim("runner", lease_ms=1)
        for delivery in await q.broker.recall("q", "runner", lease_ms=30_000):
            assert await q.finish(delivery, consumer="runner") == "ok"
        await rows.recover()
    assert rows.open == {}
    assert len(rows.ends) == 17
    assert set(rows.ends.values()) == {1}
    await q.broker.promote("q")
    q.bury()
    q.redis.zadd(q.key("windows"), dict.fromkeys(q.redis.zrange(q.key("windows"), 0, -1), 1))
    q.bury()
    q.script("bury", 1000, 0)
    left = q.left()
    if q.key("keys") in left:  # owners without a job: any new job with such a key gets it
        for key in left.pop(q.key("keys")):
            assert await q.broker.holder("q", key.decode()) is None
    assert left == {}


@pytest.mark.parametrize("lost", KEYS)
async def test_every_job_ends_once_though_a_key_is_lost(q: QueueByHand, lost: str):
    rows, running = await stage(q)
    q.redis.delete(q.key(lost))

    await to_the_end(q, rows, running)


@pytest.mark.parametrize("stream", ["ready0", "ready1", "ready2", "ready3"])
async def test_every_job_ends_once_though_a_stream_is_trimmed(q: QueueByHand, stream: str):
    rows, running = await stage(q)
    q.redis.xtrim(q.key(stream), maxlen=0, approximate=False)

    await to_the_end(q, rows, running)


async def test_every_job_ends_once_though_all_is_lost(q: QueueByHand):
    rows, running = await stage(q)
    q.redis.flushall()

    await to_the_end(q, rows, running)


async def test_nothing_fails_on_an_empty_redis(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()
    lease = (held.job_id, held.entry, held.start, held.band)

    async def empty() -> QueueByHand:
        q.redis.flushall()
        return q

    assert (await (await empty()).broker.promote("q")).moved == 0
    assert await (await empty()).reclaim() == []
    assert await (await empty()).broker.recall("q", "w1", lease_ms=1000) == []
    assert (await empty()).heart.renew("q", "w1", [lease]) == {held.job_id: "lost"}
    assert await (await empty()).finish(held) == "gone"
    assert await (await empty()).broker.wait("q", "w1", 1000) == []
    assert await (await empty()).take() == []
    assert await (await empty()).broker.leave("q", "w1") == 0
    assert await (await empty()).outcomes() == []
    assert await (await empty()).broker.holder("q", "k") is None
    assert q.redis.keys("*") == []


async def test_what_was_published_before_any_worker_came_back_runs(q: QueueByHand):
    await q.publish(*[publication() for _ in range(100)])
    await q.take(count=10)
    q.redis.flushall()
    await q.open(epoch="life-2")

    await q.publish(*[publication() for _ in range(50)])

    assert len(await q.run_all()) == 50


async def test_what_was_trimmed_while_it_ran_may_still_finish(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()
    q.redis.xtrim(q.key("ready1"), maxlen=0, approximate=False)

    assert q.heart.renew("q", "w1", [(held.job_id, held.entry, held.start, held.band)]) == {}
    assert await q.finish(held) == "ok"
    assert [outcome.word for outcome in await q.outcomes()] == ["done"]
