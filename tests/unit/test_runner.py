"""One attempt, from the delivery to the finish (rules W2, W4, W11; cases D08, G03, J03, J04, J08, O02)."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import logging
import threading
import time
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest

from redisjobs import runner as runner_module
from redisjobs.base.envelope import Envelope
from redisjobs.context import Context, current
from redisjobs.errors import Cancel, Dead, Retry, Snooze
from redisjobs.lane import Attempt
from redisjobs.outcome import Ended, Outcome
from tests.support.builders import envelope
from tests.support.eventually import eventually
from tests.support.stage import Stage, delivery, record_of


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    made.runner.close()


async def test_a_body_gets_its_arguments_and_what_travelled_with_them(stage: Stage) -> None:
    seen: list[object] = []

    @stage.app.job(name="mail", max_attempts=7)
    async def mail(ctx: Context, to: str) -> None:
        seen.append((to, ctx.attempt, ctx.max_attempts, ctx.tenant_id, ctx.traceparent, ctx.headers, current() is ctx))

    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    packed = Envelope("mail", "json", b'{"to": "a@b.c"}', tenant_id="t1", traceparent=trace, headers='{"x": 1}')
    finish = await stage.run(delivery(packed, attempts=2, start=5))
    assert (finish.word, finish.counted, finish.record) == ("done", True, b"")
    assert seen == [("a@b.c", 3, 7, "t1", trace, {"x": 1}, True)]


async def test_a_plain_function_runs_in_a_thread_with_its_context(stage: Stage) -> None:
    seen: list[object] = []

    @stage.app.job(name="crunch")
    def crunch(ctx: Context, n: int) -> None:
        seen.append((n, threading.current_thread() is threading.main_thread(), current() is ctx))

    assert (await stage.run("crunch", n=3)).word == "done"
    assert seen == [(3, False, True)]


async def test_variables_of_one_attempt_are_unknown_to_the_next(stage: Stage) -> None:
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")
    tenant.set("set at start-up")
    seen: list[str] = []

    @stage.app.job(name="in_loop")
    async def in_loop() -> None:
        seen.append(tenant.get())
        tenant.set("a")
        await asyncio.sleep(0)

    @stage.app.job(name="in_thread")
    def in_thread() -> None:
        seen.append(tenant.get())
        tenant.set("b")

    for _ in range(5):
        await stage.run("in_loop")
        await stage.run("in_thread")
    assert set(seen) == {"none"}


async def test_an_unknown_job_is_parked_longer_each_time_and_never_counted(stage: Stage) -> None:
    delays = []
    for start in (1, 2, 3, 50):
        finish = await stage.run(delivery("of_tomorrow", start=start))
        assert (finish.word, finish.counted) == ("parked", False)
        delays.append(finish.delay_ms)
    assert delays == [1000, 2000, 4000, 30_000]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\xc1 no envelope", "it cannot be read"),
        (Envelope("add", "json", b"{broken"), "it cannot be read"),
        (Envelope("add", "rot13", b"{}"), "it cannot be read"),
    ],
)
async def test_what_cannot_be_read_is_a_dead_letter_with_its_reason(
    stage: Stage, body: bytes | Envelope, why: str
) -> None:
    @stage.app.job(name="add")
    async def add(a: int = 0) -> None: ...

    finish = await stage.run(delivery(body))
    assert (finish.word, record_of(finish)["why"]) == ("dead", why)
    assert record_of(finish)["e"]["type"] == "redisjobs.errors.DecodeError"


async def test_arguments_of_a_newer_release_are_retried_and_their_values_are_told_to_nobody(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    @stage.app.job(name="mail")
    async def mail(to: str) -> None: ...

    caplog.set_level(logging.DEBUG)
    finish = await stage.run("mail", to="a@b.c", bcc="MARKER")
    assert (finish.word, finish.counted) == ("retry", True)
    assert "bcc" in record_of(finish)["e"]["message"]
    assert b"MARKER" not in finish.record
    assert "MARKER" not in caplog.text


async def test_the_signals_of_a_body_pass_its_own_except_exception(stage: Stage) -> None:
    signals: dict[str, BaseException] = {
        "retry": Retry(after=5), "snooze": Snooze(7), "cancelled": Cancel("no"), "dead": Dead("never"),
    }  # fmt: skip

    @stage.app.job(name="steer")
    async def steer(word: str) -> None:
        try:
            raise signals[word]  # noqa: TRY301
        except Exception:  # noqa: BLE001
            return

    ends = {word: await stage.run("steer", word=word) for word in signals}
    assert {word: finish.word for word, finish in ends.items()} == {word: word for word in signals}
    assert (ends["retry"].delay_ms, ends["snooze"].delay_ms) == (5000, 7000)
    assert [ends[word].counted for word in ("retry", "snooze")] == [True, False]


async def test_an_envelope_may_limit_the_attempts_further_than_its_job(stage: Stage) -> None:
    @stage.app.job(name="fail", max_attempts=20)
    async def fail() -> None:
        raise ValueError("no")

    once = Envelope("fail", "json", b"{}", max_attempts=2)
    assert (await stage.run(delivery(once, attempts=0))).word == "retry"
    assert (await stage.run(delivery(once, attempts=1))).word == "dead"


async def test_an_attempt_past_its_timeout_is_cancelled_and_fails(stage: Stage) -> None:
    @stage.app.job(name="slow", timeout=0.02)
    async def slow() -> None:
        await asyncio.sleep(60)

    finish = await stage.run("slow")
    assert (finish.word, finish.counted) == ("retry", True)
    assert record_of(finish)["e"]["type"] == "redisjobs.errors.JobTimeoutError"
    assert record_of(finish)["e"]["message"] == "job 'slow' ran past its timeout (0.02 s)"


async def test_one_timer_serves_deadlines_of_every_length(stage: Stage) -> None:
    @stage.app.job(name="long", timeout=30)
    async def long() -> None:
        await asyncio.sleep(60)

    @stage.app.job(name="short", timeout=0.03)
    async def short() -> None:
        await asyncio.sleep(60)

    waiting = stage.begin("long")
    for _ in range(3):
        assert record_of(await stage.run("short"))["e"]["type"].endswith("JobTimeoutError")
    stage.runner.cancel(waiting, Ended.DRAINED)
    await stage.end(waiting)


async def test_a_body_that_swallows_its_cancellation_is_named_and_its_lease_left_to_lapse(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runner_module, "CANCEL_GRACE_S", 0.02)
    enough = asyncio.Event()

    @stage.app.job(name="deaf", timeout=0.02)
    async def deaf() -> None:
        while not enough.is_set():
            try:
                await enough.wait()
            except asyncio.CancelledError:
                continue

    attempt = stage.begin("deaf")
    await eventually(lambda: "attempt.stuck" in caplog.text, "the body is named")
    assert "job=deaf" in caplog.text
    assert not attempt.renewed
    assert stage.lane.running == 1
    enough.set()
    finish = await stage.end(attempt)
    assert finish is not None
    assert finish.word == "retry"
    assert stage.lane.running == 0


async def test_a_cancellation_that_got_lost_inside_a_body_is_repeated_after_the_grace(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "CANCEL_GRACE_S", 0.02)

    @stage.app.job(name="forgetful", timeout=0.02)
    async def forgetful() -> None:
        with contextlib.suppress(asyncio.CancelledError):  # as `asyncio.wait_for` did now and then before Python 3.12
            await asyncio.sleep(60)
        await asyncio.sleep(60)

    finish = await asyncio.wait_for(stage.run("forgetful"), 5)
    assert finish.word == "retry"
    assert stage.lane.running == 0


async def test_a_thread_that_returns_after_its_timeout_is_done_for_its_work_is(stage: Stage) -> None:
    ended = threading.Event()

    @stage.app.job(name="crunch", timeout=0.02)
    def crunch() -> None:
        ended.wait(5)

    attempt = stage.begin("crunch")
    await eventually(lambda: attempt.ended_by is Ended.TIMED_OUT, "its timeout was noticed")
    assert stage.lane.running == 1
    ended.set()
    finish = await stage.end(attempt)
    assert finish is not None
    assert finish.word == "done"


async def test_a_body_that_answers_a_drain_with_an_error_is_handed_back_once_and_uncounted(stage: Stage) -> None:
    @stage.app.job(name="stubborn")
    async def stubborn() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ValueError("cleanup failed") from None

    attempt = stage.begin("stubborn")
    await eventually(lambda: attempt.began_at is not None, "it runs")
    stage.runner.cancel(attempt, Ended.DRAINED)
    finish = await stage.end(attempt)
    assert finish is not None
    assert (finish.word, finish.counted, finish.delay_ms) == ("released", False, 0)


@pytest.mark.parametrize(("ended", "word"), [(Ended.CANCELLED, "cancelled"), (Ended.DRAINED, "released")])
async def test_a_body_that_swallows_its_end_is_not_taken_for_done(stage: Stage, ended: Ended, word: str) -> None:
    @stage.app.job(name="swallow")
    async def swallow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return

    attempt = stage.begin("swallow")
    await eventually(lambda: attempt.began_at is not None, "it runs")
    stage.runner.cancel(attempt, ended)
    finish = await stage.end(attempt)
    assert finish is not None
    assert finish.word == word


async def test_a_lost_lease_ends_the_body_and_writes_nothing(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    @stage.app.job(name="slow")
    async def slow() -> None:
        await asyncio.sleep(60)

    attempt = stage.begin("slow")
    await eventually(lambda: attempt.began_at is not None, "it runs")
    stage.runner.cancel(attempt, Ended.CANCELLED)
    stage.runner.cancel(attempt, Ended.LOST)
    assert await stage.end(attempt) is None
    assert stage.lane.held == set()
    assert "attempt.lost" in caplog.text


async def test_an_attempt_that_is_ended_before_its_first_step_never_starts(stage: Stage) -> None:
    started: list[int] = []

    @stage.app.job(name="note")
    async def note() -> None:
        started.append(1)

    attempt = stage.begin("note")
    stage.runner.cancel(attempt, Ended.CANCELLED)
    finish = await stage.end(attempt)
    assert finish is not None
    assert finish.word == "cancelled"
    assert started == []


async def test_a_body_never_starts_under_a_lease_that_is_trusted_no_longer(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    started: list[int] = []

    @stage.app.job(name="note")
    async def note() -> None:
        started.append(1)

    attempt = stage.lane.hold(delivery("note"), asked_at=time.monotonic() - 31)
    stage.runner.begin(attempt)
    finish = await stage.end(attempt)
    assert finish is not None
    assert (finish.word, started) == ("released", [])
    assert "attempt.untrusted" in caplog.text


async def test_what_was_cancelled_or_has_expired_ends_without_starting(stage: Stage) -> None:
    started: list[int] = []

    @stage.app.job(name="note")
    async def note() -> None:
        started.append(1)

    assert (await stage.run(delivery("note", cancel=True))).word == "cancelled"
    assert (await stage.run(delivery("note", expired=True))).word == "expired"
    assert started == []


async def test_a_result_is_kept_where_the_job_says_so(stage: Stage) -> None:
    @stage.app.job(name="total", result_ttl=60)
    async def total(a: int) -> dict[str, int]:
        return {"total": a}

    finish = await stage.run("total", a=3)
    assert (finish.word, finish.keep_ms) == ("done", 60_000)
    assert (record_of(finish)["rc"], record_of(finish)["r"]) == ("json", b'{"total":3}')


async def test_the_end_is_kept_for_whoever_waits_for_a_result_that_never_comes(stage: Stage) -> None:
    @stage.app.job(name="total", result_ttl=60, max_attempts=1)
    async def total() -> int:
        raise ValueError("no")

    assert (await stage.run("total")).keep_ms == 60_000
    assert (await stage.run(delivery("total", cancel=True))).keep_ms == 60_000


@pytest.mark.parametrize("result", [object(), "lone \udc7f surrogate", float("nan"), b"x" * 2_000_000])
async def test_a_result_that_cannot_be_kept_is_a_dead_letter_not_a_second_run(stage: Stage, result: object) -> None:
    @stage.app.job(name="odd", result_ttl=60)
    async def odd():
        return result

    finish = await stage.run("odd")
    assert (finish.word, finish.counted) == ("dead", True)
    assert record_of(finish)["why"] == "its body ended well, but its result cannot be kept"


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize(
    "error",
    [ValueError("\udc7f"), ValueError(b"\xff"), ValueError("x" * 10_000_000), Mute(), SystemExit(3), GeneratorExit(),
     StopIteration(1), asyncio.CancelledError()],
)  # fmt: skip
@pytest.mark.parametrize("job", ["raise_async", "raise_sync"])
async def test_whatever_a_body_raises_becomes_a_retry_with_a_bounded_record(
    stage: Stage, error: BaseException, job: str
) -> None:
    @stage.app.job(name="raise_async")
    async def raise_async() -> None:
        raise error

    @stage.app.job(name="raise_sync")
    def raise_sync() -> None:
        raise error

    finish = await stage.run(job)
    assert (finish.word, finish.counted) == ("retry", True)
    assert len(finish.record) < 20_000


@pytest.mark.parametrize(("signal", "word"), [(Dead, "dead"), (Cancel, "cancelled")])
async def test_a_reason_that_cannot_be_read_ends_the_job_all_the_same(
    stage: Stage, signal: type[Dead | Cancel], word: str
) -> None:
    @stage.app.job(name="give_up")
    async def give_up() -> None:
        raise signal(Mute())  # type: ignore[arg-type]  # what a body may pass all the same

    finish = await stage.run("give_up")
    assert finish.word == word
    assert record_of(finish)["why"] == "(the reason cannot be read: its __str__ raised SystemExit)"


@pytest.mark.parametrize(("most", "word"), [(1, "dead"), (2, "retry")])
async def test_an_end_that_cannot_be_judged_uses_up_an_attempt_and_no_more_than_there_are(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, most: int, word: str
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("redisjobs.ending.decide", broken)

    @stage.app.job(name="odd", max_attempts=most)
    async def odd() -> None:
        raise ValueError

    finish = await stage.run("odd")
    assert (finish.word, finish.counted) == (word, True)
    assert record_of(finish)["why"] == "what became of this attempt could not be decided (ZeroDivisionError)"


@pytest.mark.parametrize("job", ["fail_async", "fail_sync"])
async def test_a_failed_attempt_leaves_none_of_its_memory_behind(stage: Stage, job: str) -> None:
    class Big:
        pass

    seen: list[weakref.ref[Big]] = []

    @stage.app.job(name="fail_async")
    async def fail_async() -> None:
        big = Big()
        seen.append(weakref.ref(big))
        raise ValueError("no")

    @stage.app.job(name="fail_sync")
    def fail_sync() -> None:
        big = Big()
        seen.append(weakref.ref(big))
        raise ValueError("no")

    gc.disable()
    try:
        attempt = stage.begin(job)
        await stage.end(attempt)
        await eventually(lambda: seen[0]() is None, "its locals are freed, without the garbage collector")
    finally:
        gc.enable()


async def test_arguments_are_in_no_log_line(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    @stage.app.job(name="fail", max_attempts=2)
    async def fail(secret: str) -> None:
        raise ValueError("no")

    @stage.app.job(name="fine")
    async def fine(secret: str) -> None: ...

    caplog.set_level(logging.DEBUG)
    packed = envelope("fail", secret="MARKER")
    await stage.run(delivery(packed))
    await stage.run(delivery(packed, attempts=1))
    await stage.run("fine", secret="MARKER")
    assert {"attempt.retrying", "job.dead", "attempt.done"} <= {getattr(each, "event", "") for each in caplog.records}
    assert "MARKER" not in caplog.text


@pytest.mark.parametrize(
    ("options", "keep"),
    [({"retention": 7200}, 7200.0), ({"result_ttl": 60}, 60.0), ({"retention": 30, "result_ttl": 60}, 60.0),
     ({"retention": 90, "result_ttl": 60}, 90.0)],
)  # fmt: skip
async def test_the_end_says_how_long_it_is_to_be_kept(stage: Stage, options: dict[str, Any], keep: float) -> None:
    @stage.app.job(name="note", max_attempts=1, **options)
    async def note(well: bool) -> None:
        if not well:
            raise Cancel("enough")

    assert record_of(await stage.run("note", well=True))["keep"] == keep
    assert record_of(await stage.run("note", well=False))["keep"] == keep
    assert record_of(await stage.run(delivery("note", {"well": True}, expired=True)))["keep"] == keep


async def test_an_attempt_that_ends_nothing_keeps_nothing(stage: Stage) -> None:
    @stage.app.job(name="note", retention=7200)
    async def note() -> None:
        raise Retry(after=1)

    assert "keep" not in record_of(await stage.run("note"))


async def test_an_observer_hears_of_the_start_in_the_body_s_own_context_and_of_each_end(stage: Stage) -> None:
    mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")

    class Recorder:
        def __init__(self) -> None:
            self.heard: list[object] = []

        def began(self, attempt: Attempt, context: Context) -> None:
            mark.set(context.job)
            self.heard.append(("began", attempt.job))

        def ended(self, attempt: Attempt, outcome: Outcome, error: BaseException | None) -> None:
            self.heard.append(("ended", attempt.job, outcome.word, type(error)))

        def answered(self, attempt: Attempt, word: str) -> None:
            self.heard.append(("answered", attempt.job, word))

        def batch(self, attempts: Sequence[Attempt]) -> AbstractContextManager[object]:
            return contextlib.nullcontext()

    recorder = Recorder()
    stage.lane.observer = recorder
    stage.lane.send = lambda attempt: stage.lane.forget(attempt, "ok")

    @stage.app.job(name="well")
    async def well() -> None:
        recorder.heard.append(("body", mark.get()))

    @stage.app.job(name="ill")
    def ill() -> None:
        recorder.heard.append(("body", mark.get()))
        raise ValueError

    await stage.run("well")
    await stage.run("ill")
    await stage.run("nobody")
    stage.lane.hand_back(delivery("well"), time.monotonic())

    none = type(None)
    assert recorder.heard == [
        ("began", "well"), ("body", "well"), ("ended", "well", "done", none), ("answered", "well", "done"),
        ("began", "ill"), ("body", "ill"), ("ended", "ill", "retry", ValueError), ("answered", "ill", "retry"),
        ("ended", "nobody", "parked", none), ("answered", "nobody", "parked"),
        ("answered", "", "released"),
    ]  # fmt: skip
