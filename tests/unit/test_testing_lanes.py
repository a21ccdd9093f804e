"""Lanes in a world: the real scripts, relay and worker in memory."""

from __future__ import annotations

import pytest

from redisjobs import App, Context, EnqueueError
from redisjobs.testing import in_memory

app = App("lanes")
ran: list[str] = []


@app.job(lane="customer", retry=[1])
async def book(ctx: Context, customer: str, number: int) -> None:
    ran.append(f"{customer} {number}")
    if number == 1 and ctx.attempt == 1:
        raise ConnectionError("not now")


@app.job(lane="customer", lane_on_failure="skip", retry=[1])
async def remind(ctx: Context, customer: str, number: int) -> None:
    ran.append(f"{customer} {number}")
    if number == 1 and ctx.attempt == 1:
        raise ConnectionError("not now")


@app.job(lane="customer", result_ttl=60)
async def child(customer: str) -> str:
    ran.append(f"child of {customer}")
    return customer


@app.job(lane="customer", max_attempts=1)
async def parent(ctx: Context, customer: str) -> None:
    with pytest.raises(EnqueueError, match="each would wait for the other"):
        await ctx.call(child.call(customer), name="called")
    started = await ctx.start(child.call(customer), name="started")
    with pytest.raises(EnqueueError, match="each would wait for the other"):
        await started.result()
    ran.append(await ctx.call(child.using(lane="other").call(customer), name="elsewhere"))


async def test_a_failed_job_holds_up_its_lane_or_lets_the_next_one_go_on():
    for job, expected in ((book, ["a 1", "a 1", "a 2", "a 3"]), (remind, ["a 1", "a 2", "a 3", "a 1"])):
        ran.clear()
        async with in_memory(app) as world:
            async with world.connect() as connection:
                for number in (1, 2, 3):
                    await job.enqueue(connection, "a", number)
            await world.settle()
            await world.advance(seconds=2)
        assert ran == expected


async def test_a_run_waits_for_no_child_of_its_own_lane():
    ran.clear()
    async with in_memory(app) as world:
        async with world.connect() as connection:
            run = await parent.enqueue(connection, "a")
        await world.settle()
        await world.advance(seconds=5)
        assert world.state(run).state == "done"

    assert ran == ["child of a", "a", "child of a"]
