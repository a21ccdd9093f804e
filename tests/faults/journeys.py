"""Durable runs that walk, sleep and wait. Their processes end themselves where a test asks for it."""

from __future__ import annotations

from redisjobs import App, Context
from tests.faults.shop import journal
from tests.faults.transfers import die

app = App("journeys")

STATIONS = ("one", "two", "three")
AT_WAITS = ("before", "between", "after")
"""Where a process can be asked to end: before the first wait, behind it, and behind the second."""


async def note(ctx: Context, text: str) -> str:
    """A step whose only effect is a line in the journal."""
    with journal().run(ctx, text):
        return text


@app.job
async def walk(ctx: Context, number: int = 0) -> None:
    """Three steps. Its process can be asked to end between the record of the second and the start of the third."""
    await ctx.step("one", note, ctx, "one")
    await ctx.step("two", note, ctx, "two")
    die(number, "between")
    await ctx.step("three", note, ctx, "three")


@app.job
async def sleep(ctx: Context, seconds: float) -> None:
    """Notes the moments before and after its sleep."""
    await ctx.step("lie down", note, ctx, "lies down")
    await ctx.sleep("night", seconds)
    await ctx.step("get up", note, ctx, "gets up")


@app.job
async def take_one(ctx: Context, key: str) -> None:
    """Notes what the event says."""
    event = await ctx.wait_for_event("paid", key, timeout=60)
    await ctx.step("tell", note, ctx, "nothing came" if event is None else str(event.data))


@app.job
async def take_two(ctx: Context, number: int) -> None:
    """Notes what two events of one name and key say, in the order of its two waits."""
    key = str(number)
    die(number, "before")
    first = await ctx.wait_for_event("paid", key, step="first")
    die(number, "between")
    second = await ctx.wait_for_event("paid", key, step="second")
    die(number, "after")
    await ctx.step("tell", note, ctx, f"{first and first.data}, {second and second.data}")
