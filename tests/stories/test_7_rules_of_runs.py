"""What holds for the names, the tries and the branches of a durable run (rules T2 to T6, T8, T10)."""

from __future__ import annotations

import asyncio

import pytest

from redisjobs import Context, JobAbortedError, StepDuplicateError, StepFailed
from tests.stories.road import Road
from tests.support.eventually import eventually


def records(road: Road) -> list[tuple[object, ...]]:
    """The name, state and tries of what runs have recorded, in the order of its beginning."""
    return road.query("SELECT name, state, tries FROM redisjobs.steps ORDER BY seq")


async def test_t4_a_name_that_is_used_twice_is_refused_before_it_runs_again(road: Road):
    @road.app.job(max_attempts=1)
    async def twice(ctx: Context) -> None:
        await ctx.step("charge", road.seen.append, "first")
        with pytest.raises(StepDuplicateError, match=r"charge.*an index"):
            await ctx.step("charge", road.seen.append, "second")
        with pytest.raises(StepDuplicateError, match="charge"):
            await ctx.sleep("charge", 0)
        for index in range(2):
            await ctx.step(f"charge {index}", road.seen.append, index)

    await road.work()
    (job,) = road.commit(twice.call())
    await road.reaches("done", job)
    assert road.seen == ["first", 0, 1]


async def test_t3_a_step_has_tries_of_its_own_and_its_failure_is_recorded_before_the_body_hears_of_it(road: Road):
    @road.app.job(max_attempts=2, retry=[0.05])
    async def pay(ctx: Context) -> None:
        def charge() -> None:
            road.seen.append("charge")
            raise ConnectionError("the bank is away")

        try:
            await ctx.step("charge", charge, tries=3, retry=[0])
        except StepFailed as failed:
            road.seen.append((str(failed.error), records(road)))
            raise

    await road.work()
    (job,) = road.commit(pay.call())
    await road.reaches("dead", job)
    heard = ("ConnectionError: the bank is away", [("charge", "failed", 3)])
    assert road.seen[:4] == ["charge"] * 3 + [heard]


async def test_t2_a_step_that_is_declared_above_its_function_runs_once_with_the_arguments_of_its_call(road: Road):
    @road.app.job(max_attempts=2, retry=[0.05])
    async def pay(ctx: Context) -> None:
        @ctx.step("charge", tries=2, retry=[0])
        async def charge(cents: int, *, currency: str) -> tuple[int, str]:
            road.seen.append("charge")
            if road.seen.count("charge") == 1:
                raise ConnectionError("the bank is away")
            return cents, currency

        road.seen.append(await charge(500, currency="EUR"))
        if ctx.attempt == 1:
            raise ValueError("once more")

    await road.work()
    (job,) = road.commit(pay.call())
    await road.reaches("done", job)
    assert road.seen == ["charge", "charge", (500, "EUR"), (500, "EUR")]


async def test_t6_a_suspension_is_no_error_no_attempt_and_holds_no_slot(road: Road):
    @road.app.job(max_attempts=1)
    async def wait(ctx: Context) -> None:
        try:
            event = await ctx.wait_for_event("paid", "7")
        except Exception as error:
            road.seen.append(error)
            raise
        road.seen.append((event and event.data, ctx.attempt))

    @road.app.job
    async def other() -> None:
        road.seen.append("other")

    await road.work(concurrency=1)
    (job,) = road.commit(wait.call())
    await road.reaches("suspended", job)
    road.commit(other.call())
    await eventually(lambda: road.seen == ["other"], "its slot is free")
    road.query("SELECT redisjobs.send_event('paid', '7', '1')")
    await road.reaches("done", job)
    assert road.seen == ["other", (1, 1)]


async def test_t5_an_attempt_that_was_replaced_is_refused_with_the_names_of_job_and_step(road: Road):
    refused: list[JobAbortedError] = []

    @road.app.job
    async def ship(ctx: Context) -> None:
        await ctx.step("pick", road.seen.append, "pick")
        road.query(
            "UPDATE redisjobs.outbox SET fence[2] = fence[2] + 1, holder = 'other' WHERE id = %(id)s", id=ctx.job_id
        )
        try:
            await ctx.step("pack", road.seen.append, "pack")
        except JobAbortedError as error:
            refused.append(error)
            raise

    worker = await road.work()
    road.commit(ship.call())
    await eventually(lambda: refused, "it is refused")
    await worker.stop(0)
    assert "ship" in str(refused[0])
    assert "pack" in str(refused[0])


async def test_t10_steps_run_side_by_side_and_their_records_go_with_their_run(road: Road):
    meeting = asyncio.Barrier(3)

    @road.app.job(retry=[0.05])
    async def spread(ctx: Context) -> None:
        async def meet(number: int) -> int:
            await asyncio.wait_for(meeting.wait(), 10)
            road.seen.append("met")
            return number

        answers = await ctx.gather(*(ctx.step(f"meet {number}", meet, number) for number in range(3)))
        road.seen.append((answers, len(records(road))))
        if ctx.attempt == 1:
            raise ConnectionError

    await road.work()
    (job,) = road.commit(spread.call())
    await road.reaches("done", job)
    assert road.seen == ["met", "met", "met", ((0, 1, 2), 3), ((0, 1, 2), 3)]
    assert records(road) == []


async def test_t8_a_run_waits_for_a_thousand_children_without_a_slot_and_gets_each_result(road: Road):
    @road.app.job
    async def square(n: int) -> int:
        return n * n

    @road.app.job
    async def fan_out(ctx: Context) -> None:
        road.seen.append(sum(await ctx.gather(*(ctx.call(square.call(n), name=f"square {n}") for n in range(1000)))))

    await road.work(concurrency=20)
    (job,) = road.commit(fan_out.call())
    await road.reaches("done", job, within=60)
    assert road.seen == [sum(n * n for n in range(1000))]
    assert road.query("SELECT count(*) FROM redisjobs.finished WHERE state = 'done'") == [(1001,)]
    assert records(road) == []
