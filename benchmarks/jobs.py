"""The app that the measured workers serve."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.probe import Probe
from redisjobs import App, Context, Limit

STEPS = 5
"""Of a durable run, each recorded before the next begins."""

TENANTS = 20

app = App("benchmarks")
_probe = Probe.of_environment()


@app.job()
async def noop(body: dict[str, Any]) -> None:
    """Does nothing but to say when."""
    if _probe is not None:
        _probe.hit(body["i"])


@app.job(limit=Limit(1_000_000, name="capacity"))
async def limited(body: dict[str, Any]) -> None:
    """As `noop`, under a limit."""
    if _probe is not None:
        _probe.hit(body["i"])


@app.job(share=lambda body: str(body["i"] % TENANTS))
async def shared(body: dict[str, Any]) -> None:
    """As `noop`, of one of twenty tenants."""
    if _probe is not None:
        _probe.hit(body["i"])


@app.job(limit=Limit(2, name="held"))
async def held(body: dict[str, Any]) -> None:
    """Two at once, which go on for as long as anything is measured."""
    del body
    await asyncio.sleep(3600)


@app.job()
async def five_steps(ctx: Context, body: dict[str, Any]) -> None:
    """A durable run; says when it has ended."""
    for number in range(STEPS):
        await ctx.step(f"step {number}", _step, body["i"], number)
    if _probe is not None:
        _probe.hit(body["i"])


@app.job()
async def waits(ctx: Context, body: dict[str, Any]) -> None:
    """A durable run that lets go of its worker until its event is there; says each time when it goes on."""
    await ctx.wait_for_event("go", str(body["i"]), timeout=86_400)
    if _probe is not None:
        _probe.hit(body["i"])


async def _step(run: int, number: int) -> dict[str, int]:
    return {"i": run, "k": number}


def body(number: int) -> dict[str, Any]:
    """Arguments of about 200 bytes, as many jobs have."""
    return {
        "i": number,
        "user": 1_000_000 + number,
        "address": "somebody.with.a.name@example.com",
        "template": "order-confirmation",
        "language": "en_GB",
        "labels": ["first", "second"],
        "note": "-" * 44,
    }
