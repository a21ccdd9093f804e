"""The jobs of the programme, as the workers know them. Each answers what it was given, and whose run it was."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any, TypedDict

from redisjobs import App, Context, Limit, Snooze
from redisjobs.webhooks import over_days, webhook
from tests.faults.programme.book import FOLDER
from tests.faults.programme.plan import LIMIT, STEPS
from tests.faults.programme.witness import around, book, running

KEEP_S = 3600
SCHEDULE = "tick"
ENDPOINT = "receiver"

app = App("programme", middleware=[around])


class Answer(TypedDict):
    """What a job returned, and which of its runs."""

    run: str
    value: Any


class Planned(RuntimeError):
    """A failure that is part of the plan."""


def answer(ctx: Context, value: Any) -> Answer:
    """Write down what came in, and send it back."""
    run = running.get()
    book().write("given", run=run, id=ctx.job_id, value=value)
    return {"run": run, "value": value}


def once(name: str) -> bool:
    """Whether this is the first time that anybody asks for this, in any process."""
    try:
        (Path(os.environ[FOLDER]) / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@app.job(result_ttl=KEEP_S)
async def plain(ctx: Context, value: Any) -> Answer:
    """Does nothing."""
    return answer(ctx, value)


@app.job(result_ttl=KEEP_S)
def threaded(ctx: Context, value: Any) -> Answer:
    """Does nothing, in a thread."""
    threading.Event().wait(0.01)  # under another clock `time.sleep` fails, see tests.support.wall_clock
    return answer(ctx, value)


@app.job(result_ttl=KEEP_S)
async def long(ctx: Context, value: Any, seconds: float) -> Answer:
    """Runs past its lease."""
    await asyncio.sleep(seconds)
    return answer(ctx, value)


@app.job(result_ttl=KEEP_S, retry=[0.1, 0.2, 0.4], max_attempts=5)
async def failing(ctx: Context, value: Any, failures: int) -> Answer:
    """Fails so often before it succeeds."""
    if ctx.attempt <= failures:
        raise Planned("not yet")
    return answer(ctx, value)


@app.job(retry=[0.1, 0.2], max_attempts=3)
async def doomed(ctx: Context, value: Any) -> None:
    """Fails at every attempt."""
    answer(ctx, value)
    raise Planned("never")


@app.job(result_ttl=KEEP_S)
async def snoozing(ctx: Context, value: Any) -> Answer:
    """Comes back twice, uncounted."""
    if once(f"{ctx.job_id}-nap1") or once(f"{ctx.job_id}-nap2"):
        raise Snooze(after=0.3)
    return answer(ctx, value)


@app.job(result_ttl=KEEP_S, retry=[0.2] * 20, max_attempts=20)
async def durable(ctx: Context, value: Any, rest: float) -> Answer:
    """Three steps, with a sleep between them: a long one gives the slot back."""

    async def step(name: str) -> str:
        book().write("step", run=running.get(), id=ctx.job_id, name=name)
        await asyncio.sleep(0.02)
        return name

    for name in STEPS:
        assert await ctx.step(name, step, name) == name
        book().write("recorded", run=running.get(), id=ctx.job_id, name=name)
        if name == "two":
            await ctx.sleep("rest", rest)
    return answer(ctx, value)


@app.job(result_ttl=KEEP_S, retry=[0.2] * 20, max_attempts=20)
async def paying(ctx: Context, value: Any) -> Answer:
    """An effect in the transaction of its record."""
    async with ctx.transaction("pay") as tx:
        await tx.execute("INSERT INTO programme.effects (id, what) VALUES (%s, 'paid')", [ctx.job_id])
    return answer(ctx, value)


@app.job(result_ttl=KEEP_S, retry=[0.2] * 20, max_attempts=20)
async def awaiting(ctx: Context, value: Any, key: str) -> Answer:
    """Waits for an event that its producer sends once it has committed."""
    event = await ctx.wait_for_event("go", key, timeout=600)
    assert event is not None, "its event was lost"
    assert event.data == {"key": key}, event.data
    return answer(ctx, value)


@app.job(result_ttl=KEEP_S, retry=[0.2] * 20, max_attempts=20)
async def parent(ctx: Context, value: Any) -> Answer:
    """Two children, one after the other."""
    for number in (1, 2):
        assert await ctx.call(child.call(number), name=f"child-{number}") == number
    return answer(ctx, value)


@app.job(queue="q4")
async def child(number: int) -> int:
    """Answers its number."""
    return number


@app.job(result_ttl=KEEP_S)
async def keyed(ctx: Context, value: Any) -> Answer:
    """Enqueued with a key and its window."""
    return answer(ctx, value)


@app.job(result_ttl=KEEP_S, limit=Limit(LIMIT, name="press"))
async def limited(ctx: Context, value: Any, seconds: float) -> Answer:
    """So many at once in the whole fleet."""
    await asyncio.sleep(seconds)
    return answer(ctx, value)


@app.job(result_ttl=KEEP_S)
async def dying(ctx: Context, value: Any) -> Answer:
    """Kills its process, the first time."""
    if once(f"{ctx.job_id}-death"):
        book().write("dies", run=running.get(), id=ctx.job_id, pid=os.getpid())
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(ctx, value)


@app.schedule(name=SCHEDULE, every=1, catch_up="run_all", max_catch_up=1000)
@app.job(queue="q6")
async def tick(ctx: Context) -> None:
    """Each second."""
    found = ctx.schedule
    assert found is not None
    book().write("tick", run=running.get(), id=ctx.job_id, occurrence=found.at.timestamp(), count=found.count)


other_app = App("another release")


@other_app.job
async def unknown(ctx: Context, value: Any) -> None:
    """A job that no worker here knows; it waits until it is cancelled."""


hook = webhook(app, queue="q5", retry=over_days([0.3, 0.6, 1.2, 2.4, 4.8]), max_attempts=20, allow=["127.0.0.1/32"])
