"""Throttle, debounce and singleton on the whole road in memory, by a clock that is turned (rule L3; cases M08, M09)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from redisjobs import App, Call, Context, Debounce, Handle, ResultTimeout, Throttle
from redisjobs.testing import World, in_memory


class Shop:
    """An app whose bodies note when they ran, in seconds since the beginning."""

    def __init__(self) -> None:
        self.app = app = App("shop")
        self.world: World | None = None
        self.began: Any = None
        self.ran: list[tuple[str, int]] = []

        @app.job(throttle=Throttle(period=60, key="user"), result_ttl=3600)
        async def sync(user: str, n: int = 0) -> int:
            self.note(f"{user}{n}")
            return n

        @app.job(debounce=Debounce(wait=10, longest=30, key="user"), result_ttl=3600)
        async def index(user: str, n: int = 0) -> int:
            self.note(f"{user}{n}")
            return n

        @app.job(singleton="replace")
        async def build(ctx: Context, n: int) -> None:
            await ctx.sleep("a while", timedelta(hours=1))
            self.note(f"build{n}")

        @app.job(result_ttl=3600)
        async def report(ctx: Context, n: int) -> int:
            await ctx.sleep("a while", 60)
            return n

        self.sync, self.index, self.build, self.report = sync, index, build, report

    def note(self, what: str) -> None:
        assert self.world is not None
        self.ran.append((what, round((self.world.clock.now() - self.began).total_seconds())))


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def world(shop: Shop) -> AsyncIterator[World]:
    async with in_memory(shop.app) as made:
        shop.world, shop.began = made, made.clock.now()
        yield made


async def commit(shop: Shop, *calls: Call[Any], rollback: bool = False) -> list[Handle[Any]]:
    assert shop.world is not None
    async with shop.world.connect() as connection, connection.transaction(force_rollback=rollback):
        handles = await shop.app.enqueue(connection, *calls)
    await shop.world.settle()
    return handles


def states(world: World, handles: list[Handle[Any]]) -> list[str]:
    return [world.state(each).state for each in handles]


async def test_one_run_of_a_throttled_key_begins_in_each_period_and_the_first_call_is_it(shop: Shop, world: World):
    first = await commit(shop, *(shop.sync.call("a", n) for n in range(3)), shop.sync.call("b"))
    await world.advance(59)
    late = await commit(shop, shop.sync.call("a", 3))
    await world.advance(1)
    await commit(shop, shop.sync.call("a", 4), shop.sync.call("a", 5))

    assert shop.ran == [("a0", 0), ("b0", 0), ("a4", 60)]
    assert states(world, [*first, *late]) == ["done", "deduplicated", "deduplicated", "done", "deduplicated"]


async def test_whoever_waits_for_a_throttled_call_gets_the_result_of_the_one_that_ran(shop: Shop, world: World):
    [first, second] = await commit(shop, shop.sync.call("a", 1), shop.sync.call("a", 2))

    assert first.id != second.id
    assert await second.result(timeout=5) == 1


async def test_a_call_that_is_rolled_back_throttles_and_debounces_nobody(shop: Shop, world: World):
    await commit(shop, shop.sync.call("a", 1), shop.index.call("a", 1), rollback=True)
    await commit(shop, shop.sync.call("a", 2), shop.index.call("a", 2))
    await world.advance(5)
    await commit(shop, shop.index.call("a", 3), rollback=True)
    await world.advance(30)

    assert shop.ran == [("a2", 0), ("a2", 10)]


async def test_a_burst_runs_once_with_its_last_arguments_when_it_is_quiet(shop: Shop, world: World):
    handles: list[Handle[Any]] = []
    for n in range(3):
        handles += await commit(shop, shop.index.call("a", n))
        await world.advance(9)
    other = await commit(shop, shop.index.call("b"))
    await world.advance(60)

    assert shop.ran == [("a2", 28), ("b0", 37)]
    assert states(world, [*handles, *other]) == ["deduplicated", "deduplicated", "done", "done"]
    assert [await each.result(timeout=5) for each in handles] == [2, 2, 2]


async def test_a_burst_without_end_runs_at_its_longest_and_the_next_one_begins(shop: Shop, world: World):
    for n in range(12):
        await commit(shop, shop.index.call("a", n))
        await world.advance(5)
    await world.advance(60)

    assert shop.ran == [("a5", 30), ("a11", 60)]


async def test_calls_of_one_transaction_are_a_burst(shop: Shop, world: World):
    handles = await commit(shop, *(shop.index.call("a", n) for n in range(50)))
    await world.advance(60)

    assert shop.ran == [("a49", 10)]
    assert states(world, handles) == ["deduplicated"] * 49 + ["done"]


async def test_after_redis_lost_everything_a_burst_runs_once_with_its_last_arguments(shop: Shop, world: World):
    await commit(shop, shop.index.call("a", 1))
    await world.advance(4)
    await commit(shop, shop.index.call("a", 2), shop.index.call("b", 1))
    await world.flushall()
    await world.settle()
    await commit(shop, shop.index.call("b", 2))
    await world.advance(60)

    assert sorted(shop.ran) == [("a2", 14), ("b2", 14)]


async def test_a_burst_keeps_its_longest_when_redis_loses_everything(shop: Shop, world: World):
    for n in range(5):  # until 25
        await commit(shop, shop.index.call("a", n))
        await world.advance(5)
    await world.flushall()
    await world.settle()
    await world.advance(60)

    assert shop.ran == [("a4", 30)]


async def test_a_period_goes_on_when_redis_loses_everything(shop: Shop, world: World):
    await commit(shop, shop.sync.call("a", 1))
    await world.advance(30)
    await world.flushall()
    await world.settle()
    await commit(shop, shop.sync.call("a", 2))
    await world.advance(30)
    await commit(shop, shop.sync.call("a", 3))

    assert shop.ran == [("a1", 0), ("a3", 60)]


async def test_m08_a_singleton_that_is_skipped_says_of_which_it_is_and_has_its_result(shop: Shop, world: World):
    single = shop.report.using(singleton="skip")
    [first] = await commit(shop, single.call(1))
    [second] = await commit(shop, single.call(2))
    assert states(world, [first, second]) == ["published", "deduplicated"]
    with pytest.raises(ResultTimeout):
        await second.result(timeout=0)

    await world.advance(61)

    assert await second.result(timeout=5) == 1
    [third] = await commit(shop, single.call(3))
    await world.advance(61)
    assert await third.result(timeout=5) == 3


async def test_a_direct_call_answers_with_the_handle_of_the_singleton_that_lives(shop: Shop, world: World):
    single = shop.report.using(singleton="skip")
    first = await single.enqueue_direct(1)
    second = await single.enqueue_direct(2)

    assert (second.id, second.duplicate) == (first.id, True)


async def test_a_singleton_that_is_replaced_is_cancelled_also_while_it_sleeps(shop: Shop, world: World):
    [first] = await commit(shop, shop.build.call(1))
    await world.advance(60)
    [second] = await commit(shop, shop.build.call(2))
    await world.settle()
    [third] = await commit(shop, shop.build.call(3))
    await world.advance(hours=2)

    assert states(world, [first, second, third]) == ["cancelled", "cancelled", "done"]
    assert shop.ran == [("build3", 60 + 3600)]


async def test_a_policy_of_one_call_takes_the_key_of_that_call(shop: Shop, world: World):
    replacing = shop.report.using(singleton="replace", idempotency_key="k")
    [first] = await commit(shop, replacing.call(1))
    [second] = await commit(shop, replacing.call(2))
    await world.advance(120)

    assert await second.result(timeout=5) == 2
    assert states(world, [first]) == ["cancelled"]
