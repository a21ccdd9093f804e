"""Keys with a policy, in Redis: throttle, debounce and replace are decided when a job is placed, and only once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgpack
import pytest

from redisjobs.broker import Publication, policy_text
from tests.support.builders import publication
from tests.support.queue import QueueByHand

MINUTE = 60_000
KEY = b"sync:7"


def throttled(**given: Any) -> Publication:
    return publication(key=KEY, policy=policy_text("throttle", window_ms=MINUTE), **given)


def debounced(order: int | None, *, wait_ms: int = MINUTE, longest_ms: int | None = None, **given: Any) -> Publication:
    text = policy_text("debounce", wait_ms=wait_ms, longest_ms=longest_ms, order=order)
    return publication(key=KEY, policy=text, **given)


def replacing(order: int | None, **given: Any) -> Publication:
    return publication(key=KEY, policy=policy_text("replace", order=order), **given)


async def end_in(q: QueueByHand, job: Publication) -> float:
    """Seconds until a job is due."""
    seconds, micros = q.redis.time()
    due: float = q.redis.zscore(q.key("due"), job.job_id)
    return due / 1000 - int(seconds) - int(micros) / 1e6


def let_pass(q: QueueByHand, ms: int) -> None:
    """Everything with a time in Redis is so much nearer."""
    for name in ("due", "windows"):
        for member in q.redis.zrange(q.key(name), 0, -1):
            q.redis.zincrby(q.key(name), -ms, member)


# -- throttle
async def test_within_the_period_the_first_has_the_key_also_after_its_end(q: QueueByHand):
    first, second, third = throttled(), throttled(), throttled()
    assert await q.publish(first, second) == [("new", None), ("kept", first.job_id)]

    await q.finish(await q.take_one())
    assert await q.publish(third) == [("kept", first.job_id)]

    let_pass(q, MINUTE)
    assert await q.publish(third) == [("new", None)]


async def test_when_the_period_is_over_the_next_one_runs_beside_the_first(q: QueueByHand):
    first, second, third = throttled(), throttled(), throttled()
    await q.publish(first)
    held = await q.take_one()
    let_pass(q, MINUTE)

    assert await q.publish(second) == [("new", None)]
    assert await q.finish(held) == "ok"

    assert await q.publish(third) == [("kept", second.job_id)]


async def test_a_period_begins_when_a_delayed_first_is_due(q: QueueByHand):
    first, second = throttled(delay_ms=MINUTE), throttled()
    await q.publish(first)
    let_pass(q, MINUTE + 1)

    assert await q.publish(second) == [("kept", first.job_id)]


async def test_after_a_loss_a_period_has_what_was_left_of_it(q: QueueByHand):
    left = publication(key=KEY, policy=policy_text("throttle", window_ms=MINUTE, since_ms=MINUTE - 1000))
    over = publication(key=KEY, policy=policy_text("throttle", window_ms=MINUTE, since_ms=MINUTE + 1))

    assert await q.publish(over, left, throttled()) == [("new", None), ("new", None), ("kept", left.job_id)]

    let_pass(q, 1000)
    assert await q.publish(throttled()) == [("new", None)]


@pytest.mark.parametrize("word", ["done", "cancelled", "dead", "suspended"])
async def test_a_throttle_leaves_nothing_behind(q: QueueByHand, word: Any):
    await q.publish(throttled())
    await q.finish(await q.take_one(), word)
    await q.settle()
    let_pass(q, MINUTE)

    q.bury()

    assert q.left() == {}


async def test_a_throttled_run_that_goes_on_touches_no_key(q: QueueByHand):
    first = throttled()
    await q.publish(first)
    await q.finish(await q.take_one(), "suspended", delay_ms=0)
    let_pass(q, MINUTE)
    second = throttled()
    await q.publish(second)

    again = publication(key=KEY, policy=first.policy, after=1, number=2, job_id=first.job_id)
    assert await q.publish(again) == [("new", None)]

    assert await q.broker.holder("q", KEY.decode()) == second.job_id


# -- debounce
async def test_the_last_of_a_burst_runs_and_those_before_it_end_as_its_duplicates(q: QueueByHand):
    first, second, third = (debounced(n) for n in range(1, 4))
    assert await q.publish(first, second) == [("new", None)] * 2
    assert await q.publish(third) == [("new", None)]

    await q.broker.promote("q")
    assert await q.take() == []
    assert 45 < await end_in(q, third) <= 60
    told = {each.job_id: (each.word, msgpack.unpackb(each.record)) for each in await q.settle()}
    why = {"why": "a later call of its burst took its place"}
    assert told == {
        first.job_id: ("deduplicated", {"by": second.job_id} | why),
        second.job_id: ("deduplicated", {"by": third.job_id} | why),
    }
    let_pass(q, MINUTE)
    assert await q.run_all() == [third.job_id]


async def test_a_burst_ends_at_the_longest_after_its_first_call(q: QueueByHand):
    jobs = [debounced(n, longest_ms=2 * MINUTE) for n in range(1, 5)]
    for job in jobs[:3]:
        await q.publish(job)
        let_pass(q, MINUTE // 2)
    # the end of the burst is a time of Redis in its record, so here it is as far away as at first
    assert 45 < await end_in(q, jobs[2]) + 30 <= 60

    shorter = debounced(9, longest_ms=10_000)
    await q.publish(shorter)
    await q.publish(debounced(10, longest_ms=2 * MINUTE))
    [job_id] = q.redis.zrange(q.key("due"), 0, -1)
    assert q.redis.zscore(q.key("due"), job_id) - 1000 * q.redis.time()[0] <= 11_000


async def test_what_has_begun_goes_on_and_the_next_waits_for_itself(q: QueueByHand):
    first, second, third = debounced(1, wait_ms=1), debounced(2), debounced(3)
    await q.publish(first)
    let_pass(q, 10)
    await q.broker.promote("q")
    held = await q.take_one()

    assert await q.publish(second, third) == [("new", None)] * 2

    assert await q.finish(held) == "ok"
    assert [each.word for each in await q.settle()] == ["deduplicated", "done"]
    assert 45 < await end_in(q, third) <= 60


async def test_what_waits_for_a_limit_for_the_first_time_has_not_begun(q: QueueByHand):
    first, second = debounced(1, wait_ms=1), debounced(2)
    await q.publish(first)
    let_pass(q, 10)
    await q.broker.promote("q")
    await q.finish(await q.take_one(), "limited", delay_ms=MINUTE, counted=False)

    await q.publish(second)

    assert [(each.job_id, each.word) for each in await q.settle()] == [(first.job_id, "deduplicated")]
    let_pass(q, MINUTE)
    assert await q.run_all() == [second.job_id]


async def test_what_waits_for_a_retry_has_begun(q: QueueByHand):
    first, second = debounced(1, wait_ms=1), debounced(2)
    await q.publish(first)
    let_pass(q, 10)
    await q.broker.promote("q")
    await q.finish(await q.take_one(), "retry", delay_ms=1000, counted=True)

    await q.publish(second)

    assert q.redis.zcard(q.key("due")) == 2


async def test_one_that_has_joined_its_stream_and_was_not_begun_makes_way(q: QueueByHand):
    first, second = debounced(1, wait_ms=1), debounced(2)
    await q.publish(first)
    let_pass(q, 10)
    await q.broker.promote("q")
    assert q.depths() == [0, 1, 0, 0]

    await q.publish(second)

    assert q.depths() == [0, 0, 0, 0]
    assert await q.take() == []


async def test_what_comes_late_is_the_duplicate_of_the_later_one_that_waits(q: QueueByHand):
    """A row that committed late, a redriven one, or one that Redis had lost."""
    later, earlier, redriven = debounced(7), debounced(5), debounced(0, life=1)
    await q.publish(later)

    assert await q.publish(earlier, redriven) == [("dup", later.job_id)] * 2

    assert await q.publish(debounced(None)) == [("new", None)]
    assert [each.job_id for each in await q.settle()] == [later.job_id]


async def test_a_repeated_burst_changes_nothing(q: QueueByHand):
    burst = [debounced(n) for n in range(1, 4)]
    await q.publish(*burst)
    before = q.dump()

    assert await q.publish(*burst) == [("repeat", None)] * 3
    assert await q.publish(burst[0]) == [("repeat", None)]

    assert q.dump() == before


async def test_a_burst_leaves_nothing_behind(q: QueueByHand):
    await q.publish(*[debounced(n) for n in range(1, 4)])
    let_pass(q, MINUTE)
    await q.run_all()
    await q.settle()

    q.bury()

    assert q.left() == {}


async def test_a_plain_key_that_lives_is_respected_by_the_others(q: QueueByHand):
    plain = publication(key=KEY)
    await q.publish(plain)

    words = await q.publish(debounced(1), throttled())

    assert words == [("dup", plain.job_id)] * 2


# -- replace
async def test_what_waits_is_cancelled_by_the_one_that_replaces_it(q: QueueByHand):
    first, second = replacing(1), replacing(2)
    assert await q.publish(first, second) == [("new", None)] * 2

    [told] = await q.settle()
    assert (told.job_id, told.word) == (first.job_id, "cancelled")
    assert msgpack.unpackb(told.record) == {"why": f"job {UUID(bytes=second.job_id)} replaced it"}
    assert await q.run_all() == [second.job_id]


async def test_what_runs_is_asked_to_end_and_that_is_told_until_the_new_one_ends(q: QueueByHand):
    first, second = replacing(1), replacing(2)
    await q.publish(first)
    held = await q.take_one()

    assert await q.publish(second) == [("replaces", first.job_id)]
    assert await q.publish(second) == [("replaces", first.job_id)]

    assert (await q.broker.promote("q")).cancelled == [first.job_id]
    assert await q.finish(held, "retry") == "ok"
    assert [each.word for each in await q.settle()] == ["cancelled"]
    assert await q.run_all() == [second.job_id]
    await q.settle()
    q.bury()
    assert q.left() == {}


async def test_a_suspended_run_is_told_to_the_relay(q: QueueByHand):
    first, second = replacing(1), replacing(2)
    await q.publish(first)
    await q.finish(await q.take_one(), "suspended", delay_ms=-1)
    await q.settle()
    q.bury()

    assert await q.publish(second) == [("replaces", first.job_id)]

    assert await q.broker.holder("q", KEY.decode()) == second.job_id


async def test_what_comes_late_is_the_duplicate_of_what_replaced_it(q: QueueByHand):
    later = replacing(2)
    await q.publish(later)

    assert await q.publish(replacing(1)) == [("dup", later.job_id)]


async def test_with_a_lane_the_next_of_a_burst_waits_for_the_end_of_the_one_that_runs(q: QueueByHand):
    first = debounced(1, wait_ms=1, lane=b"7")
    await q.publish(first)
    let_pass(q, 10)
    await q.broker.promote("q")
    held = await q.take_one()
    second, third = debounced(2, lane=b"7"), debounced(3, lane=b"7")
    assert await q.publish(second, third) == [("new", None)] * 2
    let_pass(q, MINUTE)
    await q.broker.promote("q")
    assert await q.take() == []

    assert await q.finish(held) == "ok"

    assert await q.run_all() == [third.job_id]
    assert [each.word for each in await q.settle()] == ["deduplicated", "done", "done"]
    q.bury()
    assert q.left() == {}


async def test_direct_jobs_have_policies_too(q: QueueByHand):
    first, second = debounced(None, direct=True), debounced(None, direct=True)

    assert await q.broker.enqueue_direct("q", [first, second]) == [("new", None)] * 2
    assert await q.broker.enqueue_direct("q", [throttled(direct=True)]) == [("dup", second.job_id)]

    let_pass(q, MINUTE)
    assert await q.run_all() == [second.job_id]
