"""Ordered lanes: of each lane one job at a time may run, in the order of publishing; none stands still for ever."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from redisjobs.broker import Delivery, Fence, Move, OtherLife, Publication, Stale, Word
from tests.support.builders import publication
from tests.support.queue import QueueByHand


def lane(*orders: int, name: bytes = b"a", **given: Any) -> list[Publication]:
    """Jobs of one lane, with these places in line."""
    return [publication(lane=name, order=order, **given) for order in orders]


def ids(jobs: list[Any]) -> list[bytes]:
    return [job.job_id for job in jobs]


async def only(q: QueueByHand, job: Publication) -> Delivery:
    """The one job that can be taken now."""
    await q.broker.promote("q")
    taken = await q.take()
    assert ids(taken) == [job.job_id]
    return taken[0]


async def rest(q: QueueByHand, *jobs: Publication) -> None:
    """These run in this order, nothing else does, and nothing is left."""
    assert await q.run_all() == ids(list(jobs))
    await q.settle()
    q.bury()
    assert q.left() == {}


async def audit(q: QueueByHand, jobs: list[Publication]) -> list[Publication]:
    """Publish again what is not placed, as the relay does; answers what was."""
    missing = await q.carrier.audit(q.fence, [(job.job_id, job.life, 0) for job in jobs])
    again = [job for job in jobs if job.job_id in missing]
    await q.publish(*again)
    return again


async def test_jobs_of_a_lane_run_one_after_the_other(q: QueueByHand):
    first, second, third = jobs = lane(1, 2, 3)
    assert await q.publish(*jobs) == [("new", None)] * 3

    await q.finish(await only(q, first))
    await q.finish(await only(q, second))
    await rest(q, third)


async def test_lanes_do_not_wait_for_each_other_and_no_lane_for_what_has_none(q: QueueByHand):
    one, one_more = lane(1, 2, name=b"a")
    other, other_more = lane(3, 4, name=b"a\x01")
    plain = publication()
    await q.publish(one, one_more, other, other_more, plain)

    taken = await q.take()
    assert ids(taken) == ids([one, other, plain])
    for each in taken:
        await q.finish(each)
    assert set(ids(await q.take())) == set(ids([one_more, other_more]))


async def test_the_order_is_that_of_the_rows_and_not_of_the_calls(q: QueueByHand):
    head, late, early = lane(1, 30, 4)
    await q.publish(head)
    await q.publish(late)
    await q.publish(early)

    await rest(q, head, early, late)


async def test_priority_means_nothing_within_a_lane(q: QueueByHand):
    jobs = [*lane(1, band=2), *lane(2, band=1), *lane(3, band=0)]
    await q.publish(*jobs)

    await rest(q, *jobs)


@pytest.mark.parametrize("word", ["retry", "snooze", "parked", "released", "limited"])
async def test_a_job_that_comes_back_keeps_its_lane(q: QueueByHand, word: Word):
    first, second = jobs = lane(1, 2)
    await q.publish(*jobs)

    await q.finish(await only(q, first), word, delay_ms=0)
    await q.finish(await only(q, first), word, delay_ms=60_000)
    if word != "released":
        assert await q.take() == []
        q.redis.zadd(q.key("due"), {first.job_id: 0})
    await rest(q, first, second)


async def test_where_a_retry_is_skipped_the_next_goes_on_and_it_comes_back_before_the_others(q: QueueByHand):
    first, second, third = jobs = lane(1, 2, 3)
    await q.publish(*jobs)

    await q.finish(await only(q, first), "retry", delay_ms=0, skips=True)
    running = await q.take_one()
    assert running.job_id == second.job_id
    await q.broker.promote("q")  # the first is due, and waits behind the second
    assert await q.take() == []
    await q.finish(running)
    await rest(q, first, third)


async def test_a_skipped_retry_of_the_last_one_lets_its_lane_go(q: QueueByHand):
    (first, second) = lane(1, 2)
    await q.publish(first)
    await q.finish(await q.take_one(), "retry", delay_ms=60_000, skips=True)
    assert not q.redis.exists(q.key("lanes"))

    await q.publish(second)
    await q.finish(await only(q, second))
    q.redis.zadd(q.key("due"), {first.job_id: 0})
    await rest(q, first)


@pytest.mark.parametrize("word", ["done", "dead", "cancelled", "expired"])
async def test_any_end_lets_the_next_one_run(q: QueueByHand, word: Word):
    first, second = jobs = lane(1, 2)
    await q.publish(*jobs)

    await q.finish(await only(q, first), word)
    await rest(q, second)


async def test_ends_of_one_call_let_their_lanes_go_on(q: QueueByHand):
    jobs = [job for n in range(5) for job in lane(2 * n + 1, 2 * n + 2, name=b"lane %d" % n)]
    await q.publish(*jobs)

    assert await q.run_all() == ids(jobs[::2]) + ids(jobs[1::2])


async def test_what_is_cancelled_leaves_its_lane(q: QueueByHand):
    first, second, third = jobs = lane(1, 2, 3)
    await q.publish(*jobs)

    assert await q.carrier.cancel(q.fence, [(second.job_id, 0, 0)]) == ["ended"]
    assert await q.carrier.cancel(q.fence, [(first.job_id, 0, 0), (first.job_id, 0, 0)]) == ["ended", "ended"]
    await rest(q, third)


async def test_a_whole_lane_is_cancelled_in_one_call(q: QueueByHand):
    jobs = lane(*range(1, 40))
    await q.publish(*jobs)

    assert await q.carrier.cancel(q.fence, [(job.job_id, 0, 0) for job in jobs]) == ["ended"] * 39
    await rest(q)


async def test_what_runs_and_is_cancelled_has_its_lane_until_it_ends(q: QueueByHand):
    first, second = jobs = lane(1, 2)
    await q.publish(*jobs)
    held = await only(q, first)

    assert await q.carrier.cancel(q.fence, [(first.job_id, 0, 0)]) == ["running"]
    assert await q.take() == []
    await q.finish(held, "retry", delay_ms=60_000)
    await rest(q, second)


async def test_what_is_forgotten_leaves_its_lane(q: QueueByHand):
    first, second, third = jobs = lane(1, 2, 3)
    await q.publish(*jobs)

    assert await q.carrier.forget(q.fence, ids([first, second])) == 2
    await rest(q, third)


async def test_a_lost_lease_keeps_the_lane_and_one_too_many_lets_it_go(q: QueueByHand):
    first, second = jobs = lane(1, 2)
    await q.publish(*jobs)
    await q.take(lease_ms=1)
    await asyncio.sleep(0.005)

    (again,) = await q.reclaim(losses=2)
    assert (again.job_id, again.losses) == (first.job_id, 1)
    assert await q.take() == []
    q.redis.hdel(q.key("life"), "swept")
    await asyncio.sleep(0.005)
    assert await q.reclaim(losses=2) == []
    await rest(q, second)


async def test_a_job_that_was_read_and_not_begun_keeps_its_lane(q: QueueByHand):
    first, second = jobs = lane(1, 2)
    await q.take()
    await q.publish(*jobs)
    entries = await q.broker.wait("q", "w1", 1000)

    assert (await q.broker.begin("q", "w1", entries, lease_ms=1000, room=0)).deliveries == []
    await rest(q, first, second)


# -- times
async def test_what_is_due_later_stands_in_its_lane_from_then_on(q: QueueByHand):
    (later,) = lane(1, delay_ms=60_000)
    second, third = lane(2, 3)
    await q.publish(later, second, third)

    held = await only(q, second)
    q.redis.zadd(q.key("due"), {later.job_id: 0})
    await q.broker.promote("q")
    assert await q.take() == []
    await q.finish(held)
    await rest(q, later, third)


async def test_several_that_are_due_at_once_run_in_their_order(q: QueueByHand):
    jobs = lane(3, 1, 2, delay_ms=1)
    await q.publish(*jobs)
    await asyncio.sleep(0.005)

    await rest(q, *sorted(jobs, key=lambda job: job.order))


# -- moves
async def move(q: QueueByHand, *jobs: Publication, delay_ms: int | None = None) -> None:
    moves = [Move(job.job_id, job.life, 0, 0, delay_ms, job.envelope) for job in jobs]
    assert await q.carrier.move(q.fence, moves) == ["moved"] * len(jobs)


async def test_another_band_changes_nothing_within_a_lane(q: QueueByHand):
    first, second, third = jobs = lane(1, 2, 3)
    await q.publish(*jobs)

    await move(q, third, first)
    await rest(q, first, second, third)


async def test_who_gets_a_later_time_stands_in_its_lane_from_then_on(q: QueueByHand):
    first, second, third, fourth = jobs = lane(1, 2, 3, 4)
    await q.publish(*jobs)

    await move(q, first, third, delay_ms=60_000)
    held = await only(q, second)
    await move(q, first, third, delay_ms=0)
    assert await q.take() == []
    await q.finish(held)
    await rest(q, first, third, fourth)


async def test_a_retry_that_gets_another_time_keeps_its_lane(q: QueueByHand):
    first, second = jobs = lane(1, 2)
    await q.publish(*jobs)
    await q.finish(await only(q, first), "retry", delay_ms=0)
    await q.broker.promote("q")

    await move(q, first, delay_ms=60_000)
    assert await q.take() == []
    await move(q, first, delay_ms=0)
    await rest(q, first, second)


# -- runs
async def test_a_suspended_run_has_its_lane_until_it_ends(q: QueueByHand):
    first, second = jobs = lane(1, 2)
    await q.publish(*jobs)
    await q.finish(await only(q, first), "suspended", delay_ms=-1)
    await q.settle()
    q.bury()
    assert await q.take() == []

    await q.publish(publication(job_id=first.job_id, number=2, after=1, lane=b"a", order=7))
    await rest(q, first, second)


async def test_a_run_that_sleeps_has_its_lane_while_it_is_due(q: QueueByHand):
    first, second = jobs = lane(1, 2)
    await q.publish(*jobs)
    await q.finish(await only(q, first), "suspended", delay_ms=60_000)
    await q.settle()

    await q.publish(publication(job_id=first.job_id, number=2, after=1, lane=b"a", order=7, delay_ms=60_000))
    assert await q.take() == []
    q.redis.zadd(q.key("due"), {first.job_id: 0})
    await rest(q, first, second)


async def test_the_lane_of_a_run_that_ended_in_postgres_goes_on(q: QueueByHand):
    first, second = jobs = lane(1, 2)
    await q.publish(*jobs)
    await q.finish(await only(q, first), "suspended", delay_ms=-1)
    await q.settle()

    assert await q.carrier.some_lanes("q", 0, 100) == (0, [(b"a", first.job_id)])
    assert await q.carrier.vacate(q.fence, [(b"a", first.job_id)]) == 1
    assert await q.carrier.vacate(q.fence, [(b"a", first.job_id)]) == 0
    await rest(q, second)


async def test_a_lane_with_a_live_head_is_not_vacated(q: QueueByHand):
    first, second = jobs = lane(1, 2)
    await q.publish(*jobs)

    assert await q.carrier.vacate(q.fence, [(b"a", first.job_id), (b"a", second.job_id), (b"b", uuid4().bytes)]) == 0
    await rest(q, first, second)


async def test_vacating_needs_the_token_and_the_life(q: QueueByHand):
    with pytest.raises(Stale):
        await q.carrier.vacate(Fence("q", 0, "life-1"), [])
    with pytest.raises(OtherLife):
        await q.carrier.vacate(Fence("q", 1, "life-0"), [])


async def test_a_new_life_of_redis_is_told_whose_lanes_are_held(q: QueueByHand):
    run, second = lane(1, 2)
    q.redis.flushall()
    await q.carrier.adopt(q.fence, [(b"a", run.job_id, -2), (b"a", uuid4().bytes, -2)])
    await q.publish(second)
    assert await q.take() == []

    await q.publish(publication(job_id=run.job_id, number=2, after=1, lane=b"a", order=9))
    await rest(q, run, second)


async def test_a_retry_that_is_published_anew_has_its_lane_while_it_waits(q: QueueByHand):
    """After a loss: what has run before goes first, also where it is due later."""
    (first,) = lane(1, attempts=1, delay_ms=60_000)
    (second,) = lane(2)
    await q.publish(first, second)
    assert await q.take() == []

    q.redis.zadd(q.key("due"), {first.job_id: 0})
    await rest(q, first, second)


# -- keys and direct jobs
async def test_a_duplicate_takes_no_place_in_its_lane(q: QueueByHand):
    first, second = lane(1, 2, key=b"k")
    assert await q.publish(first, second) == [("new", None), ("dup", first.job_id)]

    await rest(q, first)


async def test_a_head_that_lost_its_place_and_is_a_duplicate_by_now_leaves_its_lane(q: QueueByHand):
    first, second = lane(1, 2)
    await q.publish(first, second)
    owner = publication(key=b"k")
    await q.publish(owner)
    q.redis.delete(q.key("ready1"))

    keyed = publication(job_id=first.job_id, lane=b"a", order=1, key=b"k")
    assert await q.publish(keyed) == [("dup", owner.job_id)]
    assert ids(await q.take()) == [second.job_id]


async def test_jobs_without_a_row_stand_behind_those_that_wait(q: QueueByHand):
    head, second = lane(1, 5)
    direct = [publication(lane=b"a", direct=True) for _ in range(3)]
    (last,) = lane(6)
    await q.publish(head)
    await q.broker.enqueue_direct("q", direct[:1])
    await q.publish(second)
    await q.broker.enqueue_direct("q", direct[1:])
    await q.publish(last)

    assert await q.run_all() == ids([head, direct[0], second, *direct[1:], last])


# -- repeats and losses
async def test_a_repeated_publish_changes_nothing_for_who_waits_behind_a_lane(q: QueueByHand):
    jobs = lane(1, 2, 3)
    await q.publish(*jobs)
    before = q.dump()

    assert await q.publish(*jobs) == [("repeat", None)] * 3
    assert q.dump() == before
    await rest(q, *jobs)


async def test_a_redriven_job_goes_to_the_end(q: QueueByHand):
    first, second = lane(1, 2)
    await q.publish(first, second)
    await q.finish(await only(q, first), "dead")
    await q.publish(publication(job_id=first.job_id, life=1, number=2, lane=b"a", order=3))

    await rest(q, second, first)


async def test_a_head_whose_entry_is_lost_keeps_its_lane(q: QueueByHand):
    first, second = jobs = lane(1, 2)
    await q.publish(*jobs)
    q.redis.delete(q.key("ready1"))

    assert await audit(q, jobs) == [first]
    await rest(q, first, second)


async def test_where_all_lanes_are_lost_the_first_of_each_goes_on(q: QueueByHand):
    jobs = lane(1, 2, 3)
    await q.publish(*jobs)
    held = await only(q, jobs[0])
    q.redis.delete(q.key("lanes"))
    await q.finish(held)

    assert await q.take() == []
    assert set(ids(await audit(q, jobs[1:]))) == set(ids(jobs[1:]))
    await rest(q, *jobs[1:])


async def test_where_all_that_wait_are_lost_they_are_published_again(q: QueueByHand):
    jobs = lane(1, 2, 3)
    await q.publish(*jobs)
    q.redis.delete(q.key("behind"))

    assert await audit(q, jobs) == jobs[1:]
    await rest(q, *jobs)


async def test_where_all_records_are_lost_no_lane_is_held_by_a_ghost(q: QueueByHand):
    jobs = lane(1, 2, 3)
    await q.publish(*jobs)
    q.redis.delete(q.key("jobs"))

    assert await audit(q, jobs) == jobs
    assert await q.run_all() == ids(jobs)


async def test_a_lane_whose_head_is_nowhere_goes_on_when_the_relay_looks(q: QueueByHand):
    """A direct job is published by nobody a second time."""
    direct = publication(lane=b"a", direct=True)
    (second,) = lane(1)
    await q.broker.enqueue_direct("q", [direct])
    await q.publish(second)
    q.redis.delete(q.key("ready1"))
    assert await q.take() == []

    assert await q.carrier.vacate(q.fence, [(b"a", direct.job_id)]) == 1
    assert ids(await q.take()) == [second.job_id]


async def test_many_ghosts_before_the_next_one_are_passed_over_in_pieces(q: QueueByHand):
    first, *ghosts, last = jobs = lane(*range(1, 300))
    await q.publish(*jobs)
    q.redis.hdel(q.key("jobs"), *ids(ghosts))

    await q.finish(await only(q, first))
    for _ in range(2):
        assert await q.take() == []
        assert await audit(q, [last]) == [last]
    await rest(q, last)
