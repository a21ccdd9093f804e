"""Jobs with limits, each of whose runs is written into the journal under the key of its limit."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from functools import cache

from redisjobs import App, Context, Limit
from tests.faults.journal import Journal

app = App("limits")


@cache
def journal() -> Journal:
    return Journal.of_env()


@app.job(limit=3)
async def three(ctx: Context, seconds: float) -> None:
    """Three at once in the whole fleet."""
    with journal().run(ctx, "three"):
        await asyncio.sleep(seconds)


@app.job(limit=Limit(1, key="name"))
async def one(ctx: Context, name: str, seconds: float) -> None:
    """One at once of each name."""
    with journal().run(ctx, name):
        await asyncio.sleep(seconds)


@app.job(limit=2)
async def two(ctx: Context, seconds: float) -> None:
    """Two at once, each for so long where it is not killed; begun anew it ends at once."""
    with journal().run(ctx, "two"):
        await asyncio.sleep(seconds if journal().starts(ctx.job_id) == 1 else 0)


@app.job(limit=10)
async def ten(ctx: Context, crashes: float, surely: bool = False) -> None:
    """Kills its worker now and then, or surely at its first start."""
    with journal().run(ctx, "ten"):
        await asyncio.sleep(0.02)
        if random.random() < crashes or (surely and journal().starts(ctx.job_id) == 1):
            os.kill(os.getpid(), signal.SIGKILL)
