"""Schedules as users write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg

from redisjobs import App, Context, Occurrence

app = App("shop")


@app.schedule("0 9 * * 1-5", zone="Europe/Berlin", catch_up="run_all", max_catch_up=5, misfire_grace=timedelta(hours=1))
@app.job(queue="reports")
async def report(ctx: Context, region: str = "eu") -> int:
    found: Occurrence | None = ctx.schedule
    return 0 if found is None else found.count


@app.schedule(every=30, overlap="skip", jitter=5, starts_at=datetime(2026, 1, 1, tzinfo=UTC))
@app.job
def clean() -> None: ...


app.schedule("0 3 * * *", name="report-us", call=report.using(priority=5).call("us"))


def change(connection: psycopg.Connection) -> str | None:
    changed: bool = app.schedules.create(connection, "a", report.call("us"), "0 * * * *", jitter=10)
    paused: bool = app.schedules.pause(connection, "a")
    return app.schedules.trigger(connection, "a") if changed and paused else None


async def change_async(connection: psycopg.AsyncConnection) -> bool:
    await app.schedules.create(connection, "a", report.call("us"), every=60)
    return await app.schedules.delete(connection, "a")
