"""Limits over the whole fleet: permits are leases, who waits stands in a line, and who is first is told to come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from redisjobs.broker import Verdict, Woken
from redisjobs.errors import OptionError
from tests.support.eventually import eventually
from tests.support.limiting import LimiterByHand, ask, job_id, limit
from tests.support.redis_versions import AnyRedis

ONE, TWO = limit("one"), limit("two", 2)


@pytest.fixture
async def h(any_redis: AnyRedis) -> AsyncIterator[LimiterByHand]:
    async with LimiterByHand(any_redis.url) as opened:
        yield opened


# -- N at once (L1), in the order of coming (L2)
async def test_as_many_as_the_limit_begin_and_the_others_come_in_their_order(h: LimiterByHand):
    assert await h.words(*[ask(n, TWO) for n in range(5)]) == ["ok", "ok", "wait", "wait", "wait"]
    assert h.used() == {"two": 2}

    assert await h.release(0) == [2]
    assert await h.words(ask(9, TWO), ask(2, TWO, start=2)) == ["wait", "ok"]
    assert await h.release(1) == [3]
    assert await h.words(ask(3, TWO, start=2)) == ["ok"]
    assert await h.release(2, 3, start=2) == [4, 9]
    assert await h.words(ask(9, TWO, start=2), ask(4, TWO, start=2)) == ["ok", "ok"]
    assert await h.release(4, 9, start=2) == []

    assert h.left() == {}


async def test_the_verdict_names_the_limit_and_the_woken_their_queue(h: LimiterByHand):
    await h.admit(ask(1, TWO, ONE))
    assert await h.admit(ask(2, TWO, ONE, queue="mail")) == [Verdict("wait", 0, "one")]

    assert await h.limiter.release("w1", [(job_id(1), 1)]) == [Woken("mail", job_id(2), 0)]


async def test_a_place_that_is_kept_is_taken_by_nobody_else(h: LimiterByHand):
    await h.admit(ask(1, ONE), ask(2, ONE))
    assert await h.release(1) == [2]

    assert await h.words(ask(3, ONE)) == ["wait"]
    assert (h.state(2), h.used()) == ("r", {"one": 1})


async def test_keys_of_a_limit_are_counted_apart(h: LimiterByHand):
    mine, yours = limit("tenant:1"), limit("tenant:10")

    assert await h.words(ask(1, mine), ask(2, yours), ask(3, mine), ask(4, yours)) == ["ok", "ok", "wait", "wait"]
    assert await h.release(2) == [4]


# -- the lease
async def test_a_permit_lapses_with_its_lease_and_the_next_one_gets_it(h: LimiterByHand):
    """M02: killed holders keep no slot."""
    assert await h.words(ask(1, ONE), ask(2, ONE), lease_ms=1) == ["ok", "wait"]

    assert await eventually(h.sweep, "its lease has lapsed") == [2]
    assert h.hold(1) == {1}


async def test_a_renewed_permit_does_not_lapse(h: LimiterByHand):
    await h.admit(ask(1, ONE), ask(2, ONE), lease_ms=1)
    await asyncio.sleep(0.002)

    assert h.hold(1) == set()
    assert await h.sweep() == []


async def test_a_lapsed_permit_that_nobody_took_is_taken_again(h: LimiterByHand):
    await h.admit(ask(1, ONE))
    h.lapse(1)
    assert await h.sweep() == []
    assert (h.state(1), h.used()) == ("x", {})

    assert h.hold(1) == set()

    assert (h.state(1), h.used()) == ("h", {"one": 1})
    assert await h.words(ask(2, ONE)) == ["wait"]


async def test_a_lapsed_permit_that_another_has_is_lost(h: LimiterByHand):
    """M01: a holder thought dead cannot give back twice."""
    await h.admit(ask(1, ONE))
    h.lapse(1)
    await h.sweep()
    assert await h.words(ask(2, ONE), ask(3, ONE), consumer="w2") == ["ok", "wait"]

    assert h.hold(1) == {1}
    assert await h.release(1) == []
    assert await h.release(1) == []

    assert h.used() == {"one": 1}
    assert await h.words(ask(4, ONE)) == ["wait"]


async def test_what_nobody_takes_again_is_forgotten(h: LimiterByHand):
    await h.admit(ask(1, ONE))
    for _ in range(2):
        h.lapse(1)
        await h.sweep()

    assert h.left() == {}
    assert h.hold(1) == {1}


async def test_a_later_start_takes_the_permit_of_the_former(h: LimiterByHand):
    await h.admit(ask(1, ONE), ask(2, ONE))

    assert await h.words(ask(1, ONE, start=2), consumer="w2") == ["ok"]

    assert h.hold(1) == {1}
    assert await h.release(1) == []
    assert await h.words(ask(1, ONE)) == ["wait"], "the former start comes late"
    assert h.hold(1, start=2, consumer="w2") == set()
    assert await h.release(1, start=2, consumer="w2") == [2]


async def test_only_who_has_a_permit_renews_and_gives_it_back(h: LimiterByHand):
    await h.admit(ask(1, ONE), ask(2, ONE))

    assert h.hold(1, consumer="w2") == {1}
    assert h.hold(1, start=2) == {1}
    assert h.hold(2) == {2}
    assert await h.release(1, consumer="w2") == []
    assert await h.release(1, start=2) == []
    assert h.used() == {"one": 1}


# -- replies that are lost
async def test_every_call_may_be_repeated(h: LimiterByHand):
    for _ in range(3):
        assert await h.words(ask(1, ONE), ask(2, ONE), ask(3, ONE)) == ["ok", "wait", "wait"]
    assert await h.release(1) == [2]
    assert await h.release(1) == []
    for _ in range(3):
        assert await h.words(ask(2, ONE, start=2)) == ["ok"]
        assert h.used() == {"one": 1}
    assert await h.release(1) == []
    assert await h.release(2, start=2) == [3]
    assert await h.gone(3) == []
    assert await h.gone(3) == []
    assert h.left() == {}


async def test_a_word_that_was_lost_is_told_again_and_the_place_is_kept(h: LimiterByHand):
    await h.admit(ask(1, ONE), ask(2, ONE), ask(3, ONE))
    assert await h.release(1) == [2]
    h.lapse(2)

    assert await h.sweep() == [2]
    assert h.used() == {}
    assert await h.words(ask(2, ONE, start=2)) == ["ok"], "it came late, and before 3 in the line"
    assert await h.sweep() == []
    assert await h.release(2, start=2) == [3]


async def test_a_late_one_is_told_until_it_comes_or_is_known_to_be_gone(h: LimiterByHand):
    await h.admit(ask(1, ONE), ask(2, ONE))
    await h.release(1)
    for _ in range(3):
        h.lapse(2)
        assert await h.sweep() == [2]
    assert await h.sweep() == []

    assert await h.gone(2) == []

    await h.sweep()
    assert h.left() == {}


async def test_a_job_that_is_gone_gives_its_place_to_the_next(h: LimiterByHand):
    await h.admit(ask(1, ONE), ask(2, ONE), ask(3, ONE), ask(4, ONE))

    assert await h.release(1) == [2]
    assert await h.gone(2) == [3]
    assert await h.gone(4) == [], "it stands in the line and was not told"
    assert await h.gone(3) == [4]


# -- several at once, all or none
async def test_all_limits_of_a_job_or_none(h: LimiterByHand):
    await h.admit(ask(1, ONE))

    assert await h.admit(ask(2, TWO, ONE)) == [Verdict("wait", 0, "one")]
    assert h.used() == {"one": 1}
    assert await h.words(ask(3, TWO), ask(4, TWO)) == ["ok", "ok"]
    assert await h.release(1) == []
    assert await h.words(ask(5, ONE)) == ["ok"], "2 waits for another limit now, and holds nothing of this one"
    assert await h.release(3) == []
    assert await h.release(5) == [2]
    assert h.used() == {"one": 1, "two": 2}


async def test_who_needs_two_busy_limits_gets_them_though_each_has_a_line(h: LimiterByHand):
    a, b = limit("a"), limit("b")
    await h.admit(ask(1, a), ask(2, b), ask(3, a, b))
    running, begun = {"a": 1, "b": 2}, 3
    for turn in range(12):
        name, want = ("a", a) if turn % 2 == 0 else ("b", b)
        begun += 1
        await h.admit(ask(begun, want))
        woken = await h.release(running[name])
        if 3 in woken:
            return
        if woken:
            assert await h.words(ask(woken[0], want)) == ["ok"]
            running[name] = woken[0]
    pytest.fail("it waited in vain: each limit went to others again and again")


async def test_a_heavy_one_at_the_head_is_not_passed_by_light_ones(h: LimiterByHand):
    heavy, light = limit("many", 4, weight=4), limit("many", 4)
    assert await h.words(ask(1, light), ask(2, heavy), ask(3, light)) == ["ok", "wait", "wait"]

    assert await h.release(1) == [2]
    assert h.used() == {"many": 4}
    assert await h.words(ask(2, heavy, start=2)) == ["ok"]
    assert await h.release(2, start=2) == [3]


async def test_a_weight_above_the_limit_takes_the_whole(h: LimiterByHand):
    assert await h.words(ask(1, limit("few", 2, weight=5)), ask(2, limit("few", 2))) == ["ok", "wait"]
    assert h.used() == {"few": 2}
    assert await h.release(1) == [2]


# -- what nobody releases, and is free all the same
async def test_who_comes_by_itself_and_goes_to_another_line_lets_the_next_one_begin(h: LimiterByHand):
    many, heavy, light = limit("many", 4, weight=2), limit("many", 4, weight=4), limit("many", 4)
    await h.admit(ask(1, many), ask(2, ONE), ask(3, heavy, ONE), ask(4, light))
    assert await h.sweep() == []

    assert await h.admit(ask(3, ONE, heavy, start=2)) == [Verdict("wait", 0, "one")]

    assert await h.sweep() == [4]


async def test_what_was_reserved_for_a_job_that_wants_it_no_more_goes_to_the_next(h: LimiterByHand):
    await h.admit(ask(1, ONE), ask(2, ONE), ask(3, ONE))
    assert await h.release(1) == [2]

    assert await h.words(ask(2, TWO, start=2)) == ["ok"], "its code is of another release now"

    assert await h.sweep() == [3]


# -- set at run time
async def test_a_limit_that_is_raised_wakes_its_lines_at_the_next_sweep(h: LimiterByHand):
    keys = [limit(f"tenant:{n}") for n in range(3)]
    await h.admit(*[ask(10 * n + k, want) for k in range(3) for n, want in enumerate(keys)])

    await h.limiter.set_limit("tenant", most=2)

    assert sorted(await h.sweep()) == [1, 11, 21]
    assert await h.words(ask(5, limit("tenant:9")), ask(6, limit("tenant:9")), ask(7, limit("tenant:9"))) == [
        "ok", "ok", "wait",
    ]  # fmt: skip


async def test_a_limit_that_is_lowered_counts_for_those_who_begin(h: LimiterByHand):
    await h.admit(ask(1, TWO), ask(2, TWO), ask(3, TWO))
    await h.limiter.set_limit("two", most=1)

    assert h.hold(1, 2) == set()
    assert await h.release(1) == []
    assert await h.release(2) == [3]
    await h.limiter.unset_limit("two")
    assert await h.words(ask(4, TWO)) == ["ok"]


async def test_zero_lets_nothing_begin_until_it_is_taken_back(h: LimiterByHand):
    await h.limiter.set_limit("one", most=0)
    assert await h.words(ask(1, ONE), ask(2, ONE)) == ["wait", "wait"]
    assert await h.sweep() == []

    await h.limiter.unset_limit("one")

    assert await h.sweep() == [1]


async def test_two_releases_of_the_code_each_go_by_their_own_limit(h: LimiterByHand):
    assert await h.words(ask(1, limit("l", 1)), ask(2, limit("l", 1)), ask(3, limit("l", 3))) == ["ok", "wait", "wait"]
    assert await h.release(1) == [2, 3]


async def test_a_limit_that_cannot_be_is_refused(h: LimiterByHand):
    with pytest.raises(OptionError, match="most"):
        await h.limiter.set_limit("one")
    with pytest.raises(OptionError, match="no name"):
        await h.limiter.set_limit("one:more", most=1)
    with pytest.raises(OptionError, match="most"):
        await h.limiter.set_limit("one", most=-1)
    assert h.left() == {}
