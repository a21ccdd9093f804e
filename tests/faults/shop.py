"""The jobs that the processes of these tests run. Each body writes its runs into the journal."""

from __future__ import annotations

import asyncio
import os
import time
from contextvars import ContextVar
from functools import cache

import psycopg

from redisjobs import App, Context
from tests.faults.journal import Journal
from tests.support.eventually import eventually

app = App("shop")
other_app = App("another release of the shop")

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@cache
def journal() -> Journal:
    """Where bodies of this process write."""
    return Journal.of_env()


@app.job
async def order(ctx: Context, seconds: float = 0.0, note: str = "") -> None:
    """Takes its time, and does nothing else."""
    with journal().run(ctx, note):
        await asyncio.sleep(seconds)


@other_app.job
async def other(ctx: Context, seconds: float = 0.0) -> None:
    """A job that `app` does not know."""
    with journal().run(ctx):
        await asyncio.sleep(seconds)


@app.job
async def block(ctx: Context, seconds: float) -> None:
    """Keeps the event loop for itself, as no body should."""
    with journal().run(ctx):
        time.sleep(seconds)  # noqa: ASYNC251 - that is its point


@app.job(retry=[0.2, 0.2, 3.0])
async def stumble(ctx: Context, failures: int) -> None:
    """Fails so often before it succeeds."""
    with journal().run(ctx):
        if ctx.attempt <= failures:
            raise RuntimeError("not yet")


@app.job(result_ttl=600)
async def echo(ctx: Context, value: int, seconds: float = 0.0) -> int:
    """Answers what it was given."""
    with journal().run(ctx):
        await asyncio.sleep(seconds)
        return value


@app.job(result_ttl=600)
async def who(ctx: Context, seconds: float) -> int:
    """Answers in which process it ran."""
    with journal().run(ctx):
        await asyncio.sleep(seconds)
        return os.getpid()


@app.job
async def wait(ctx: Context) -> None:
    """Ends when the test opens the gate."""
    with journal().run(ctx):
        await eventually(journal().gate_is_open, "the gate is open", within=600)


@app.job(timeout=0.05, max_attempts=1)
async def ask(ctx: Context) -> None:
    """Asks Redis this and that until its time is up; the note tells of an answer to another question."""
    with journal().run(ctx):
        while True:
            names, owner = await app.broker().queues(), await app.holder("default", "nobody has it")
            if names != {"default"} or owner is not None:
                with journal().run(ctx, f"mixed up: {names} {owner}"):
                    break


@app.job
async def look_up(ctx: Context, row: int) -> None:
    """Reads the business row that was committed together with it; the note says whether it was there."""
    async with await psycopg.AsyncConnection.connect(os.environ["SHOP_DATABASE_URL"]) as conn:
        found = await (await conn.execute("SELECT 1 FROM sale WHERE row = %s", [row])).fetchone()
    with journal().run(ctx, "there" if found else "missing"):
        pass


@app.job
async def serve(ctx: Context, name: str) -> None:
    """Sets a context variable; the note is what it saw before."""
    with journal().run(ctx, tenant.get()):
        tenant.set(name)
        await asyncio.sleep(0)


@app.job
def serve_in_thread(ctx: Context, name: str) -> None:
    """`serve` for a thread."""
    with journal().run(ctx, tenant.get()):
        tenant.set(name)
