"""Durable runs in a world: the real engine, relay and worker on the step store in memory."""

from __future__ import annotations

from redisjobs import App, Context, Event
from redisjobs.testing import in_memory

app = App("runs")
ran: list[str] = []


@app.job(result_ttl=3600)
async def double(number: int) -> int:
    ran.append(f"double {number}")
    return 2 * number


async def charge(amount: int) -> int:
    ran.append(f"charge {amount}")
    return amount + 1


@app.job
async def onboard(ctx: Context, customer: str) -> None:
    paid = await ctx.step("charge", charge, 7)
    await ctx.sleep("cool-off", 86_400)
    event: Event[object] | None = await ctx.wait_for_event("approved", customer, timeout=3600)
    twice = await ctx.call(double, paid)
    ran.append(f"{customer}: {paid} {twice} {event is not None}")


async def test_a_run_sleeps_waits_and_calls_in_a_world_and_no_step_runs_twice():
    ran.clear()
    async with in_memory(app) as world:
        async with world.connect() as connection:
            run = await onboard.enqueue(connection, "ada")
        await world.settle()
        assert ran == ["charge 7"]
        assert world.state(run).state in ("published", "deferred", "staged", "suspended")

        await world.advance(hours=24)
        assert world.state(run).state == "suspended"
        await world.advance(hours=1)
        await world.advance(seconds=5)

        assert world.state(run).state == "done"

    assert ran == ["charge 7", "double 8", "ada: 8 16 False"]
