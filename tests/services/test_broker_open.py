"""open, adopt and leave: who holds a queue, which life of Redis this is, and who goes."""

from __future__ import annotations

from uuid import uuid4

import pytest

from redisjobs.broker import Fence, Life, Stale
from tests.support.builders import publication
from tests.support.queue import QueueByHand


async def test_the_first_act_of_a_holder_shuts_the_former_one_out(q: QueueByHand):
    assert await q.carrier.open("q", 5, paused=False) == Life("life-1", b"0-0")
    assert await q.carrier.open("q", 5, paused=False) == Life("life-1", b"0-0")

    with pytest.raises(Stale, match="token 4 is below the fence"):
        await q.carrier.open("q", 4, paused=False)
    with pytest.raises(Stale):
        await q.carrier.adopt(Fence("q", 4, "life-2"), [])


async def test_an_emptied_redis_has_no_life_until_it_gets_a_name(q: QueueByHand):
    q.redis.flushall()

    assert (await q.carrier.open("q", 2, paused=False)).epoch == ""

    await q.carrier.adopt(Fence("q", 2, "life-2"), [])
    assert (await q.carrier.open("q", 2, paused=False)).epoch == "life-2"


async def test_windows_are_restored_and_do_not_take_a_key_from_a_living_job(q: QueueByHand):
    living, ended, ghost = publication(key=b"living"), uuid4().bytes, uuid4().bytes
    await q.publish(living)
    q.redis.hset(q.key("keys"), b"haunted", ghost)
    keys = [(b"living", ended, 60_000), (b"ended", ended, 60_000), (b"haunted", ended, 60_000), (b"over", ended, 1)]

    await q.carrier.adopt(q.fence, keys)
    before = q.dump()
    await q.carrier.adopt(q.fence, keys)

    assert q.dump() == before
    assert await q.broker.holder("q", "living") == living.job_id
    assert await q.publish(publication(key=b"ended")) == [("kept", ended)]
    assert await q.publish(publication(key=b"haunted")) == [("kept", ended)]
    assert q.redis.zscore(q.key("windows"), b"living") is None


async def test_thousands_of_windows_are_restored(q: QueueByHand):
    await q.carrier.adopt(q.fence, [(str(n).encode(), uuid4().bytes, 60_000) for n in range(5000)])

    assert q.redis.zcard(q.key("windows")) == q.redis.hlen(q.key("keys")) == 5000


async def test_a_consumer_leaves_once_it_holds_nothing(q: QueueByHand):
    await q.publish(publication(), publication(band=0))
    first, second = await q.take("w1")
    await q.take("w2")

    await q.finish(first, consumer="w1")
    assert await q.broker.leave("q", "w1") == 1
    await q.finish(second, consumer="w1")
    assert await q.broker.leave("q", "w1") == 0
    assert await q.broker.leave("q", "w1") == 0

    assert [each["name"] for each in q.redis.xinfo_consumers(q.key("ready1"), "workers")] == [b"w2"]


async def test_leaving_an_empty_redis_is_no_error(q: QueueByHand):
    assert await q.broker.leave("q", "w1") == 0
