"""Jobs of every kind, for a day on which every point of worker and relay is come to."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import psycopg

from redisjobs import App, Context
from redisjobs.webhooks import Endpoint, webhook
from tests.faults.shop import journal

HOOK = "MARKET_HOOK"
"""The URL to which webhooks go."""
SECRET = "whsec_" + "bWFya2V0" * 4
BANKED = "banked"
"""The note of a body that may start again uncounted, for what it did was rolled back."""
TABLES = "CREATE TABLE market_moves (job text NOT NULL, what text NOT NULL)"

app = App("market")


async def note(ctx: Context, text: str) -> str:
    """A step whose only effect is a line in the journal."""
    with journal().run(ctx, text):
        return text


async def move(tx: psycopg.AsyncConnection[Any], job: str, what: str) -> None:
    """What must be there once."""
    await tx.execute("INSERT INTO market_moves VALUES (%s, %s)", [job, what])


@app.job
async def sell(ctx: Context) -> None:
    """A plain job."""
    await note(ctx, "")


@app.job(result_ttl=600)
async def weigh(ctx: Context, value: int) -> int:
    """One that answers."""
    with journal().run(ctx):
        return value


@app.job(retry=[0.05])
async def stumble(ctx: Context) -> None:
    """One that fails once."""
    with journal().run(ctx):
        if ctx.attempt == 1:
            raise RuntimeError("not yet")


@app.job(limit=1, retry=[0.05])
async def queue_up(ctx: Context, seconds: float) -> None:
    """One at once in the whole fleet."""
    with journal().run(ctx):
        await asyncio.sleep(seconds)


@app.job(lane="stall")
async def serve(ctx: Context, stall: str) -> None:
    """One after the other at each stall."""
    await note(ctx, "")


@app.job(singleton="replace")
async def change_price(ctx: Context, seconds: float) -> None:
    """Makes way for a newer one."""
    with journal().run(ctx):
        await asyncio.sleep(seconds)


@app.job
async def tick(ctx: Context) -> None:
    """Dispatched by a schedule; notes for which of its occurrences."""
    occurrence = ctx.schedule
    await note(ctx, occurrence.at.isoformat() if occurrence else "")


@app.job(retry=[0.05])
async def journey(ctx: Context) -> str:
    """A step, a transaction, a child and an event."""
    await ctx.step("pack", note, ctx, "pack")
    await ctx.transaction("pay", move, ctx.job_id, "paid")
    async with ctx.transaction("stamp") as tx:
        await move(tx, ctx.job_id, "stamped")
    weight = await ctx.call(weigh, 7)
    event = await ctx.wait_for_event("called", ctx.job_id)
    return f"{weight}, {event and event.data}"


@app.job(max_attempts=1)
async def trip(ctx: Context) -> None:
    """What it has done is undone, for it fails for good."""

    async def undo(what: str) -> None:
        await note(ctx, f"undo {what}")

    await ctx.step("book", note, ctx, "book", undo=undo)
    raise RuntimeError("no more seats")


@app.job(transactional=True, retry=[0.05])
async def bank(ctx: Context) -> None:
    """Its effects and its end are one commit."""
    with journal().run(ctx, BANKED):
        await move(ctx.tx, ctx.job_id, BANKED)


hooks = webhook(
    app, endpoints=[Endpoint("shop", os.environ.get(HOOK, "http://127.0.0.1:9/"), SECRET)], allow=["127.0.0.0/8"],
    retry=[0.05],
)  # fmt: skip
