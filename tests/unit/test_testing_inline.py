"""Attempts inline: the real runner, codec, context, timeout and retry rule, without a store."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from redisjobs import App, Cancel, Context, Dead, EncodeError, JobTimeoutError, Next, OptionError, Retry, Snooze
from redisjobs.testing import Cancelled, Died, Expired, Inline, Retried, Snoozed, Succeeded, Suspended, run

app = App("shop")


@dataclass
class Order:
    number: int
    lines: list[str]


@app.job
async def add(a: int, b: int = 0) -> int:
    return a + b


@app.job
def sync_add(a: int, b: int) -> int:
    return a + b


@app.job
def sync_fails() -> None:
    raise LookupError("no")


@app.job(result_ttl=60)
async def ship(order: Order) -> Order:
    assert isinstance(order, Order)
    return Order(order.number, [*order.lines, "shipped"])


@app.job(retry=[10, 60], max_attempts=3, give_up_on=[KeyError])
async def fails(kind: str) -> None:
    raise KeyError("no") if kind == "fatal" else ValueError("no")


@app.job
async def steers(how: str) -> None:
    raise {"retry": Retry(after=5), "snooze": Snooze(timedelta(minutes=1)), "cancel": Cancel("why"), "dead": Dead()}[
        how
    ]


@app.job(timeout=0.02)
async def hangs() -> None:
    await asyncio.sleep(60)


@app.job(queue="mail", max_attempts=7)
async def tells(ctx: Context) -> list[object]:
    return [
        ctx.job, ctx.queue, ctx.attempt, ctx.max_attempts, ctx.tenant_id, ctx.idempotency_key, dict(ctx.headers),
        ctx.priority,
    ]  # fmt: skip


@app.job(result_ttl=60)
async def returns_anything() -> object:
    return object()


async def test_a_body_that_returns_has_succeeded():
    assert await run(add, 1, b=2) == Succeeded(3)
    assert await run(sync_add, 1, 2) == Succeeded(3)


def test_a_test_without_a_loop_runs_it_all_the_same():
    assert asyncio.run(run(add, 1)) == Succeeded(1)


async def test_arguments_and_result_travel_as_they_do_on_their_way_to_a_worker():
    assert await run(ship, Order(7, ["a"])) == Succeeded(Order(7, ["a", "shipped"]))
    with pytest.raises(EncodeError, match="order"):
        await run(ship, Order(7, [object()]))  # type: ignore[list-item]


async def test_a_failure_is_retried_as_the_job_declares():
    assert await run(fails, "passing") == Retried(after=10)
    assert await Inline(attempt=2).run(fails, "passing") == Retried(after=60)
    last = await Inline(attempt=3).run(fails, "passing")

    assert last == Died()
    assert isinstance(last, Died)
    assert last.reason == "attempt 3 of 3 failed"
    assert repr(last.error) == "ValueError('no')"
    assert await run(fails, "fatal") == Died()


@pytest.mark.parametrize(
    ("how", "outcome"),
    [("retry", Retried(after=5)), ("snooze", Snoozed(after=60)), ("cancel", Cancelled()), ("dead", Died())],
)
async def test_a_body_steers_its_own_job(how: str, outcome: object):
    assert await run(steers, how) == outcome
    assert await Inline(raises=True).run(steers, how) == outcome


async def test_a_timeout_ends_it():
    began = time.monotonic()
    outcome = await run(hangs)

    assert isinstance(outcome, Retried)
    assert isinstance(outcome.error, JobTimeoutError)
    assert time.monotonic() - began < 30


async def test_the_context_tells_what_the_call_was_given():
    job = tells.using(tenant="t-1", idempotency_key="k", headers={"a": 1}, priority=3)

    assert await Inline(attempt=4).run(job) == Succeeded(["tells", "mail", 4, 7, "t-1", "k", {"a": 1}, 3])


async def test_what_has_expired_does_not_start():
    assert await run(tells.using(expires=datetime(2020, 1, 1, tzinfo=UTC))) == Expired()


async def test_what_the_body_raised_is_raised_with_its_own_traceback():
    with pytest.raises(ValueError, match="no") as raised:
        await Inline(raises=True).run(fails, "passing")
    with pytest.raises(LookupError, match="no") as raised_in_thread:
        await Inline(raises=True).run(sync_fails)

    for each in (raised, raised_in_thread):
        assert str(each.traceback[-1].path).endswith("test_testing_inline.py")


async def test_a_result_that_cannot_be_kept_ends_it_as_it_would_in_a_worker():
    outcome = await run(returns_anything)

    assert isinstance(outcome, Died)
    assert "its result cannot be kept" in outcome.reason


async def test_arguments_that_do_not_fit_the_body_of_this_release_are_retried():
    call = app.job(name="add_later")(add.function).call(1)
    outcome = await Inline().run_call(fails, call)

    assert isinstance(outcome, Retried)
    assert "do not fit" in outcome.reason


def test_an_attempt_has_a_number():
    with pytest.raises(OptionError, match="attempt"):
        Inline(attempt=0)


async def test_what_is_cancelled_from_outside_takes_its_body_with_it():
    ended = asyncio.Event()

    @app.job(name="waits_for_ever")
    async def waits_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await run(waits_for_ever)
    await asyncio.wait_for(ended.wait(), 5)


async def test_the_middleware_of_the_app_goes_around_it():
    shop = App("shop")

    @shop.middleware
    async def forgiving(ctx: Context, call_next: Next) -> object:
        try:
            return f"around {await call_next()}"
        except LookupError:
            return f"forgiven in attempt {ctx.attempt}"

    @shop.job
    async def body(fails: bool) -> str:
        if fails:
            raise LookupError
        return "body"

    assert await run(body, fails=False) == Succeeded("around body")
    assert await Inline(raises=True).run(body, fails=True) == Succeeded("forgiven in attempt 1")


async def test_the_state_that_a_body_sees_is_the_tests_own():
    shop: App[dict[str, int]] = App("shop")

    @shop.job
    async def stateful(ctx: Context[dict[str, int]]) -> int:
        return ctx.state["answer"]

    assert await Inline(state={"answer": 42}).run(stateful) == Succeeded(42)


# -- durable runs
async def test_a_run_is_suspended_and_goes_on_behind_its_records() -> None:
    app, seen = App("inline"), list[str]()

    async def charge(cents: int) -> int:
        seen.append(f"charged {cents}")
        return cents

    @app.job
    async def fulfil(ctx: Context, cents: int) -> int:
        paid = await ctx.step("charge", charge, cents)
        await ctx.sleep("a day", 86_400)
        return paid

    @app.job
    async def approve(ctx: Context) -> None:
        await ctx.wait_for_event("approved")

    inline, call = Inline(), fulfil.call(5)
    first = await inline.run_call(fulfil, call)
    assert isinstance(first, Suspended)
    assert first.after == pytest.approx(86_400, abs=5)
    inline.pass_time(86_400)
    assert await inline.run_call(fulfil, call) == Succeeded(5)
    assert seen == ["charged 5"]
    assert await run(approve) == Suspended(waits=True)


async def test_what_a_dead_run_has_done_is_undone_inline_too() -> None:
    app, seen = App("inline"), list[str]()

    @app.job(max_attempts=1)
    async def trip(ctx: Context) -> None:
        await ctx.step("book", lambda: "seat", undo=seen.append)
        raise ValueError("no more hotels")

    assert isinstance(await run(trip), Died)
    assert seen == ["seat"]
