"""Batches in a worker's hands, without Redis: how calls gather, run, are split and end (rules L3, W2, W3, W4, W7)."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from redisjobs import App, BatchCall, BatchContext, Cancel, Context, Dead, Retry, Snooze, batch_run, current
from redisjobs.base.envelope import Envelope
from redisjobs.broker import Delivery, Finish
from redisjobs.errors import ConfigurationError, EncodeError, OptionError, RedisjobsError
from redisjobs.lane import Attempt
from redisjobs.outcome import Ended
from redisjobs.policy import Throttle
from redisjobs.runner import Runner
from tests.support.eventually import eventually
from tests.support.stage import Stage, delivery, record_of

Calls = list[BatchCall[int]]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    made.runner.close()


def put(stage: Stage, *arguments: Any, job: str = "index", **given: Any) -> list[Attempt]:
    """Calls of a batch job in the worker's hand."""
    return [stage.begin(call(each, job, **given)) for each in arguments]


def call(argument: Any, job: str = "index", **given: Any) -> Delivery:
    return delivery(job, {"argument": argument}, **given)


async def ends(stage: Stage, attempts: list[Attempt]) -> list[Finish]:
    found = [await stage.end(each) for each in attempts]
    return [each for each in found if each is not None]


def words(finishes: list[Finish]) -> list[str]:
    return [each.word for each in finishes]


def numbers(calls: Calls) -> list[int]:
    return [each.argument for each in calls]


def sized(stage: Stage, size: int, *, within: float = 60, **options: Any) -> list[list[int]]:
    """A job `index` that notes its batches."""
    ran: list[list[int]] = []

    @stage.app.batch_job(name="index", size=size, within=within, **options)
    async def index(calls: Calls) -> None:
        ran.append(numbers(calls))

    return ran


async def test_a_batch_runs_with_its_last_call_in_the_order_of_delivery(stage: Stage) -> None:
    ran = sized(stage, 4)
    finishes = await ends(stage, put(stage, 3, 1, 2, 0))
    assert ran == [[3, 1, 2, 0]]
    assert [(each.word, each.counted) for each in finishes] == [("done", True)] * 4


async def test_a_batch_runs_within_its_time_with_what_it_has(stage: Stage) -> None:
    ran = sized(stage, 100, within=0.1)
    asked = time.monotonic()
    assert words(await ends(stage, put(stage, 1, 2))) == ["done", "done"]
    assert (ran, time.monotonic() - asked >= 0.1) == ([[1, 2]], True)


async def test_calls_of_different_keys_come_into_different_batches(stage: Stage) -> None:
    ran = sized(stage, 2, key=lambda n: n % 2)
    await ends(stage, put(stage, 1, 2, 3, 4))
    assert ran == [[1, 3], [2, 4]]


async def test_a_key_that_cannot_be_computed_fails_its_own_call(stage: Stage) -> None:
    ran = sized(stage, 2, key=lambda n: [] if n == 9 else 10 // n)
    finishes = await ends(stage, put(stage, 0, 9, 5, 5))
    assert words(finishes) == ["retry", "retry", "done", "done"]
    assert record_of(finishes[0])["e"]["type"] == "ZeroDivisionError"
    assert "unhashable" in record_of(finishes[1])["e"]["message"]
    assert ran == [[5, 5]]


async def test_calls_that_gather_hold_no_slot_and_a_batch_holds_one(stage: Stage) -> None:
    gate = asyncio.Event()

    @stage.app.batch_job(name="index", size=25, within=60)
    async def index(calls: Calls) -> None:
        await gate.wait()

    attempts = put(stage, *range(24))
    await eventually(lambda: stage.lane.gathered == 24, "they gather")
    assert (stage.lane.running, stage.lane.free, stage.lane.unsent) == (0, 10, 0)
    attempts += put(stage, 24)
    await eventually(lambda: attempts[0].began_at is not None, "the batch runs")
    assert (stage.lane.running, stage.lane.free, stage.lane.unsent) == (1, 9, 0)
    gate.set()
    await ends(stage, attempts)
    assert (stage.lane.running, stage.lane.gathered, stage.lane.unsent) == (0, 0, 25)


async def test_a_batch_that_is_ready_gets_the_next_slot_before_anything_is_read(stage: Stage) -> None:
    gates = [asyncio.Event() for _ in range(10)]

    @stage.app.job(name="slow")
    async def slow(n: int) -> None:
        await gates[n].wait()

    ran = sized(stage, 2)
    slow_ones = [stage.begin("slow", n=n) for n in range(9)]
    attempts = put(stage, 1)
    await eventually(lambda: attempts[0].seat, "it gathers")
    slow_ones.append(stage.begin("slow", n=9))
    with stage.lane.reserve(10) as room:
        assert room == 0
    stage.lane.slots = 11
    attempts += put(stage, 2)
    stage.lane.slots = 10
    await eventually(lambda: attempts[1].seat, "both have come")
    assert (ran, stage.lane.free) == ([], 0)
    gates[0].set()
    await ends(stage, attempts)
    assert ran == [[1, 2]]
    for gate in gates:
        gate.set()
    await ends(stage, slow_ones)
    assert stage.lane.running == 0


async def test_a_context_tells_of_the_batch_and_each_call_of_itself(stage: Stage) -> None:
    seen: list[Any] = []

    @stage.app.batch_job(name="index", size=2, timeout=30, max_attempts=7)
    async def index(ctx: BatchContext, calls: Calls) -> None:
        seen.append((ctx.job, ctx.queue, ctx.attempt, ctx.max_attempts, ctx.tenant_id, current() is ctx))
        seen.append([(each.attempt, each.context.tenant_id, each.context.headers) for each in ctx.calls])
        seen.append({each.id for each in calls} | {ctx.job_id})
        assert ctx.remaining() is not None
        assert calls == ctx.calls

    mine = [
        Envelope("index", "json", b'{"argument": 1}', tenant_id="t1", headers='{"x": 1}'),
        Envelope("index", "json", b'{"argument": 2}', tenant_id="t1"),
    ]
    attempts = [stage.begin(delivery(each, attempts=n, start=n + 1)) for n, each in enumerate(mine)]
    assert words(await ends(stage, attempts)) == ["done", "done"]
    assert seen[0] == ("index", "default", 2, 7, "t1", True)
    assert seen[1] == [(1, "t1", {"x": 1}), (2, "t1", {})]
    assert seen[2] > {each.job_id for each in attempts}
    assert len(seen[2]) == 3


async def test_a_plain_function_runs_in_a_thread(stage: Stage) -> None:
    seen: list[object] = []

    @stage.app.batch_job(name="index", size=2)
    def index(ctx: BatchContext, calls: Calls) -> None:
        seen.append((numbers(calls), threading.current_thread() is threading.main_thread(), current() is ctx))
        calls[1].fail("no")

    assert words(await ends(stage, put(stage, 1, 2))) == ["done", "retry"]
    assert seen == [([1, 2], False, True)]


async def test_middleware_goes_around_a_batch_once(stage: Stage) -> None:
    seen: list[object] = []
    stage.runner.close()
    stage.runner = Runner(stage.app.jobs.get, stage.draining, around=_noting(seen))
    sized(stage, 3)
    await ends(stage, put(stage, 1, 2, 3))
    assert seen == [[1, 2, 3]]


def _noting(seen: list[object]) -> Any:
    async def around(ctx: Context, call_next: Any) -> Any:
        assert isinstance(ctx, BatchContext)
        seen.append([each.argument for each in ctx.calls])
        return await call_next()

    return around


# -- ends
async def test_a_list_that_is_returned_has_the_result_of_each_call(stage: Stage) -> None:
    @stage.app.batch_job(name="index", size=3, result_ttl=60)
    async def index(calls: Calls) -> list[int]:
        calls[1].done(-1)
        return [n * n for n in numbers(calls)]

    finishes = await ends(stage, put(stage, 2, 3, 4))
    assert [record_of(each)["r"] for each in finishes] == [b"4", b"-1", b"16"]
    assert [each.keep_ms for each in finishes] == [60_000] * 3


@pytest.mark.parametrize(
    ("answer", "why"), [([1], "returned 1 results for 2 calls"), ("done", "returned a str"), (7, "returned a int")]
)
async def test_what_fits_no_calls_makes_dead_letters_of_them_for_a_repeat_would_change_nothing(
    stage: Stage, answer: Any, why: str
) -> None:
    @stage.app.batch_job(name="index", size=2)
    async def index(calls: Calls) -> Any:
        return answer

    finishes = await ends(stage, put(stage, 1, 2))
    assert words(finishes) == ["dead", "dead"]
    assert why in record_of(finishes[0])["why"]


async def test_what_is_said_of_a_call_is_its_end_whatever_the_body_does_then(stage: Stage) -> None:
    @stage.app.batch_job(name="index", size=8, retry=[5])
    async def index(calls: Calls) -> None:
        said = dict(zip(["done", "fail", "text", "retry", "snooze", "cancel", "dead"], calls, strict=False))
        said["done"].fail("no")
        said["done"].done()
        said["fail"].fail(ValueError("its own"))
        said["text"].fail("in words")
        said["retry"].retry(after=9)
        said["snooze"].snooze(3)
        said["cancel"].cancel("not wanted")
        said["dead"].dead("hopeless")
        raise Retry(after=1)

    finishes = await ends(stage, put(stage, *range(8)))
    assert words(finishes) == ["done", "retry", "retry", "retry", "snooze", "cancelled", "dead", "retry"]
    assert [each.delay_ms for each in finishes] == [0, 5000, 5000, 9000, 3000, 0, 0, 1000]
    assert [each.counted for each in finishes] == [True] * 4 + [False] + [True] * 3
    errors = [record_of(each).get("e", {}) for each in finishes[1:3]]
    assert [(each["type"], each["message"]) for each in errors] == [
        ("ValueError", "its own"), ("RuntimeError", "in words")
    ]  # fmt: skip


async def test_each_call_that_fails_is_judged_by_its_own_attempt(stage: Stage) -> None:
    @stage.app.batch_job(name="index", size=2, max_attempts=3, retry=[1, 2, 3], give_up_on=KeyError)
    async def index(calls: Calls) -> None:
        for each in calls:
            each.fail(KeyError("k") if each.argument < 0 else OSError("down"))

    attempts = [stage.begin(call(1, attempts=n, start=n + 1)) for n in (1, 2)]
    finishes = await ends(stage, attempts)
    assert [(each.word, each.delay_ms) for each in finishes] == [("retry", 2000), ("dead", 0)]
    assert words(await ends(stage, put(stage, -1, -2))) == ["dead", "dead"]


@pytest.mark.parametrize(
    ("signal", "word"), [(Snooze(2), "snooze"), (Cancel(), "cancelled"), (Dead(), "dead"), (Retry(), "retry")]
)
async def test_a_signal_means_all_calls_and_splits_nothing(stage: Stage, signal: BaseException, word: str) -> None:
    ran: list[int] = []

    @stage.app.batch_job(name="index", size=4)
    async def index(calls: Calls) -> None:
        ran.append(len(calls))
        raise signal

    assert words(await ends(stage, put(stage, 1, 2, 3, 4))) == [word] * 4
    assert ran == [4]


async def test_a_word_after_the_end_is_refused(stage: Stage) -> None:
    kept: list[BatchCall[int]] = []

    @stage.app.batch_job(name="index", size=1)
    async def index(calls: Calls) -> None:
        kept.extend(calls)

    await ends(stage, put(stage, 1))
    with pytest.raises(RedisjobsError, match="its end is decided already"):
        kept[0].fail("late")


async def test_what_no_error_is_cannot_be_an_end(stage: Stage) -> None:
    with pytest.raises(TypeError, match="an exception or a text, not a int"):
        BatchCall(1).fail(5)  # type: ignore[arg-type]


# -- splitting
def poisoned(stage: Stage, poison: set[int], **options: Any) -> list[list[int]]:
    """A job `index` that raises where one of these is among its calls; notes its batches."""
    ran: list[list[int]] = []

    @stage.app.batch_job(name="index", **options)
    async def index(calls: Calls) -> None:
        ran.append(numbers(calls))
        if bad := sorted(poison & set(ran[-1])):
            raise ValueError(f"poison {bad}")

    return ran


async def test_one_poison_call_is_found_in_log_n_runs_and_fails_alone(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    ran = poisoned(stage, {37}, size=100)
    finishes = await ends(stage, put(stage, *range(100)))
    assert [n for n, each in enumerate(finishes) if each.word != "done"] == [37]
    assert (finishes[37].word, finishes[37].counted) == ("retry", True)
    assert record_of(finishes[37])["e"]["message"] == "poison [37]"
    assert len(ran) <= 1 + 2 * 7
    assert all(each == sorted(each) for each in ran)
    assert sum("batch.split" in each.getMessage() for each in caplog.records) == len(ran) // 2


async def test_an_outage_costs_fifteen_runs_and_every_call_its_attempt(stage: Stage) -> None:
    ran = poisoned(stage, set(range(100)), size=100)
    finishes = await ends(stage, put(stage, *range(100)))
    assert words(finishes) == ["retry"] * 100
    assert (len(ran), min(map(len, ran))) == (15, 12)
    told = record_of(finishes[-1])["e"]
    assert "raise ValueError" in told["traceback"]
    assert "redisjobs/batch" not in told["traceback"]
    assert told["traceback"] == record_of(finishes[-2])["e"]["traceback"]


async def test_without_split_all_calls_fail_with_the_body(stage: Stage) -> None:
    ran = poisoned(stage, {2}, size=4, split=False)
    assert words(await ends(stage, put(stage, 1, 2, 3, 4))) == ["retry"] * 4
    assert ran == [[1, 2, 3, 4]]


async def test_calls_of_which_something_was_said_are_not_run_again(stage: Stage) -> None:
    ran: list[list[int]] = []

    @stage.app.batch_job(name="index", size=4)
    async def index(calls: Calls) -> None:
        ran.append(numbers(calls))
        for each in calls:
            if each.argument == 2:
                raise ValueError("poison")
            each.done()

    assert words(await ends(stage, put(stage, 1, 2, 3, 4))) == ["done", "retry", "done", "done"]
    assert ran == [[1, 2, 3, 4], [2, 3], [4], [2], [3]]


async def test_a_call_that_took_its_worker_down_before_runs_alone_and_at_once(stage: Stage) -> None:
    ran = sized(stage, 100)
    finishes = await ends(stage, put(stage, 1, 2, losses=1, start=2))
    assert (words(finishes), ran) == (["done", "done"], [[1], [2]])


# -- timeouts, cancels, lost leases
async def test_a_timeout_is_that_of_a_run_and_the_call_that_hangs_is_found(stage: Stage) -> None:
    @stage.app.batch_job(name="index", size=4, timeout=0.05)
    async def index(calls: Calls) -> None:
        if 3 in numbers(calls):
            await asyncio.sleep(60)

    finishes = await ends(stage, put(stage, 1, 2, 3, 4))
    assert words(finishes) == ["done", "done", "retry", "done"]
    assert record_of(finishes[2])["e"]["type"] == "redisjobs.errors.JobTimeoutError"


async def test_a_call_that_is_cancelled_while_it_gathers_leaves_its_batch(stage: Stage) -> None:
    ran = sized(stage, 3)
    attempts = put(stage, 1, 2)
    await eventually(lambda: stage.lane.gathered == 2, "they gather")
    stage.runner.cancel(attempts[0], Ended.CANCELLED)
    assert words(await ends(stage, attempts[:1])) == ["cancelled"]
    assert words(await ends(stage, attempts[1:] + put(stage, 3, 4))) == ["done"] * 3
    assert ran == [[2, 3, 4]]


async def test_a_call_whose_lease_is_lost_while_it_gathers_leaves_its_batch_without_a_word(stage: Stage) -> None:
    ran = sized(stage, 2)
    attempts = put(stage, 1)
    await eventually(lambda: attempts[0].gathers, "it gathers")
    stage.runner.cancel(attempts[0], Ended.LOST)
    assert await stage.end(attempts[0]) is None
    await ends(stage, put(stage, 2, 3))
    assert ran == [[2, 3]]
    assert attempts[0] not in stage.lane.held


async def test_a_lease_that_is_not_trusted_any_more_keeps_its_call_out(stage: Stage) -> None:
    ran = sized(stage, 2)
    attempts = put(stage, 1)
    await eventually(lambda: attempts[0].gathers, "it gathers")
    attempts[0].trusted_until = 0
    assert words(await ends(stage, attempts + put(stage, 2))) == ["released", "done"]
    assert ran == [[2]]


def gated(stage: Stage, size: int, seen: list[list[BatchCall[int]]], **options: Any) -> asyncio.Event:
    """A job `index` that waits in its body."""
    gate = asyncio.Event()

    @stage.app.batch_job(name="index", size=size, **options)
    async def index(calls: Calls) -> None:
        seen.append(calls)
        await gate.wait()

    return gate


async def test_a_call_that_loses_its_lease_in_a_running_batch_is_marked_and_the_others_go_on(stage: Stage) -> None:
    seen: list[list[BatchCall[int]]] = []
    gate = gated(stage, 3, seen)
    attempts = put(stage, 1, 2, 3)
    await eventually(lambda: seen, "the batch runs")
    stage.runner.cancel(attempts[1], Ended.LOST)
    assert await stage.end(attempts[1]) is None
    assert [each.lost for each in seen[0]] == [False, True, False]
    seen[0][1].fail("nothing that is said of it counts")
    gate.set()
    assert words(await ends(stage, [attempts[0], attempts[2]])) == ["done", "done"]


async def test_a_call_that_is_cancelled_in_a_running_batch_is_done_if_the_batch_is(stage: Stage) -> None:
    seen: list[list[BatchCall[int]]] = []
    gate = gated(stage, 2, seen)
    attempts = put(stage, 1, 2)
    await eventually(lambda: seen, "the batch runs")
    stage.runner.cancel(attempts[0], Ended.CANCELLED)
    assert [each.cancelled for each in seen[0]] == [True, False]
    gate.set()
    assert words(await ends(stage, attempts)) == ["done", "done"]


async def test_a_call_that_is_cancelled_in_a_batch_that_fails_ends_as_cancelled(stage: Stage) -> None:
    gate = asyncio.Event()
    ran: list[int] = []

    @stage.app.batch_job(name="index", size=2)
    async def index(calls: Calls) -> None:
        ran.append(len(calls))
        await gate.wait()
        raise ValueError("no")

    attempts = put(stage, 1, 2)
    await eventually(lambda: ran, "the batch runs")
    stage.runner.cancel(attempts[0], Ended.CANCELLED)
    gate.set()
    assert words(await ends(stage, attempts)) == ["cancelled", "retry"]
    assert ran == [2, 1]


@pytest.mark.parametrize(("ended", "word"), [(Ended.CANCELLED, "cancelled"), (Ended.DRAINED, "released")])
async def test_a_body_is_cancelled_when_all_of_its_calls_are_to_end(stage: Stage, ended: Ended, word: str) -> None:
    seen: list[list[BatchCall[int]]] = []
    gated(stage, 3, seen)
    attempts = put(stage, 1, 2, 3)
    await eventually(lambda: seen, "the batch runs")
    for each in attempts:
        assert not each.over
        stage.runner.cancel(each, ended)
    assert words(await ends(stage, attempts)) == [word] * 3
    assert len(seen) == 1
    assert stage.lane.running == 0


async def test_a_body_that_swallows_its_cancellation_is_named_and_its_leases_are_left_to_lapse(
    stage: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_run, "CANCEL_GRACE_S", 0.02)
    gate = asyncio.Event()

    @stage.app.batch_job(name="index", size=2, timeout=0.02)
    async def index(calls: Calls) -> None:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    attempts = put(stage, 1, 2)
    await eventually(lambda: not attempts[0].renewed, "they are not renewed")
    await eventually(lambda: "batch.stuck" in caplog.text, "it is named")
    gate.set()
    assert words(await ends(stage, attempts)) == ["retry", "retry"]


async def test_what_comes_while_the_worker_drains_goes_back_uncounted(stage: Stage) -> None:
    ran = sized(stage, 2)
    stage.draining.set()
    finishes = await ends(stage, put(stage, 1, 2))
    assert [(each.word, each.counted) for each in finishes] == [("released", False)] * 2
    assert ran == []


# -- what does not fit
async def test_a_body_that_asks_for_a_durable_run_is_refused(stage: Stage) -> None:
    @stage.app.batch_job(name="index", size=1)
    async def index(ctx: BatchContext, calls: Calls) -> None:
        await (ctx if calls[0].argument else calls[0].context).sleep("nap", 1)

    for argument in (0, 1):
        [finish] = await ends(stage, put(stage, argument))
        assert "keeps no steps" in record_of(finish)["e"]["message"]


async def test_arguments_that_do_not_fit_fail_before_they_gather(stage: Stage) -> None:
    ran = sized(stage, 2)
    finishes = await ends(stage, put(stage, "x", 1, 2))
    assert words(finishes) == ["retry", "done", "done"]
    assert ran == [[1, 2]]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"process": True}, "runs one call in a process of its own, and a batch has many"),
        ({"transactional": True}, "together with the end of one job, and a batch has many"),
        ({"limit": 3}, "holds for one call at a time, and a batch runs many at once"),
        ({"limits": []}, "hold for one call at a time, and a batch runs many at once"),
        ({"sise": 3}, "is no option of a batch job"),
        ({"size": 0}, "pass 1 or more"),
        ({"size": 1001}, "pass 1000 or less"),
        ({"size": 2.0}, "pass a whole number"),
        ({"within": 0}, "pass more than 0 s"),
        ({"within": float("nan")}, "is not finite"),
        ({"within": 7200}, "pass 3600 s or less"),
        ({"key": "shop"}, "is no function"),
        ({"split": 1}, "pass True or False"),
        ({"max_attempts": 0}, "pass 1 or more"),
    ],
)
def test_options_that_cannot_work_are_refused_at_the_declaration(options: Any, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        App().batch_job(**options)(_body)


async def _body(calls: Calls) -> None: ...


def test_a_function_that_takes_no_list_of_calls_is_refused() -> None:
    app = App()
    for wrong in (lambda: None, lambda a, b: None, lambda *, calls: None, lambda ctx, calls, more: None):
        with pytest.raises(ConfigurationError, match="is given one list"):
            app.batch_job()(wrong)  # type: ignore[arg-type]


def test_keys_of_other_options_are_computed_of_the_argument_too() -> None:
    app = App()
    by_id = Throttle(period=5, key=lambda doc: doc.id)

    @app.batch_job(share=lambda doc: doc.id % 2, lane=lambda argument: argument.id, throttle=by_id)
    async def index(calls: list[BatchCall[Doc]]) -> None: ...

    made = index.call(Doc(5))
    assert (made.share_key, made.lane, made.idempotency_key) == ("1", "5", "index:5")


# -- direct calls, and what travels
@dataclass
class Doc:
    id: int


def test_a_direct_call_runs_a_batch_of_one_here() -> None:
    app = App()

    @app.batch_job()
    def double(calls: list[BatchCall[int]]) -> list[int]:
        return [2 * each.argument for each in calls]

    @app.batch_job()
    async def check(ctx: BatchContext, calls: list[BatchCall[Doc]]) -> None:
        for each in calls:
            if each.argument.id < 0:
                each.fail(ValueError(ctx.job))

    assert double(4) == 8
    assert asyncio.run(check(Doc(1))) is None
    with pytest.raises(ValueError, match="check"):
        asyncio.run(check(Doc(-1)))


async def test_an_argument_arrives_as_it_went_in(stage: Stage) -> None:
    seen: list[Doc] = []

    @stage.app.batch_job(name="docs", size=2)
    async def docs(calls: list[BatchCall[Doc]]) -> None:
        seen.extend(each.argument for each in calls)

    sent = docs.call(Doc(7))
    assert sent.payload == b'{"argument":{"id":7}}'
    by_position = Envelope("docs", "json", b'[{"id": 8}]')
    attempts = [stage.begin(Envelope("docs", sent.codec, sent.payload)), stage.begin(by_position)]
    assert words(await ends(stage, attempts)) == ["done", "done"]
    assert seen == [Doc(7), Doc(8)]


def test_an_annotation_that_names_what_nobody_knows_is_named_as_for_any_job() -> None:
    app = App()

    @app.batch_job()
    async def index(calls: list[BatchCall[Unknown]]) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(EncodeError, match=r"'list\[BatchCall\[Unknown\]\]' cannot be resolved"):
        index.call(Doc(1))


def test_a_context_may_be_annotated_by_a_name_that_comes_later() -> None:
    app = App()

    def index(ctx: search.BatchContext[int], calls: list[BatchCall[int]]) -> list[int]:  # type: ignore[name-defined]  # noqa: F821
        return [len(ctx.calls)]

    assert app.batch_job()(index)(5) == 1


async def test_progress_that_a_body_reports_is_that_of_each_call(stage: Stage) -> None:
    @stage.app.batch_job(name="index", size=2)
    async def index(ctx: BatchContext, calls: Calls) -> None:
        ctx.progress(1, 2)
        calls[1].context.progress(2, 2)

    attempts = put(stage, 1, 2)
    await ends(stage, attempts)
    told = stage.lane.reports.take()
    assert [told[each] for each in attempts] == [b'[1,2,""]', b'[2,2,""]']


async def test_log_lines_say_how_large_a_batch_was(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "redisjobs.attempt")
    sized(stage, 2)
    await ends(stage, put(stage, 1, 2))
    [ran] = [each.getMessage() for each in caplog.records if "batch.ran" in each.getMessage()]
    assert "calls=2" in ran
