"""The limiter among many: queues that nobody serves, long lines, lost keys, and a fleet whose workers die."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from redisjobs.broker import Ask
from tests.support.limiting import LimiterByHand, Lines, ask, job_id, limit, rate
from tests.support.redis_versions import AnyRedis

ONE, TWO = limit("one"), limit("two", 2)
LAST = 2 * 10**15
"""A place behind all that are given by the clock."""


@pytest.fixture
async def h(redis_url: str) -> AsyncIterator[LimiterByHand]:
    async with LimiterByHand(redis_url) as opened:
        yield opened


@pytest.fixture
async def any_h(any_redis: AnyRedis) -> AsyncIterator[LimiterByHand]:
    async with LimiterByHand(any_redis.url) as opened:
        yield opened


# -- limits that span queues
async def test_queues_share_a_line_in_the_order_of_coming(any_h: LimiterByHand):
    h = any_h
    await h.admit(*[ask(n, ONE, queue=("a", "b", "c")[n % 3]) for n in range(7)])

    order = []
    running, start = 0, 1
    for _ in range(6):
        (running,) = await h.release(running, start=start)
        start = 2
        assert await h.words(ask(running, ONE, start=2)) == ["ok"]
        order.append(running)

    assert order == [1, 2, 3, 4, 5, 6]


async def test_a_queue_that_nobody_serves_lets_others_go_on(any_h: LimiterByHand):
    """What is kept for its first job lapses once; from then on others have the limit for themselves."""
    h = any_h
    await h.admit(*[ask(n, ONE, queue="paused" if n < 10 else "busy") for n in range(14)])
    assert await h.release(0) == [1]
    h.lapse(1)

    assert await h.sweep() == [1, 10]
    for n in (10, 11, 12):
        assert await h.words(ask(n, ONE, start=2, queue="busy")) == ["ok"]
        assert await h.release(n, start=2) == [n + 1]
    Lines(h).check()
    assert await h.words(ask(13, ONE, start=2, queue="busy")) == ["ok"]

    assert await h.words(ask(1, ONE, start=2, queue="paused")) == ["wait"], "it is served again, and has its place"
    assert await h.sweep() == []
    Lines(h).check()
    assert await h.release(13, start=2) == [1]
    assert await h.words(ask(1, ONE, start=3, queue="paused")) == ["ok"]
    assert await h.release(1, start=3) == [2]


async def test_a_queue_whose_jobs_are_gone_is_served_after_all(any_h: LimiterByHand):
    h = any_h
    await h.admit(*[ask(n, ONE) for n in range(4)])
    await h.release(0)
    h.lapse(1)
    assert await h.sweep() == [1]

    assert await h.gone(1) == []
    assert await h.sweep() == [2]


async def test_a_queue_that_slept_long_enough_is_tried_again(any_h: LimiterByHand):
    h = any_h
    await h.admit(*[ask(n, limit(f"one:{n % 2}")) for n in range(6)])
    await h.release(0, 1)
    h.lapse(2, 3)
    assert sorted(await h.sweep()) == [2, 3]
    assert await h.sweep() == []
    h.redis.zadd(h.key("asleep"), {b"q": 1}, xx=True)

    assert sorted(await h.sweep()) == [4, 5]
    Lines(h).check()


# -- what it costs
async def test_a_release_costs_the_same_behind_a_hundred_thousand(h: LimiterByHand):
    await h.admit(ask(0, TWO), ask(1, TWO))
    few = await _one_turn(h, 0, [ask(n, TWO) for n in range(2, 12)])
    put_in_line(h, range(12, 100_012))
    many = [await _one_turn(h, n, []) for n in range(1, 6)]

    assert max(many) <= few + 1
    assert few < 60
    assert await h.words(ask(200_000, limit("other", 2)), ask(200_001, limit("other", 2))) == ["ok", "ok"]


async def _one_turn(h: LimiterByHand, n: int, asks: list[Ask]) -> int:
    """How many commands Redis ran for a job's end and the next one's start."""
    await h.admit(*asks)
    h.redis.config_resetstat()
    (woken,) = await h.release(n, start=1 if n < 2 else 2)
    assert await h.words(ask(woken, TWO, start=2)) == ["ok"]
    stats: dict[str, Any] = h.redis.info("commandstats")
    return sum(each["calls"] for name, each in stats.items() if name[8:] not in ("info", "config|resetstat"))


def put_in_line(h: LimiterByHand, jobs: range) -> None:
    """As `admit` does it, thousands at once."""
    for first in range(0, len(jobs), 5_000):
        piece = jobs[first : first + 5_000]
        tickets = {job_id(n): f"{LAST + n} q 0\ntwo\n{TWO.line()}" for n in piece}
        h.redis.hset(h.key("tickets"), mapping=tickets)
        h.redis.zadd(h.key("line"), {f"two\nq\n{LAST + n}\n".encode() + job_id(n): 0 for n in piece})


async def test_many_who_may_begin_are_told_in_pieces_and_all_of_them(any_h: LimiterByHand):
    h = any_h
    await h.limiter.set_limit("many", most=1)
    await h.admit(*[ask(n, limit("many", 500)) for n in range(451)])
    await h.limiter.unset_limit("many")

    told = await h.release(0)
    assert len(told) == 100
    told += await h.sweep(every_ms=60_000)

    assert told == list(range(1, 451))


async def test_sweeps_of_many_workers_are_one(h: LimiterByHand):
    await h.admit(ask(1, ONE), ask(2, ONE))
    assert await h.sweep(every_ms=60_000) == []
    h.lapse(1)

    assert await h.sweep(every_ms=60_000) == []
    assert await h.sweep() == [2]


# -- what is lost
async def test_a_lost_key_leaks_nothing_for_good(any_h: LimiterByHand):
    h = any_h
    for lost in ("held", "expiry", "used", "line", "heads", "tickets", "look", "life", "idle", "asleep", "rates"):
        h.redis.flushall()
        await h.admit(*[ask(n, TWO) for n in range(4)], ask(9, rate("r", 1, 1000)))
        await h.release(0)
        h.redis.delete(h.key(lost))
        await h.sweep()
        everyone = [*range(4), 9]
        for _ in range(4):  # leases end, and each job comes by itself in the end
            h.lapse(*everyone)
            await h.sweep()
        if lost == "used":
            assert h.used() == {}
        words = await h.words(*[ask(n, TWO, start=7) for n in range(4)])
        assert words.count("ok") == 2, lost
        running = [(n, 7) for n in range(4) if words[n] == "ok"]
        while running:
            n, start = running.pop()
            for woken in await h.release(n, start=start):
                assert await h.words(ask(woken, TWO, start=8)) == ["ok"], lost
                running.append((woken, 8))
        assert h.used().get("two", 0) == 0, lost


async def test_where_the_count_is_lost_permits_say_it(any_h: LimiterByHand):
    h = any_h
    await h.admit(ask(1, limit("many", 9, weight=3)), ask(2, limit("many", 9)), ask(3, ONE), ask(4, ONE))
    await h.release(3)
    before = h.used()
    h.redis.delete(h.key("used"))

    await h.sweep()

    assert h.used() == before == {"many": 4, "one": 1}


async def test_in_an_emptied_redis_permits_are_lost_and_jobs_begin_anew(any_h: LimiterByHand):
    h = any_h
    await h.admit(ask(1, ONE), ask(2, ONE))
    h.redis.flushall()

    assert h.hold(1) == {1}
    assert await h.release(1) == []
    assert await h.gone(2) == []
    assert await h.words(ask(2, ONE, start=2), ask(1, ONE, start=2)) == ["ok", "wait"]


# -- many at once
async def test_a_limit_that_is_used_for_the_first_time_by_ten_workers_at_once_holds(h: LimiterByHand):
    """M06: no entry does not mean no limit."""
    asks = [[ask(100 * n + k, limit(f"new{n}")) for n in range(20)] for k in range(10)]

    words = await asyncio.gather(*[h.words(*each, consumer=f"w{k}") for k, each in enumerate(asks)])

    assert [sum(each[n] == "ok" for each in words) for n in range(20)] == [1] * 20


async def test_permits_do_not_become_fewer_when_workers_die(h: LimiterByHand):
    """M07: of 600 jobs one in fifty dies with its permit, and at the end as many run at once as at the beginning."""
    chance, ten = random.Random(7), limit("ten", 10)
    starts: Counter[int] = Counter()
    at_once, ready, done = [], list(range(600)), set[int]()
    running: list[int] = []
    while len(done) < 600:
        turn, ready = ready, []
        for n in turn:
            starts[n] += 1
        asks = [ask(n, ten, start=starts[n]) for n in turn]
        running += [n for n, word in zip(turn, await h.words(*asks), strict=True) if word == "ok"]
        assert len(running) <= 10
        at_once.append(len(running))
        ended, running = running, []
        for n in ended:
            if chance.random() < 0.02:
                h.lapse(n)
                ready.append(n)  # its worker died: another one begins it anew, once its lease has ended
            else:
                done.add(n)
                ready += await h.release(n, start=starts[n])
        ready += await h.sweep()
        ready = [n for n in dict.fromkeys(ready) if n not in done]

    assert sum(at_once[-22:-2]) / 20 >= 8
    assert h.used() == {}
    assert job_id(1) not in h.redis.hgetall(h.key("tickets"))
