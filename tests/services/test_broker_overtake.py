"""overtake: a holder takes a token above the one that Postgres has seen (the equal token of another, a failover)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redisjobs.broker import Delivery
from tests.support.builders import publication
from tests.support.eventually import eventually
from tests.support.queue import QueueByHand


async def overtake(
    q: QueueByHand, held: Delivery, fence: tuple[int, int], consumer: str = "w1"
) -> tuple[int, int] | None:
    return await q.broker.overtake(consumer, held, fence)


@pytest.mark.parametrize("fence", [(1, 1), (1, 9), (3, 0), (3, 7)])
async def test_the_new_token_is_above_the_other_and_above_its_own(q: QueueByHand, fence: tuple[int, int]):
    await q.publish(publication())
    held = await q.take_one()

    higher = await overtake(q, held, fence)

    assert higher is not None
    assert higher > fence
    assert higher > (held.number, held.start)
    assert higher[1] > held.start


async def test_the_new_token_is_the_only_one_that_counts_from_now_on(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()
    higher = await overtake(q, held, (4, 7))
    assert higher is not None
    number, start = higher
    assert higher == (4, 8)

    assert q.heart.renew("q", "w1", [(held.job_id, held.entry, held.start, held.band)]) == {held.job_id: "lost"}
    assert await q.finish(held) == "lost"
    assert q.heart.renew("q", "w1", [(held.job_id, held.entry, start, held.band)]) == {}
    assert await q.finish(replace(held, number=number, start=start)) == "ok"
    (outcome,) = await q.outcomes()
    assert (outcome.word, outcome.number) == ("done", 4)


async def test_the_next_start_is_above_it_too(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()
    higher = await overtake(q, held, (1, 7))
    assert higher is not None
    await q.finish(replace(held, start=higher[1]), "released")

    again = await q.take_one("w2")

    assert (again.number, again.start) > higher


async def test_the_same_call_again_is_answered_the_same(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()
    first = await overtake(q, held, (2, 7))
    before = q.dump()

    assert await overtake(q, held, (2, 7)) == first
    assert q.dump() == before


async def test_who_is_not_the_holder_gets_none(q: QueueByHand):
    await q.publish(publication(), publication())
    held, ended = await q.take()
    await q.finish(ended)
    before = q.dump()

    assert await overtake(q, held, (1, 5), consumer="w2") is None
    assert await overtake(q, replace(held, entry=b"1-1"), (1, 5)) is None
    assert await overtake(q, replace(held, entry=b"-"), (1, 5)) is None
    assert await overtake(q, replace(held, start=held.start + 1), (1, 5)) is None
    assert await overtake(q, replace(held, job_id=bytes(16)), (1, 5)) is None
    assert await overtake(q, ended, (1, 5)) is None
    assert q.dump() == before


async def test_a_replaced_holder_gets_none_even_when_the_next_one_is_itself(q: QueueByHand):
    await q.publish(publication())
    old = await q.take_one(lease_ms=1)
    (new,) = await eventually(lambda: q.reclaim("w1"), "its lease has ended")
    assert new.start == old.start + 1

    for fence in [(1, 0), (1, old.start), (1, new.start), (1, 9)]:
        assert await overtake(q, old, fence) is None
    assert await q.finish(new) == "ok"


async def test_of_two_with_the_same_token_only_the_holder_gets_a_higher_one(q: QueueByHand):
    """A failover lost that w1 had begun it; w2 began it under the same token."""
    await q.publish(publication())
    forgotten = await q.take_one("w1")
    q.redis.hset(q.key("runs"), forgotten.job_id, b"1 0 0 w2 " + forgotten.entry + b" 30000 -")

    assert await overtake(q, forgotten, (1, 1), consumer="w1") is None
    assert await overtake(q, forgotten, (1, 1), consumer="w2") == (1, 3)


async def test_what_is_behind_a_progress_report_stays(q: QueueByHand):
    await q.publish(publication(key=b"k", window_ms=5))
    held = await q.take_one()
    q.script("progress", "w1", held.job_id, held.entry, held.start, "{}")

    await overtake(q, held, (1, 5))

    assert b"\n" in q.redis.hget(q.key("runs"), held.job_id)
    assert (await q.broker.recall("q", "w1", lease_ms=1000))[0].body == held.body
