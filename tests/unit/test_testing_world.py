"""A world in memory: the real relay, scripts and worker, one clock for all of them, and faults that were planned."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import fakeredis
import pytest

from redisjobs import App, Context, OptionError, Retry, Snooze
from redisjobs.testing import World, capture, in_memory
from tests.support.eventually import eventually


class Shop:
    """An app with a few jobs, and how often each body was started."""

    def __init__(self) -> None:
        self.app = app = App("shop")
        self.starts: list[str] = []
        self.at: list[float] = []

        @app.job(result_ttl=timedelta(days=1))
        async def mail(to: str) -> str:
            self.starts.append(to)
            return f"to {to}"

        @app.job(retry=[60, 3600], max_attempts=3)
        async def flaky(until: int) -> None:
            self.starts.append("flaky")
            if self.starts.count("flaky") < until:
                raise ValueError("not yet")

        @app.job(queue="slow")
        def in_a_thread(name: str) -> None:
            self.starts.append(f"{name} in {threading.current_thread().name.rpartition('-')[0]}")

        self.mail, self.flaky, self.in_a_thread = mail, flaky, in_a_thread


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def world(shop: Shop) -> AsyncIterator[World]:
    async with in_memory(shop.app) as made:
        yield made


async def test_what_is_committed_runs_and_its_result_is_there(shop: Shop, world: World):
    async with world.connect() as connection:
        handle = await shop.mail.enqueue(connection, "a")
        other = await shop.in_a_thread.enqueue(connection, "b")
        async with connection.transaction(force_rollback=True):
            await shop.mail.enqueue(connection, "never")
        assert shop.starts == []
    await world.settle()

    assert sorted(shop.starts) == ["a", "b in redisjobs-body"]
    assert await handle.result() == "to a"
    assert [world.state(each).state for each in (handle, other)] == ["done", "done"]


async def test_code_that_does_not_await_enqueues_too(shop: Shop, world: World):
    def place_order() -> None:
        with world.connect_sync(autocommit=True) as connection:
            shop.mail.enqueue(connection, "a")

    await asyncio.to_thread(place_order)
    await world.settle()

    assert shop.starts == ["a"]


async def test_a_rolled_back_job_is_not_known(shop: Shop, world: World):
    connection = world.connect()
    handle = await shop.mail.enqueue(connection, "a")
    await connection.rollback()
    await world.settle()

    with pytest.raises(LookupError, match="rolled back"):
        world.state(handle)
    assert shop.starts == []


async def test_nothing_that_waits_for_time_runs_before_the_clock_is_turned(shop: Shop, world: World):
    began = time.monotonic()
    async with world.connect() as connection:
        soon = await shop.mail.using(delay=90).enqueue(connection, "soon")
        far = await shop.mail.using(delay=timedelta(days=40)).enqueue(connection, "far")
    await world.settle()
    assert [world.state(each).state for each in (soon, far)] == ["published", "deferred"]
    await world.advance(seconds=89)
    assert shop.starts == []
    await world.advance(seconds=1)
    assert shop.starts == ["soon"]

    await world.advance(days=40)
    assert shop.starts == ["soon", "far"]
    assert time.monotonic() - began < 30


async def test_each_retry_comes_at_its_own_moment_while_the_clock_is_turned(shop: Shop, world: World):
    moments: list[float] = []

    @shop.app.job(retry=[60, 3600], max_attempts=3)
    async def fails() -> None:
        moments.append(world.clock.time())
        raise ValueError("no")

    began = world.clock.time()
    async with world.connect() as connection:
        handle = await fails.enqueue(connection)
    await world.settle()
    assert (world.state(handle).state, world.state(handle).attempts) == ("retrying", 1)

    await world.advance(hours=3)

    assert [round(moment - began) for moment in moments] == [0, 60, 3660]
    assert (world.state(handle).state, world.state(handle).attempts) == ("dead", 3)
    assert world.state(handle).reason == "attempt 3 of 3 failed"


async def test_a_leap_of_the_clock_lets_what_was_due_run_late(shop: Shop, world: World):
    async with world.connect() as connection:
        handle = await shop.mail.using(delay=60, expires=120).enqueue(connection, "a")
    await world.settle()

    world.clock.advance(minutes=3)
    await world.settle()

    assert world.state(handle).state == "expired"
    assert shop.starts == []
    with pytest.raises(OptionError, match="back"):
        world.clock.advance(-1)


async def test_a_window_of_an_idempotency_key_ends_with_the_clock(shop: Shop, world: World):
    async def enqueue() -> str:
        async with world.connect() as connection:
            handle = await shop.mail.using(idempotency_key="k", window=3600).enqueue(connection, "a")
        await world.settle()
        return world.state(handle).state

    assert [await enqueue(), await enqueue()] == ["done", "deduplicated"]
    await world.advance(minutes=59)
    assert await enqueue() == "deduplicated"
    await world.advance(minutes=2)
    assert await enqueue() == "done"


async def test_a_cancel_ends_what_waits(shop: Shop, world: World):
    async with world.connect() as connection:
        handle = await shop.mail.using(delay=60).enqueue(connection, "a")
    await world.settle()
    async with world.connect() as connection:
        assert await shop.app.cancel(connection, handle.id) == "requested"

    await world.advance(minutes=5)

    assert (world.state(handle).state, shop.starts) == ("cancelled", [])


async def test_direct_calls_go_by_the_same_clock(shop: Shop, world: World):
    world.clock.advance(days=3)
    await shop.mail.enqueue_direct("now")
    await shop.mail.using(run_at=world.clock.now() + timedelta(hours=1)).enqueue_direct("later")
    await world.settle()
    assert shop.starts == ["now"]

    await world.advance(hours=1)
    assert shop.starts == ["now", "later"]


async def test_jobs_that_jobs_enqueue_run_too(shop: Shop, world: World):
    @shop.app.job
    async def countdown(n: int) -> None:
        shop.starts.append(str(n))
        if n:
            async with world.connect() as connection:
                await countdown.enqueue(connection, n - 1)

    async with world.connect() as connection:
        await countdown.enqueue(connection, 3)
    await world.settle()

    assert shop.starts == ["3", "2", "1", "0"]


async def test_jobs_without_an_end_are_told_of(shop: Shop, world: World):
    @shop.app.job(name="restless")
    async def restless() -> None:
        raise Snooze(0)

    async with world.connect() as connection:
        await restless.enqueue(connection)

    with pytest.raises(AssertionError, match=r"no rest after .*: restless is"):
        await world.settle(most=20)


async def test_the_calls_of_a_world_can_be_captured(shop: Shop, world: World):
    with capture(shop.app) as enqueued:
        async with world.connect() as connection:
            await shop.mail.enqueue(connection, "a")
        await shop.mail.enqueue_direct("b")
    await world.settle()

    assert [each.arguments["to"] for each in enqueued(shop.mail)] == ["a", "b"]
    assert sorted(shop.starts) == ["a", "b"]


# -- faults
@pytest.mark.parametrize("call", ["publish", "take", "finish", "settled"])
@pytest.mark.parametrize("kind", ["lose_reply", "lose_request"])
async def test_no_lost_reply_and_no_lost_request_makes_a_body_run_twice(shop: Shop, world: World, call: str, kind: str):
    fault = getattr(world.faults, kind)(call)
    async with world.connect() as connection:
        handles = [await shop.mail.enqueue(connection, f"{n}") for n in range(3)]
    await world.settle()

    assert sorted(shop.starts) == ["0", "1", "2"]
    assert {world.state(handle).state for handle in handles} == {"done"}
    assert fault.happened == 1


async def test_a_worker_that_dies_before_its_finish_makes_the_body_run_again(shop: Shop, world: World):
    world.faults.crash_worker()
    async with world.connect() as connection:
        handle = await shop.mail.enqueue(connection, "a")
    await world.settle()
    assert (shop.starts, world.state(handle).state) == (["a"], "published")

    await world.advance(minutes=1)

    assert (shop.starts, world.state(handle).state) == (["a", "a"], "done")


async def test_a_worker_that_dies_after_its_take_loses_only_time(shop: Shop, world: World):
    world.faults.crash_worker(after="take")
    async with world.connect() as connection:
        handle = await shop.mail.enqueue(connection, "a")
    await world.settle()
    assert shop.starts == []

    await world.advance(minutes=1)

    assert (shop.starts, world.state(handle).state) == (["a"], "done")


async def test_after_the_last_lost_lease_the_job_is_a_dead_letter(shop: Shop):
    async with in_memory(shop.app, max_losses=2, visibility_timeout=10) as world:
        for nth in (1, 2):
            world.faults.crash_worker(nth=nth)
        async with world.connect() as connection:
            handle = await shop.mail.enqueue(connection, "a")
        await world.advance(minutes=2)

        assert (shop.starts, world.state(handle).state) == (["a", "a"], "dead")


async def test_a_redis_that_loses_its_data_loses_no_job(shop: Shop, world: World):
    async with world.connect() as connection:
        handles = [await shop.mail.using(delay=60 * n).enqueue(connection, f"{n}") for n in range(4)]
    await world.advance(seconds=60)
    await world.flushall()
    await world.advance(hours=1)

    assert shop.starts == ["0", "1", "2", "3"]
    assert {world.state(handle).state for handle in handles} == {"done"}


@pytest.mark.parametrize(
    ("plan", "starts"),
    [
        pytest.param({"before": "take"}, 1, id="before it was taken"),
        pytest.param({"after": "take"}, 2, id="while it runs"),
        pytest.param({"after": "finish"}, 2, id="with its outcome"),
        pytest.param({"before": "settled"}, 1, id="when its outcome is in Postgres"),
        pytest.param({}, 2, id="with its outcome, by default"),
    ],
)
async def test_a_redis_that_is_emptied_at_the_worst_moment_loses_no_job_and_may_make_it_run_again(
    shop: Shop, world: World, plan: dict[str, str], starts: int
):
    async with world.connect() as connection:
        await shop.mail.enqueue(connection, "before")
    await world.settle()
    world.faults.flushall(**plan)  # type: ignore[arg-type]  # none of them is nth
    async with world.connect() as connection:
        handle = await shop.mail.enqueue(connection, "a")
    await world.advance(minutes=2)

    assert (shop.starts.count("a"), world.state(handle).state) == (starts, "done")


async def test_another_schema_and_prefix_make_no_difference(shop: Shop):
    app = App("shop", schema="Other_Jobs", prefix="other")
    mail = app.job(name="mail")(shop.mail.function)
    async with in_memory(app) as world:
        async with world.connect() as connection:
            handle = await mail.enqueue(connection, "a")
        await world.flushall()
        await world.settle()

        assert world.state(handle).state == "done"


async def test_a_fault_that_never_happens_fails_the_test(shop: Shop):
    with pytest.raises(AssertionError, match=r"did not happen.*lose_reply\('finish', nth=1, times=1\)"):
        async with in_memory(shop.app) as world:
            world.faults.lose_reply("finish")
    with pytest.raises(LookupError):  # what the block raises goes before
        async with in_memory(shop.app) as world:
            world.faults.lose_reply("finish")
            raise LookupError


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (lambda faults: faults.lose_reply("finnish"), "is no call to Redis: pass one of adjust, admit, adopt, audit"),
        (lambda faults: faults.lose_request("take", nth=0), "nth"),
        (lambda faults: faults.lose_request("take", times=0), "times"),
        (lambda faults: faults.crash_worker(before="publish"), "is none of a worker"),
        (lambda faults: faults.crash_worker(before="take", after="take"), "pass one of them"),
    ],
)
async def test_a_fault_that_cannot_be_is_refused(world: World, plan, message: str):
    with pytest.raises(OptionError, match=message):
        plan(world.faults)


async def test_each_worker_enters_the_lifespan_of_the_app_and_leaves_it_in_the_end():
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[str]:
        seen.append("enter")
        yield "state"
        seen.append("leave")

    app = App("shop", lifespan=lifespan)

    @app.job
    async def body(ctx: Context[str]) -> None:
        seen.append(ctx.state)

    async with in_memory(app) as world:
        world.faults.crash_worker()
        async with world.connect() as connection:
            await body.enqueue(connection)
        await world.advance(minutes=1)

    assert seen == ["enter", "state", "leave", "enter", "state", "leave"]


# -- the end
async def test_nothing_is_left_behind(shop: Shop):
    def running() -> Counter[str]:
        return Counter(each.name for each in threading.enumerate())

    stores, tasks, threads = shop.app.stores, asyncio.all_tasks(), running()
    for _ in range(3):
        async with in_memory(shop.app) as world:
            async with world.connect() as connection:
                await shop.mail.enqueue(connection, "a")
                await shop.in_a_thread.enqueue(connection, "b")
            await world.settle()
        assert shop.app.stores is stores

    assert asyncio.all_tasks() == tasks
    # those of earlier tests may end meanwhile
    await eventually(lambda: not running() - threads, "its threads have ended")


async def test_other_servers_of_fakeredis_keep_the_time_of_the_machine(world: World):
    world.clock.advance(days=100)
    other = fakeredis.FakeAsyncRedis()

    seconds, _ = await other.time()
    await other.aclose()

    assert abs(int(seconds) - time.time()) < 60


def test_without_the_extra_the_message_names_it():
    code = (
        "import sys; sys.modules['fakeredis'] = None\n"
        "from redisjobs import App\nfrom redisjobs.testing import capture, in_memory, run\nin_memory(App())"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert "ConfigurationError: the stores in memory need fakeredis and lupa" in ended.stderr
    assert "pip install 'redisjobs-pg[testing]'" in ended.stderr


async def test_a_body_that_never_ends_is_named(shop: Shop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("redisjobs.testing.world.PATIENCE_S", 1.0)

    @shop.app.job(name="endless")
    async def endless(ctx: Context) -> None:
        await asyncio.Event().wait()
        raise Retry

    async with in_memory(shop.app) as world:
        async with world.connect() as connection:
            await endless.enqueue(connection)
        with pytest.raises(AssertionError, match="this still runs: endless"):
            await world.settle()
