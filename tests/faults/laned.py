"""Jobs that run in lanes, for workers that are killed."""

from __future__ import annotations

from functools import cache

from redisjobs import App, Context
from tests.faults.journal import Journal

app = App("lanes")


@cache
def journal() -> Journal:
    return Journal.of_env()


@app.job(lane="key", retry=[0.02, 0.1], max_attempts=50)
async def stop(ctx: Context, key: str, number: int, failures: int) -> None:
    """Fails so often before it succeeds; those behind it in its lane wait."""
    with journal().run(ctx, f"{key} {number}"):
        if ctx.attempt <= failures:
            raise RuntimeError("not yet")


@app.job(lane="key", lane_on_failure="skip", retry=[0.2], max_attempts=50)
async def skip(ctx: Context, key: str, number: int, failures: int) -> None:
    """Likewise; those behind it go on while it waits for its retry."""
    with journal().run(ctx, f"{key} {number}"):
        if ctx.attempt <= failures:
            raise RuntimeError("not yet")
