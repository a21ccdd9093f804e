"""Attempts of durable runs on the real runner, their records in memory (rules T2 to T11)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from redisjobs import (
    App,
    Context,
    DatabaseUnavailable,
    JobAbortedError,
    StepDuplicateError,
    StepFailed,
    StepTimeoutError,
)
from redisjobs.steps import JobDone, StepRecord, Token
from redisjobs.testing import Died, Inline, Retried, Succeeded, Suspended, run
from redisjobs.testing.steps import MemorySteps

app = App("inline")


async def test_the_same_name_twice_is_refused_and_names_what_to_do() -> None:
    @app.job(name="twice", max_attempts=1)
    async def twice(ctx: Context) -> None:
        for _ in range(2):
            await ctx.step("charge", lambda: 1)

    died = await run(twice)
    assert isinstance(died, Died)
    assert isinstance(died.error, StepDuplicateError)
    assert "in a loop one with an index" in str(died.error)


async def test_a_name_that_becomes_something_else_is_refused() -> None:
    new = False

    @app.job(name="changed", retry=[0])
    async def changed(ctx: Context) -> None:
        if new:
            await ctx.sleep("it", 1)
        await ctx.step("it", lambda: 1)
        raise ConnectionError

    inline, call = Inline(), changed.call()
    assert isinstance(await inline.run_call(changed, call), Retried)
    new = True
    retried = await inline.run_call(changed, call)
    assert isinstance(retried, Retried)
    assert "was recorded as a step and is a sleep now" in str(retried.error)


async def test_a_renamed_step_runs_anew_and_a_removed_one_is_ignored() -> None:
    seen, names = list[str](), ["one", "two"]

    @app.job(name="released", retry=[0])
    async def released(ctx: Context) -> str:
        for name in names:
            await ctx.step(name, seen.append, name)
        if names[0] == "one":
            raise ConnectionError
        return "done"

    inline, call = Inline(), released.call()
    await inline.run_call(released, call)
    names[:] = ["two b"]
    assert await inline.run_call(released, call) == Succeeded("done")
    assert seen == ["one", "two", "two b"]


async def test_a_failed_step_is_tried_by_its_own_rule_and_again_in_the_next_attempt() -> None:
    tried = list[int]()

    async def call_bank() -> str:
        tried.append(1)
        if len(tried) < 5:
            raise ConnectionError("away")
        return "paid"

    @app.job(name="bank", retry=[0])
    async def bank(ctx: Context) -> str:
        await ctx.step("first", lambda: tried.append(0) if tried else None)
        return await ctx.step("bank", call_bank, tries=3, retry=[0])

    inline, call = Inline(), bank.call()
    retried = await inline.run_call(bank, call)
    assert isinstance(retried, Retried)
    assert isinstance(retried.error, StepFailed)
    assert isinstance(retried.error.__cause__, ConnectionError)
    assert (retried.error.tries, len(tried)) == (3, 3)
    assert await inline.run_call(bank, call) == Succeeded("paid")
    assert tried == [1] * 5


async def test_a_failure_that_the_body_has_caught_is_part_of_the_run() -> None:
    seen = list[str]()

    def fail() -> None:
        seen.append("tried")
        raise ValueError("no")

    @app.job(name="caught", retry=[0])
    async def caught(ctx: Context) -> str:
        try:
            await ctx.step("fails", fail)
        except StepFailed as error:
            seen.append(error.error)
        if ctx.attempt == 1:
            raise ConnectionError
        return "plan b"

    inline, call = Inline(), caught.call()
    await inline.run_call(caught, call)
    inline.attempt = 2
    assert await inline.run_call(caught, call) == Succeeded("plan b")
    assert seen == ["tried", "ValueError: no", "ValueError: no"]


async def test_a_long_wait_before_the_next_try_gives_the_slot_back_and_its_tries_count_on() -> None:
    tried = list[int]()

    def fail_twice() -> int:
        tried.append(1)
        if len(tried) < 3:
            raise ConnectionError
        return len(tried)

    @app.job(name="patient")
    async def patient(ctx: Context) -> int:
        return await ctx.step("it", fail_twice, retry=[3600, 60])

    inline, call = Inline(), patient.call()
    for wait in (3600, 60):
        suspended = await inline.run_call(patient, call)
        assert isinstance(suspended, Suspended)
        assert suspended.after == pytest.approx(wait, abs=5)
        early = await inline.run_call(patient, call)
        assert isinstance(early, Suspended)
        inline.pass_time(wait)
    assert await inline.run_call(patient, call) == Succeeded(3)


async def test_errors_that_the_job_gives_up_on_are_known_through_the_step() -> None:
    tried = list[int]()

    def fail() -> None:
        tried.append(1)
        raise PermissionError("card stolen")

    @app.job(name="gives_up", give_up_on=PermissionError)
    async def gives_up(ctx: Context) -> None:
        await ctx.step("charge", fail, tries=5, retry=[0])

    died = await run(gives_up)
    assert isinstance(died, Died)
    assert died.reason == "its error is none that the job retries"
    assert tried == [1]


async def test_a_try_past_its_timeout_is_cancelled_and_a_plain_function_can_have_none() -> None:
    @app.job(name="late", retry=[0])
    async def late(ctx: Context) -> None:
        await ctx.step("slow", asyncio.sleep, 60, timeout=0.05)

    retried = await run(late)
    assert isinstance(retried, Retried)
    assert isinstance(retried.error, StepTimeoutError)

    @app.job(name="in_thread", retry=[0])
    async def in_thread(ctx: Context) -> None:
        await ctx.step("slow", lambda: None, timeout=5)

    assert "runs in a thread, which cannot be ended" in str(getattr(await run(in_thread), "error", ""))


async def test_a_result_that_cannot_be_kept_ends_the_job_and_is_not_tried_again() -> None:
    @app.job(name="large")
    async def large(ctx: Context) -> None:
        await ctx.step("large", lambda: "x" * 1_100_000)

    died = await run(large)
    assert isinstance(died, Died)
    assert "step 'large' ended well, but its result cannot be kept" in died.reason
    assert "1048576" in died.reason


async def test_a_suspension_leaves_a_task_group_and_passes_what_catches_exceptions() -> None:
    @app.job(name="grouped")
    async def grouped(ctx: Context) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(ctx.sleep("long", 600))
                tasks.create_task(ctx.step("short", lambda: 1))
        except Exception as error:
            raise AssertionError from error

    suspended = await run(grouped)
    assert isinstance(suspended, Suspended)
    assert not suspended.waits


async def test_a_body_that_swallows_its_suspension_is_suspended_all_the_same() -> None:
    @app.job(name="swallows")
    async def swallows(ctx: Context) -> str:
        try:
            await ctx.sleep("long", 600)
        except BaseException:  # noqa: BLE001 - what no body should do
            await asyncio.gather(ctx.step("cleanup", lambda: 1), return_exceptions=True)
        return "wrong"

    assert isinstance(await run(swallows), Suspended)


async def test_a_task_that_the_body_left_behind_records_nothing_more() -> None:
    seen = list[Any]()
    begun = asyncio.Event()

    async def slow() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    @app.job(name="leaves")
    async def leaves(ctx: Context) -> None:
        seen.append(asyncio.create_task(ctx.step("slow", slow)))
        await begun.wait()
        seen.append(ctx)

    assert await run(leaves) == Succeeded(None)
    assert seen[2] == "cancelled"
    with pytest.raises(JobAbortedError, match="job 'leaves', step 'later': the attempt has ended"):
        await seen[1].step("later", lambda: 1)


async def test_functions_of_steps_run_in_the_thread_of_a_plain_body() -> None:
    @app.job(name="plain", result_ttl=60)
    def plain(ctx: Context) -> bool:
        @ctx.sync.step("where")
        def where() -> str:
            return threading.current_thread().name

        return where() == threading.current_thread().name

    assert await run(plain) == Succeeded(True)


async def test_a_plain_body_is_suspended_too() -> None:
    @app.job(name="plain_sleeper")
    def plain_sleeper(ctx: Context) -> None:
        ctx.sync.sleep("long", 600)

    assert isinstance(await run(plain_sleeper), Suspended)


FORGETFUL: dict[str, Callable[[Context], object]] = {
    "step": lambda ctx: ctx.step("a", str),
    "sleep": lambda ctx: ctx.sleep("a", 600),
    "wait_for_event": lambda ctx: ctx.wait_for_event("a"),
    "gather": lambda ctx: ctx.gather(),
    "transaction": lambda ctx: ctx.transaction("a"),
}


@pytest.mark.parametrize("what", FORGETFUL)
async def test_a_plain_body_that_forgets_sync_is_told_so_and_nothing_is_passed_over_in_silence(what: str) -> None:
    @app.job(name=f"forgets_{what}", max_attempts=1)
    def forgets(ctx: Context) -> None:
        FORGETFUL[what](ctx)

    died = await run(forgets)

    assert isinstance(died, Died)
    assert f"ctx.sync.{what}(…)" in str(died.error)


async def test_branches_are_undone_too_newest_first() -> None:
    seen = list[str]()

    @app.job(name="branches", max_attempts=1)
    async def branches(ctx: Context) -> None:
        await ctx.step("a", lambda: "a", undo=seen.append)
        await ctx.gather(*(ctx.step(each, str, each, undo=seen.append) for each in "bc"))
        raise ValueError

    assert isinstance(await run(branches), Died)
    assert seen[-1] == "a"
    assert sorted(seen) == ["a", "b", "c"]


async def test_an_undo_that_fails_is_tried_again_and_named_if_it_never_succeeds() -> None:
    seen = list[str]()

    def fails(what: str) -> None:
        seen.append(what)
        raise ConnectionError("airline away")

    @app.job(name="stuck", max_attempts=1, retry=[0])
    async def stuck(ctx: Context) -> None:
        await ctx.step("hotel", lambda: "hotel", undo=seen.append)
        await ctx.step("flight", lambda: "flight", undo=fails)
        raise ValueError("no car")

    died = await run(stuck)
    assert isinstance(died, Died)
    assert died.reason == ("attempt 1 of 1 failed; the undo of step 'flight' failed: ConnectionError: airline away")
    assert seen == ["flight"] * 5 + ["hotel"]


class Unanswered(MemorySteps):
    """A store whose first commit of a transaction is not answered.

    Attributes:
        committed: whether it was done all the same.
    """

    committed = True
    left = 1

    def transaction(self, token: Token, record: StepRecord | JobDone) -> AbstractAsyncContextManager[Any]:
        return self._unanswered(token, record)

    @asynccontextmanager
    async def _unanswered(self, token: Token, record: StepRecord | JobDone) -> AsyncGenerator[Any, None]:
        if Unanswered.left and not Unanswered.committed:
            yield None
            Unanswered.left -= 1
            raise DatabaseUnavailable("no answer")
        async with super().transaction(token, record) as tx:
            yield tx
        if Unanswered.left:
            Unanswered.left -= 1
            raise DatabaseUnavailable("no answer")


@pytest.mark.parametrize("committed", [True, False])
async def test_a_commit_without_an_answer_is_looked_up_and_not_made_twice(
    monkeypatch: pytest.MonkeyPatch, *, committed: bool
) -> None:
    monkeypatch.setattr(Unanswered, "committed", committed)
    monkeypatch.setattr(Unanswered, "left", 1)
    monkeypatch.setattr("redisjobs.testing.inline.MemorySteps", Unanswered)
    seen = list[str]()

    async def move(tx: Any, amount: int) -> int:
        del tx
        seen.append("moved")
        return amount

    @app.job(name=f"moves {committed}")
    async def moves(ctx: Context) -> int:
        return await ctx.transaction("move", move, 5)

    assert await run(moves) == Succeeded(5)
    assert seen == ["moved"] * (1 if committed else 2)


@pytest.mark.parametrize("committed", [True, False])
async def test_a_transactional_job_whose_commit_was_not_answered_ends_once(
    monkeypatch: pytest.MonkeyPatch, *, committed: bool
) -> None:
    monkeypatch.setattr(Unanswered, "committed", committed)
    monkeypatch.setattr(Unanswered, "left", 1)
    monkeypatch.setattr("redisjobs.testing.inline.MemorySteps", Unanswered)
    seen = list[str]()

    @app.job(name=f"books {committed}", transactional=True)
    async def books(ctx: Context) -> int:
        del ctx
        seen.append("booked")
        return 5

    inline, call = Inline(), books.call()
    first = await inline.run_call(books, call)
    if not committed:
        assert isinstance(first, Suspended)
        first = await inline.run_call(books, call)
    assert first == Succeeded(5)
    assert seen == ["booked"] * (1 if committed else 2)
