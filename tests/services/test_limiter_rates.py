"""Rates over the whole fleet (L3): so many starts in a period, wherever it begins, in the order of coming.

A fleet is played by the clock of the test kit, which runs the same scripts: hours in a moment, and to the millisecond.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from redisjobs.broker import Limiter, Rate, Want, Woken
from redisjobs.testing.clock import TurnedClock
from redisjobs.testing.fake import FakeRedis
from redisjobs.testing.faults import Faults
from tests.support.limiting import LimiterByHand, ask, limit, rate
from tests.support.redis_versions import AnyRedis

SWEEP_MS = 1000


class Fleet:
    """Workers that begin each job as soon as they may, and so many ms too late.

    Attributes:
        starts: ms at which jobs began, and which. asked: how often each was begun.
    """

    def __init__(self, late_ms: Callable[[int], int] = lambda _: 0, lasts_ms: int = 0) -> None:
        self.clock = TurnedClock()
        self.redis = FakeRedis(self.clock, Faults(self._never), "rj")
        self.limiter = Limiter(self.redis.client)
        self.starts: list[tuple[int, int]] = []
        self.asked: Counter[int] = Counter()
        self.running = self.most_running = 0
        self._begun = self.clock.time()
        self._late_ms, self._lasts_ms = late_ms, lasts_ms
        self._wants: dict[int, tuple[Want, ...]] = {}
        self._events: list[tuple[int, int, str, int]] = []
        self._made = 0

    async def _never(self) -> None:
        raise AssertionError

    def now_ms(self) -> int:
        return round((self.clock.time() - self._begun) * 1000)

    def put(self, at_ms: int, *wants: Want, jobs: int = 1) -> None:
        for _ in range(jobs):
            n = len(self._wants) + 1
            self._wants[n] = wants
            self._push(at_ms, "ask", n)

    def _push(self, at_ms: int, what: str, n: int) -> None:
        self._made += 1
        heapq.heappush(self._events, (at_ms, self._made, what, n))

    async def run(self, until_ms: int) -> None:
        """Play until then, or until every job has run."""
        if not any(what == "sweep" for _, _, what, _ in self._events):
            self._push(self.now_ms(), "sweep", 0)
        while self._events[0][0] <= until_ms and len(self.starts) < len(self._wants):
            at_ms, _, what, n = heapq.heappop(self._events)
            self.clock.advance(max(0, at_ms - self.now_ms()) / 1000)
            await getattr(self, f"_{what}")(n)

    async def _sweep(self, _: int) -> None:
        self._come(await self.limiter.sweep("w1", SWEEP_MS))
        self._push(self.now_ms() + SWEEP_MS, "sweep", 0)

    async def _ask(self, n: int) -> None:
        self.asked[n] += 1
        (verdict,) = await self.limiter.admit("w1", [ask(n, *self._wants[n], start=self.asked[n])], 600_000)
        if verdict.word == "ok":
            self.starts.append((self.now_ms(), n))
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            self._push(self.now_ms() + self._lasts_ms, "end", n)
        elif verdict.word == "later":
            self._push(self._late(verdict.delay_ms), "ask", n)

    async def _end(self, n: int) -> None:
        self.running -= 1
        self._come(await self.limiter.release("w1", [(n.to_bytes(16), self.asked[n])]))

    def _come(self, woken: Sequence[Woken]) -> None:
        for each in woken:
            self._push(self._late(each.delay_ms), "ask", int.from_bytes(each.job_id))

    def _late(self, delay_ms: int) -> int:
        due = self.now_ms() + delay_ms
        return due + self._late_ms(due)

    def most_in(self, period_ms: int) -> int:
        """The most starts in any such period, half open."""
        most, first = 0, 0
        for last, (at, _) in enumerate(self.starts):
            while at - self.starts[first][0] >= period_ms - 1:
                first += 1
            most = max(most, last - first + 1)
        return most


def order(fleet: Fleet) -> list[int]:
    return [n for _, n in fleet.starts]


@pytest.mark.parametrize(("count", "period_ms", "burst"), [(10, 1000, 0), (30, 10_000, 3), (7, 1000, 9)])
async def test_each_comes_back_once_in_its_order_and_as_fast_as_is_allowed(count: int, period_ms: int, burst: int):
    fleet, space = Fleet(), period_ms / count
    fleet.put(0, rate("api", count, period_ms, burst), jobs=30)

    await fleet.run(3_600_000)

    assert order(fleet) == list(range(1, 31))
    assert set(fleet.asked.values()) <= {1, 2}, "begun once, and once more when its time has come"
    assert fleet.most_in(period_ms) <= count + burst
    assert (30 - burst - 1) * space <= fleet.starts[-1][0] <= (30 - burst - 1) * space + 30


@pytest.mark.parametrize(("count", "burst"), [(10, 0), (10, 3), (40, 20)])
async def test_never_more_than_the_rate_however_late_workers_come(count: int, burst: int):
    """They come late by up to a second, nobody comes for four seconds, and new ones come all the time."""
    chance = random.Random(count + burst)
    fleet = Fleet(lambda due: chance.randrange(chance.choice((5, 50, 1000))) + max(0, 6_000 - due) * (due > 2_000))
    for _ in range(18):
        fleet.put(chance.randrange(10_000), rate("api", count, 1000, burst), jobs=chance.choice((1, 1, 10)))

    await fleet.run(3_600_000)

    assert len(fleet.starts) == len(fleet.asked), "all have begun"
    assert fleet.most_in(1000) <= count + burst
    assert sum(fleet.asked.values()) < 4.5 * len(fleet.asked), "nobody is sent to and fro"


async def test_a_rate_and_a_limit_together_let_both_hold():
    fleet = Fleet(lasts_ms=900)
    fleet.put(0, limit("calls", 2), rate("api", 5, 1000, 1), jobs=20)
    fleet.put(0, rate("api", 5, 1000, 1), jobs=10)

    await fleet.run(3_600_000)

    assert fleet.most_in(1000) <= 6
    assert len(fleet.starts) == 30
    assert fleet.starts[-1][0] < 20 * 900 / 2 + 3_000, "neither lets the other go to waste"


async def test_keys_of_a_rate_have_a_line_each():
    fleet = Fleet()
    for tenant in range(3):
        fleet.put(0, rate(f"tenant:{tenant}", 1, 10_000), jobs=4)

    await fleet.run(3_600_000)

    assert fleet.starts[-1][0] < 30_100
    assert set(fleet.asked.values()) <= {1, 2}


async def test_a_key_that_is_eased_starts_nothing_and_then_one_after_the_other():
    fleet, want = Fleet(), rate("api", 10, 1000, burst=9)
    fleet.put(0, want)
    await fleet.run(5)
    assert await fleet.limiter.ease("api", 30_000) == 30_000
    assert await fleet.limiter.ease("api", 5_000) == 30_000, "never shorter than told before"
    fleet.put(100, want, jobs=8)

    await fleet.run(3_600_000)

    times = [at for at, _ in fleet.starts[1:]]
    assert times[0] >= 30_000
    assert times[0] < 30_010
    assert all(later - earlier >= 99 for earlier, later in itertools.pairwise(times)), "no burst after a pause"
    assert set(fleet.asked.values()) <= {1, 2}


async def test_a_limit_can_be_eased_too_and_that_can_be_taken_back():
    fleet = Fleet()
    await fleet.limiter.ease("few:1", 600_000)
    fleet.put(0, limit("few:1", 2), jobs=2)
    fleet.put(0, limit("few:2", 2), jobs=1)
    await fleet.run(10_000)
    assert order(fleet) == [3]

    assert await fleet.limiter.ease("few:1", 0) == 0
    await fleet.run(20_000)

    assert sorted(order(fleet)) == [1, 2, 3]


async def test_a_rate_that_is_raised_counts_for_those_who_wait():
    fleet = Fleet()
    fleet.put(0, rate("api", 1, 3_600_000), jobs=20)
    await fleet.run(5_000)
    assert len(fleet.starts) == 1

    await fleet.limiter.set_limit("api", rate=Rate(10, 1000, 0))
    await fleet.run(10_000)

    assert len(fleet.starts) == 20
    assert fleet.most_in(1000) <= 10


async def test_who_was_cancelled_while_it_waited_takes_no_start_from_others():
    fleet = Fleet()
    fleet.put(0, rate("api", 1, 1000), jobs=12)
    await fleet.run(500)
    gone = set(range(5, 13))
    fleet._wants = {n: wants for n, wants in fleet._wants.items() if n not in gone}
    ask_of = fleet._ask

    async def ask_if_there(n: int) -> None:
        if n in gone:
            fleet._come(await fleet.limiter.release("w1", [(n.to_bytes(16), 0)]))
        else:
            await ask_of(n)

    fleet._ask = ask_if_there  # type: ignore[method-assign]
    fleet._wants[13] = fleet._wants[1]
    fleet._push(600, "ask", 13)

    await fleet.run(3_600_000)

    assert order(fleet) == [1, 2, 3, 4, 13]
    assert fleet.starts[-1][0] < 10_000


@pytest.fixture
async def h(any_redis: AnyRedis) -> AsyncIterator[LimiterByHand]:
    async with LimiterByHand(any_redis.url) as opened:
        yield opened


async def test_a_start_that_was_answered_counts_once(h: LimiterByHand):
    slow = rate("api", 1, 3_600_000, burst=2)

    for _ in range(3):
        assert await h.words(ask(1, slow), ask(2, slow), ask(3, slow), ask(4, slow)) == ["ok", "ok", "ok", "wait"]

    assert await h.release(1, 2, 3) == []
    assert h.used() == {}


async def test_what_a_rate_leaves_behind_goes_when_it_says_nothing_more(h: LimiterByHand):
    quick = rate("api", 1, 10)
    first, second = await h.admit(ask(1, quick), ask(2, quick))
    assert (first.word, second.word) == ("ok", "later")
    assert second.delay_ms <= 10
    assert await h.release(1) == []
    assert await h.gone(2) == []

    while h.left():
        assert await h.sweep() == []


async def test_starts_are_rates_only_and_hold_nothing():
    assert not ask(1, rate("api", 1, 1000)).holds
    assert ask(1, rate("api", 1, 1000), limit("few", 2)).holds
