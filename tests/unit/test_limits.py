"""Limits and rates as they are declared, and what a call wants of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from redisjobs import App, ConfigurationError, Context, Limit, OptionError, Rate, RateLimited
from redisjobs.limiting import Share
from redisjobs.permit import start_of
from redisjobs.testing import Inline, Limited, Succeeded, in_memory
from redisjobs.testing.faults import Faults
from tests.support.stage import delivery


def declared(app: App, **options: Any) -> Any:
    @app.job(**options)
    async def work(tenant: str = "none", size: int = 1, **rest: Any) -> None:
        pass

    return work


def shares(job: Any, **arguments: Any) -> list[tuple[str | None, str | None, int]]:
    """Of each limit of a call: its name, its key, and the weight."""
    return [(each.limit.name, each.key, each.weight) for each in job.limiting.of(arguments)]


# -- what is declared
def test_a_number_is_a_limit_of_the_job():
    assert declared(App(), limit=3).declaration.limits == (Limit(3, name="work"),)


def test_limits_and_rates_have_the_name_of_their_job_where_they_have_none():
    job = declared(App(), limit=Limit(3), rate=Rate(100, per=60), limits=[Limit(9, name="api")])

    assert [each.name for each in job.declaration.limits] == ["work", "work/rate", "api"]


def test_a_job_without_limits_has_nothing_to_ask():
    assert declared(App()).limiting is None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Limit(0), "most (0) is below 1"),
        (lambda: Limit(True), "most (True) is a bool"),
        (lambda: Limit(1, name="a b"), "is no name of a limit"),
        (lambda: Limit(1, name="a:b"), "is no name of a limit"),
        (lambda: Limit(1, weight=0), "weight (0) is below 1"),
        (lambda: Limit(1, weight="a b"), "is no weight"),
        (lambda: Limit(1, key=3), "computes no key"),  # type: ignore[arg-type]
        (lambda: Rate(0, per=1), "count (0) is below 1"),
        (lambda: Rate(1, per=0), "per (0)"),
        (lambda: Rate(1, per=0.0001), "is below a millisecond"),
        (lambda: Rate(1, per=timedelta(days=400)), "per ("),
        (lambda: Rate(1, per=1, burst=-1), "burst (-1) is below 0"),
    ],
)
def test_a_value_that_cannot_work_is_refused_where_it_is_made(make: Any, said: str):
    with pytest.raises(OptionError) as refused:
        make()
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limit": "3"}, "limit ('3') is a str: pass a whole number or Limit(…)"),
        ({"limit": True}, "limit (True) is a bool"),
        ({"rate": Limit(3)}, "is a Limit: pass Rate(…)"),
        ({"limits": 3}, "limits (3) is no list of limits"),
        ({"limits": ["a"]}, "is no list of limits"),
        ({"limit": 1, "limits": [Limit(2)]}, "is the name of two limits here"),
        ({"limit": 1, "name": "a job"}, "cannot name a limit"),
        ({"limit": Limit(1, key="customer")}, ""),
    ],
)
def test_an_option_that_cannot_work_is_refused_where_it_is_declared(options: dict[str, Any], said: str):
    if not said:  # the body takes any argument
        declared(App(), **options)
        return
    with pytest.raises(OptionError) as refused:
        declared(App(), **options)
    assert said in str(refused.value)


@pytest.mark.parametrize("limit", [Limit(1, key="customer"), Limit(9, weight="customer")])
def test_a_key_or_weight_of_an_argument_that_is_not_there_is_refused(limit: Limit):
    with pytest.raises(OptionError, match="names 'customer', which job 'other' does not take"):

        @App().job(limit=limit)
        def other(tenant: str) -> None: ...


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (Limit(3, name="api"), Limit(4, name="api"), "most is 3 and 4"),
        (Limit(3, name="api"), Rate(3, per=1, name="api"), "one is a Limit and the other a Rate"),
        (Rate(3, per=1, name="api"), Rate(3, per=2, name="api"), "per is 1 and 2"),
        (Limit(3, name="api"), Limit(3, name="api", key="tenant"), "one has a key and the other none"),
    ],
)
def test_two_limits_of_one_name_that_differ_are_refused(one: Any, other: Any, said: str):
    app = App()
    declared(app, name="first", limits=[one])

    with pytest.raises(ConfigurationError) as refused:

        @app.job(name="second", limits=[other])
        def second(tenant: str) -> None: ...

    assert f"'api', of job 'first' and of job 'second': {said}" in str(refused.value)
    assert "second" not in app.jobs


def test_jobs_share_a_limit_by_its_name_each_with_a_key_and_a_weight_of_its_own():
    app = App()
    declared(app, name="first", limit=Limit(3, name="api", key="tenant"))
    declared(app, name="second", limit=Limit(3, name="api", key=lambda size: size, weight=2))


def test_limits_of_queues_are_named_after_them_and_know_no_arguments():
    app = App(queue_limits={"mail": Limit(10), "slow": [Limit(2, name="two"), Rate(5, per=1)]})

    assert [each.name for limits in app.queue_limits.values() for each in limits] == [
        "queue/mail", "two", "queue/slow/rate"
    ]  # fmt: skip
    assert app.limited
    with pytest.raises(OptionError, match="has a key or a weight"):
        App(queue_limits={"mail": Limit(10, key="tenant")})
    with pytest.raises(OptionError, match="cannot name a limit"):
        App(queue_limits={"a:b": Limit(10)})
    with pytest.raises(ConfigurationError, match="of queue 'mail' and of job 'work': most is 10 and 3"):
        declared(app, limit=Limit(3, name="queue/mail"))


# -- what a call wants
def test_keys_and_weights_are_computed_from_the_arguments_and_defaults():
    job = declared(
        App(),
        limits=[
            Limit(9, name="all", weight="size"),
            Limit(2, name="tenant", key="tenant"),
            Rate(5, per=1, name="both", key=lambda tenant, size: f"{tenant}/{size}"),
        ],
    )

    assert shares(job, tenant="a", size=4) == [("all", None, 4), ("tenant", "a", 1), ("both", "a/4", 1)]
    assert shares(job) == [("all", None, 1), ("tenant", "none", 1), ("both", "none/1", 1)]
    assert shares(job, size=100)[0] == ("all", None, 9), "more than the whole is the whole"


def test_no_key_is_no_limit():
    assert declared(App(), limit=Limit(1, key=lambda tenant: None)).limiting.of({}) == []


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (
            Limit(1, name="a", key=lambda tenant: 1 / 0),
            "limit 'a': job 'work': key could not be computed",
        ),
        (Limit(1, name="a", key=lambda tenant: [1]), "key is a list"),
        (Limit(5, name="a", weight="tenant"), "limit 'a': weight is 'none': a weight is a whole number from 1"),
        (Limit(5, name="a", weight=lambda: 0), "weight is 0"),
        (Limit(5, name="a", weight=lambda: True), "weight is True"),
        (Limit(5, name="a", weight=lambda: 1 // 0), "weight could not be computed: ZeroDivision"),
    ],
)
def test_what_cannot_be_computed_is_told_with_the_limit(limit: Limit, said: str):
    with pytest.raises(ConfigurationError) as refused:
        declared(App(), limit=limit).limiting.of({})
    assert said in str(refused.value)


def test_a_share_of_a_queue_is_of_no_key():
    assert Share(Limit(3, name="queue/mail")) == (Limit(3, name="queue/mail"), None, 1)


def test_a_later_publication_is_above_all_starts_of_a_former_one():
    """What the former gives back late is not what the later one holds."""
    former, later = delivery(number=1, start=999), delivery(number=2, start=1)

    assert start_of(delivery(number=1, start=998)) < start_of(former) < start_of(later)
    assert len(f"{start_of(delivery(number=10**7, start=1)):.14g}") == 14, "Lua writes it without an exponent"


# -- from a body
@pytest.mark.parametrize("after", [-1, "soon", float("nan"), True])
def test_a_time_that_is_none_is_refused_in_the_body(after: Any):
    with pytest.raises(OptionError, match="retry_after"):
        Context(job_id="a", job="a").rate_limited(after)


def test_the_signal_tells_the_seconds():
    with pytest.raises(RateLimited) as told:
        Context(job_id="a", job="a").rate_limited(timedelta(minutes=1))
    assert told.value.after == 60


# -- in tests
async def test_inline_runs_pass_over_limits_and_tell_of_a_limit_that_was_met():
    app = App()

    @app.job(limit=1, rate=Rate(1, per=3600))
    async def call(ctx: Context, met: bool = False) -> None:
        if met:
            ctx.rate_limited(30)

    inline = Inline()
    assert [await inline.run(call) for _ in range(3)] == [Succeeded(None)] * 3
    assert await inline.run(call, met=True) == Limited(after=30)


async def test_a_world_keeps_limits():
    app, now, most = App(), 0, 0

    @app.job(limit=2)
    async def work() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1

    async with in_memory(app) as world:
        async with world.connect() as connection:
            handles = [await work.enqueue(connection) for _ in range(9)]
        await world.settle()

        assert {world.state(each).state for each in handles} == {"done"}
    assert most == 2


async def test_a_world_keeps_rates_by_its_own_clock():
    app = App()
    at: list[float] = []

    @app.job(rate=Rate(6, per=timedelta(minutes=1)))
    async def call() -> None:
        at.append(world.clock.time())

    async with in_memory(app) as world:
        async with world.connect() as connection:
            for _ in range(5):
                await call.enqueue(connection)
        await world.settle()
        assert len(at) == 1
        await world.advance(minutes=1)

    assert [round(each - at[0]) for each in at] == [0, 10, 20, 30, 40]


FAULTS: dict[str, Callable[[Faults], object]] = {
    "dead before its finish": lambda faults: faults.crash_worker(before="finish", nth=2),
    "dead after its admission": lambda faults: faults.crash_worker(after="admit"),
    "dead before it gave back": lambda faults: faults.crash_worker(before="release"),
    "dead before it told": lambda faults: faults.crash_worker(before="wake"),
    "no reply to an admission": lambda faults: faults.lose_reply("admit", times=2),
    "no reply to a release": lambda faults: faults.lose_reply("release", times=2),
    "no reply to a word": lambda faults: faults.lose_reply("wake", times=2),
    "no reply to a sweep": lambda faults: faults.lose_reply("sweep", times=2),
    "emptied after an admission": lambda faults: faults.flushall(after="admit"),
    "emptied before a release": lambda faults: faults.flushall(before="release"),
    "emptied before a word": lambda faults: faults.flushall(before="wake"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_whatever_goes_wrong_all_run_and_nothing_is_left(fault: str):
    """L1, L2: one at once, though calls, workers and all data are lost."""
    app, now, most = App(), 0, 0

    @app.job(limit=1)
    async def work() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    async with in_memory(app) as world:
        async with world.connect() as connection:
            handles = [await work.enqueue(connection) for _ in range(4)]
        FAULTS[fault](world.faults)
        await world.settle()
        await world.advance(minutes=5)

        assert {world.state(each).state for each in handles} == {"done"}
        keys = [world.redis.keys.key("-", name) for name in ("held", "line", "heads", "tickets")]
        assert await world.redis.client.exists(*keys) == 0
    assert most == 1
