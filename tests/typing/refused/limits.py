"""Limits and rates that cannot be."""

from __future__ import annotations

from typing import Any

from redisjobs import App, Context, Limit, Rate

app: App[Any] = App(queue_limits={"mail": 10})  # refused

Limit("3")  # refused
Limit(3, "tenant")  # refused
Limit(3, weight=1.5)  # refused
Rate(3)  # refused
Rate(3, per="1m")  # refused


@app.job(limit="3")  # refused
async def text(n: int) -> None: ...


@app.job(rate=Limit(3))  # refused
async def mistaken(n: int) -> None: ...


async def met(ctx: Context) -> None:
    ctx.rate_limited()  # refused
