"""Durable jobs that die where they are told to: once at each point, by SIGKILL."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import psycopg

from redisjobs import App, Context
from redisjobs.closing import Closing

SCHEMA = """
CREATE TABLE points (job text, point text, PRIMARY KEY (job, point));
CREATE TABLE effects (job text, what text, pid integer);
CREATE TABLE accounts (name text PRIMARY KEY, amount integer);
INSERT INTO accounts VALUES ('a', 1000), ('b', 0);
"""

app = App("bank")


def outside(statement: str, *values: object) -> int:
    """Something that no rollback takes back; how many rows it changed."""
    with psycopg.connect(os.environ["SHOP_DATABASE_URL"], autocommit=True) as connection:
        return connection.execute(statement.encode(), values).rowcount


def reach(job: str, point: str, die_at: str) -> None:
    """Die here, if this is where the job shall die and it has not died here before."""
    if point == die_at and outside("INSERT INTO points VALUES (%s, %s) ON CONFLICT DO NOTHING", job, point):
        os.kill(os.getpid(), signal.SIGKILL)


def effect(job: str, what: str, die_at: str) -> str:
    """An effect outside, with a place to die before and after it."""
    reach(job, f"{what}:before", die_at)
    outside("INSERT INTO effects VALUES (%s, %s, %s)", job, what, os.getpid())
    reach(job, f"{what}:after", die_at)
    return what


@app.job
async def three_steps(ctx: Context, die_at: str) -> None:
    for what in ("one", "two", "three"):
        assert await ctx.step(what, effect, ctx.job_id, what, die_at) == what
        reach(ctx.job_id, f"{what}:recorded", die_at)


@app.job
async def transfer(ctx: Context, die_at: str) -> None:
    async with ctx.transaction("move") as tx:
        reach(ctx.job_id, "begun", die_at)
        await move(tx)
        reach(ctx.job_id, "moved", die_at)
    reach(ctx.job_id, "committed", die_at)


@app.job(transactional=True)
async def pay(ctx: Context, die_at: str) -> None:
    await move(ctx.tx)
    reach(ctx.job_id, "moved", die_at)


async def move(tx: psycopg.AsyncConnection[Any]) -> None:
    await tx.execute("UPDATE accounts SET amount = amount - 1 WHERE name = 'a'")
    await tx.execute("UPDATE accounts SET amount = amount + 1 WHERE name = 'b'")


@app.job(max_attempts=1)
async def trip(ctx: Context, die_at: str) -> None:
    def undo(what: str) -> None:
        effect(ctx.job_id, f"undo {what}", die_at)

    for what in ("flight", "hotel"):
        await ctx.step(what, effect, ctx.job_id, what, die_at, undo=undo)
    raise ValueError("no more seats")


@app.job
async def slow(ctx: Context) -> None:
    async def wait_for_the_other() -> int:
        outside("INSERT INTO effects VALUES (%s, 'began', %s)", ctx.job_id, os.getpid())
        await asyncio.sleep(2)
        return os.getpid()

    pid = await ctx.step("wait", wait_for_the_other)
    outside("INSERT INTO effects VALUES (%s, 'ended', %s)", ctx.job_id, pid)


_returned = Closing.returned


async def _returned_or_dead(self: Closing, attempt: Any, envelope: Any, job: Any, value: object) -> Any:
    """What a transactional job has done is committed, and Redis has not heard of it."""
    if job.name == "pay":
        arguments = job.arguments(envelope.codec, envelope.payload)
        if "die_at" in arguments:  # else it is the job of another test's app, in the process that has imported this one
            reach(attempt.job_id, "ended", arguments["die_at"])
    return await _returned(self, attempt, envelope, job, value)


Closing.returned = _returned_or_dead  # type: ignore[method-assign]
