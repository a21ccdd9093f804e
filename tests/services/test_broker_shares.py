"""Shares (L4): jobs of a queue are taken in turn by their key, so that no one's flood holds up the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from redisjobs.broker import Publication, ShareRule
from tests.faults.road import sized
from tests.support.builders import publication
from tests.support.eventually import eventually
from tests.support.queue import QueueByHand

FLOOD = sized(1_000, 100_000)


def of(share: str, count: int = 1, **given: object) -> list[Publication]:
    return [publication(share=share.encode(), **given) for _ in range(count)]


async def publish(q: QueueByHand, jobs: Sequence[Publication]) -> dict[bytes, str]:
    """Answers whose each job is."""
    for first in range(0, len(jobs), 500):
        piece = jobs[first : first + 500]
        assert await q.publish(*piece) == [("new", None)] * len(piece)
    return {job.job_id: job.share.decode() for job in jobs}


async def served(q: QueueByHand, whose: dict[bytes, str], jobs: int, at_once: int = 1) -> list[str]:
    """Whose jobs run, in order, where so many are taken at once."""
    order: list[str] = []
    while len(order) < jobs and (taken := await q.take(count=min(at_once, jobs - len(order)))):
        for each in taken:
            assert await q.finish(each) == "ok"
            order.append(whose[each.job_id])
    return order


async def test_shares_have_their_turns_one_after_the_other(q: QueueByHand):
    whose = await publish(q, [*of("a", 4), *of("b", 2), *of("c", 3)])

    assert await served(q, whose, 100) == list("abcabcaca")
    await q.settle()
    q.bury()
    assert q.left() == {}


@pytest.mark.parametrize("at_once", [1, 2, 10])
async def test_who_sends_one_job_starts_within_a_round_though_another_floods_the_queue(q: QueueByHand, at_once: int):
    whose = await publish(q, of("flood", FLOOD))
    await served(q, whose, 50, at_once)

    whose |= await publish(q, of("one"))

    order = await served(q, whose, 2 * at_once + 2, at_once)
    assert "one" in order[: at_once + 2]


@pytest.mark.parametrize("at_once", [1, 7])
async def test_twenty_equal_tenants_get_the_same(q: QueueByHand, at_once: int):
    tenants = [f"t{n}" for n in range(20)]
    jobs = [job for n, tenant in enumerate(tenants) for job in of(tenant, FLOOD // 20 if n else FLOOD)]
    whose = await publish(q, jobs)

    had = Counter(await served(q, whose, FLOOD // 4, at_once))

    counts = [had[tenant] for tenant in tenants]
    assert sum(counts) ** 2 / (20 * sum(each**2 for each in counts)) >= 0.95, counts


@pytest.mark.parametrize("at_once", [1, 7])
async def test_a_share_of_weight_three_has_three_for_one(q: QueueByHand, at_once: int):
    await q.open(shares=[ShareRule("heavy", 3)])
    whose = await publish(q, [*of("heavy", FLOOD // 2), *of("light", FLOOD // 2)])

    had = Counter(await served(q, whose, FLOOD // 2, at_once))

    assert had["heavy"] / had["light"] == pytest.approx(3, rel=0.1)


async def test_a_weight_below_one_lets_the_others_go_before(q: QueueByHand):
    await q.open(shares=[ShareRule("bulk", 0.1)])
    whose = await publish(q, [*of("bulk", 100), *of("a", 100)])

    assert Counter(await served(q, whose, 55))["bulk"] == pytest.approx(5, abs=1)


async def test_a_changed_weight_counts_from_now_on(q: QueueByHand):
    whose = await publish(q, [*of("a", 100), *of("b", 100)])
    await served(q, whose, 20)

    await q.open(shares=[ShareRule("a", 4)])

    assert Counter(await served(q, whose, 50))["a"] == pytest.approx(40, abs=2)


async def test_jobs_of_a_share_start_in_the_order_in_which_they_came(q: QueueByHand):
    jobs = [job for n in range(200) for job in of("ab"[n % 2])]
    await publish(q, jobs)

    ran = await q.run_all()

    for share in (b"a", b"b"):
        mine = [job.job_id for job in jobs if job.share == share]
        assert [each for each in ran if each in mine] == mine


async def test_a_higher_band_goes_first_whoever_is_in_it_and_a_low_one_still_moves(q: QueueByHand):
    whose = await publish(
        q, [*of("low", 20, band=2), *of("a", 20, band=1), *of("high", 3, band=0), *of("b", 20, band=1)]
    )
    assert await served(q, whose, 7) == ["high", "high", "high", "a", "b", "a", "b"]

    order: list[str] = []
    for n in range(20):
        taken = await q.broker.take("q", "w1", 1, lease_ms=1000, low_first=n % 5 == 0)
        order += [whose[each.job_id] for each in taken.deliveries]
    assert order.count("low") == 4


async def test_who_was_idle_has_saved_up_nothing(q: QueueByHand):
    whose = await publish(q, [*of("a"), *of("b", 100)])
    await served(q, whose, 60, at_once=20)

    whose |= await publish(q, of("a", 50))

    assert Counter(await served(q, whose, 20))["a"] == pytest.approx(10, abs=1)


async def test_nobody_gains_by_coming_and_going(q: QueueByHand):
    whose = await publish(q, [*of("b", 100), *of("c", 100)])
    order: list[str] = []
    for _ in range(60):
        if "a" not in order[-1:] or order[-1] == "a":
            whose |= await publish(q, of("a"))
        order += await served(q, whose, 1)

    had = Counter(order)
    assert had["b"] == pytest.approx(20, abs=2)
    assert had["c"] == pytest.approx(20, abs=2)


async def test_a_stream_of_newcomers_starves_nobody(q: QueueByHand):
    whose = await publish(q, of("z", 10))
    order: list[str] = []
    for n in range(200):
        whose |= await publish(q, [*of(f"a{n}"), *of(f"b{n}")])
        order += await served(q, whose, 1)

    assert order.count("z") >= 1
    assert len(set(order)) > 150


async def test_jobs_without_a_share_are_one_more_in_the_ring(q: QueueByHand):
    plain = [publication() for _ in range(50)]
    whose = await publish(q, [*plain, *of("a", 50), *of("b", 50)])

    had = Counter(await served(q, whose, 60, at_once=3))

    assert had[""] == pytest.approx(20, abs=3)
    assert had["a"] == pytest.approx(20, abs=3)
    assert len(await served(q, whose, 1000)) == 90


async def test_a_queue_without_shares_has_no_key_of_theirs(q: QueueByHand):
    await q.publish(*[publication(key=b"k"), publication(delay_ms=1)])
    await q.run_all()

    assert q.redis.exists(q.key("shares"), q.key("ring")) == 0


# -- pause
async def test_a_paused_share_stands_while_the_others_go_on(q: QueueByHand):
    jobs = [*of("a", 10), *of("b", 10)]
    whose = await publish(q, jobs)

    await q.open(shares=[ShareRule("a", paused=True)])

    assert await q.take(count=1) == [], "one had its turn already, and goes back"
    assert await served(q, whose, 100) == ["b"] * 10
    whose |= await publish(q, of("a", 5))
    assert await q.take() == []
    assert (await q.broker.promote("q")).waiting == 15
    assert await q.carrier.audit(q.fence, [(job.job_id, 0, 0) for job in jobs[:10]]) == []

    await q.open(shares=[ShareRule("a", 2)])

    ran = await q.run_all()
    assert ran[:10] == [job.job_id for job in jobs[:10]]
    assert len(ran) == 15


async def test_what_a_paused_share_has_running_ends_and_its_retries_wait(q: QueueByHand):
    (job,) = of("a")
    await q.publish(job)
    held = await q.take_one()
    await q.open(shares=[ShareRule("a", paused=True)])

    assert await q.finish(held, "retry", delay_ms=0) == "ok"
    await q.broker.promote("q")

    assert await q.take() == []
    await q.open()
    assert (await q.take_one()).attempts == 1


async def test_what_comes_back_unstarted_waits_once_its_share_is_paused(q: QueueByHand):
    await publish(q, of("a", 2))
    held = await q.take_one()
    entries = await q.broker.wait("q", "w2", 1000)
    await q.open(shares=[ShareRule("a", paused=True)])

    assert await q.finish(held, "released") == "ok"
    assert (await q.broker.begin("q", "w2", entries, lease_ms=1000)).deliveries == []
    assert await q.take() == []
    assert await q.reclaim() == []

    await q.open()
    assert len(await q.take()) == 2


async def test_a_lapsed_delivery_of_a_paused_share_waits(q: QueueByHand):
    await publish(q, of("a"))
    await q.take_one(lease_ms=1)
    await q.open(shares=[ShareRule("a", paused=True)])
    await eventually(lambda: q.redis.xpending_range(q.key("ready3"), "workers", "-", "+", 9, idle=2), "it has lapsed")

    assert await q.reclaim() == []
    assert q.depths() == [0, 0, 0, 0]
    await q.open()
    assert (await q.take_one()).losses == 1


# -- readers that wait
async def test_a_reader_that_waits_is_woken_by_a_job_with_a_share(q: QueueByHand):
    await q.take()
    waits = asyncio.create_task(q.broker.wait("q", "w1", 30_000))
    await _blocked(q, 1)

    await publish(q, of("a", 3))

    async with asyncio.timeout(20):
        begun = await q.broker.begin("q", "w1", await waits, lease_ms=1000)
    assert len(begun.deliveries) == 1


async def test_readers_wake_one_another_as_long_as_jobs_wait_in_shares(q: QueueByHand):
    await q.take()

    async def reader(consumer: str) -> None:
        entries = await q.broker.wait("q", consumer, 30_000)
        assert len((await q.broker.begin("q", consumer, entries, lease_ms=60_000)).deliveries) == 1

    readers = [asyncio.create_task(reader(f"w{n}")) for n in range(4)]
    await _blocked(q, 4)

    await publish(q, of("a", 4))

    async with asyncio.timeout(20):
        await asyncio.gather(*readers)


@pytest.mark.parametrize("way", ["resumed", "due", "moved", "the reader died"])
async def test_a_reader_that_waits_is_woken_however_a_share_gets_its_jobs(q: QueueByHand, way: str):
    await q.take()
    (job, other) = of("a", 2, delay_ms=1 if way == "due" else 60_000 if way == "moved" else 0)
    if way == "resumed":
        await q.open(shares=[ShareRule("a", paused=True)])
    await q.publish(job, other)
    if way == "the reader died":
        assert await q.broker.wait("q", "dead", 1000)
    waits = asyncio.create_task(q.broker.wait("q", "w1", 30_000))
    await _blocked(q, 1)

    if way == "resumed":
        await q.open()
    elif way == "moved":
        q.script("move", 1, "life-1", job.job_id, 0, 0, 1, 0, job.envelope)
    else:
        while not (await q.broker.promote("q")).moved and way == "due":
            pass

    async with asyncio.timeout(20):
        assert len(await waits) == 1


async def _blocked(q: QueueByHand, count: int) -> None:
    await eventually(lambda: int(q.redis.info("clients")["blocked_clients"]) >= count, "the readers wait")


# -- all else that is true of jobs
async def test_a_job_in_its_share_is_placed_and_known(q: QueueByHand):
    one, other = of("a", 2, key=b"k")[0], publication(key=b"k")
    await publish(q, of("a"))  # it has the turn
    await q.publish(one)

    assert await q.publish(one) == [("repeat", None)]
    assert await q.publish(other) == [("dup", one.job_id)]
    assert await q.carrier.audit(q.fence, [(one.job_id, 0, 0)]) == []
    assert await q.broker.wake("q", [(one.job_id, 0)]) == ["ready"]
    assert await q.carrier.cancel(q.fence, [(one.job_id, 0, 0)]) == ["ended"]
    assert [outcome.word for outcome in await q.settle()] == ["cancelled"]
    assert q.redis.zcard(q.key("shares")) == 0


async def test_a_job_in_its_share_can_be_forgotten_and_moved(q: QueueByHand):
    first, gone, moved, later = of("a", 4)
    await publish(q, [first, gone, moved, later])

    assert await q.carrier.forget(q.fence, [gone.job_id]) == 1
    q.script("move", 1, "life-1", moved.job_id, 0, 0, 0, 0, moved.envelope, later.job_id, 0, 0, 1, 1, later.envelope)

    assert [each.job_id for each in await q.take()] == [first.job_id, moved.job_id]
    while not (await q.broker.promote("q")).moved:
        pass
    assert (await q.take_one()).job_id == later.job_id


async def test_a_new_life_takes_the_place_of_the_old_one_in_a_share(q: QueueByHand):
    first, job = of("a", 2)
    await publish(q, [first, job])
    again = publication(job_id=job.job_id, life=1, number=2, share=b"b")

    assert await q.publish(again) == [("new", None)]

    assert sorted(await q.run_all()) == sorted([first.job_id, job.job_id])


async def test_what_has_had_its_turn_and_comes_back_unstarted_goes_to_the_front(q: QueueByHand):
    whose = await publish(q, [*of("a", 3), *of("b", 3)])
    held = await q.take_one()
    await q.finish(held, "released")

    again = await q.take(count=2)

    assert [whose[each.job_id] for each in again] == ["b", "a"]
    assert again[1].job_id == held.job_id


# -- losses
@pytest.mark.parametrize("lost", ["ring", "shares", "jobs", "life"])
async def test_audit_finds_what_stands_still_since_a_key_was_lost(q: QueueByHand, lost: str):
    jobs = [*of("a", 5), *of("b", 5)]
    await publish(q, jobs)
    q.redis.delete(q.key(lost))
    await q.open()

    missing = await q.carrier.audit(q.fence, [(job.job_id, 0, 0) for job in jobs])
    assert len(missing) == {"ring": 9, "shares": 9, "jobs": 10, "life": 0}[lost]
    await q.publish(*[job for job in jobs if job.job_id in missing])

    assert sorted(await q.run_all()) == sorted(job.job_id for job in jobs)
    await q.settle()
    q.bury()
    assert q.left() == {}


async def test_a_lost_ring_is_made_anew_without_an_audit_and_leaves_out_who_is_paused(q: QueueByHand):
    await q.open(shares=[ShareRule("b", paused=True)])
    whose = await publish(q, [*of("a", 3, band=2), *of("b", 3), *of("c\n1 2", 3, band=0)])
    q.redis.delete(q.key("ring"))

    await q.broker.promote("q")

    assert Counter(await served(q, whose, 100)) == {"a": 3, "c\n1 2": 3}


async def test_a_share_that_went_on_while_redis_had_lost_its_pause_is_found_by_the_audit(q: QueueByHand):
    await q.open(shares=[ShareRule("a", paused=True)])
    (job,) = of("a")
    await q.publish(job)
    q.redis.hdel(q.key("life"), "share:a", "shares_paused")

    assert await q.carrier.audit(q.fence, [(job.job_id, 0, 0)]) == [job.job_id]


async def test_shares_that_have_run_out_are_swept_out_in_one_go(q: QueueByHand):
    whose = await publish(q, [of(f"t{n}")[0] for n in range(400)])
    assert len(await served(q, whose, 380, at_once=20)) == 380
    assert q.redis.zcard(q.key("ring")) == 400
    q.redis.config_resetstat()

    assert len(await served(q, whose, 20, at_once=20)) == 20
    assert await q.take() == []

    assert q.redis.zcard(q.key("ring")) == 0
    assert q.redis.info("commandstats")["cmdstat_zrangebyscore"]["calls"] < 60
