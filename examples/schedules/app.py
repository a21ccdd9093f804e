"""A shop that reports at night, cleans up every few seconds, and watches each of its customers."""

from __future__ import annotations

from redisjobs import App, Context

app = App("schedules-example")


@app.schedule("30 2 * * *", zone="Europe/Berlin", catch_up="run_once")
@app.job
async def nightly(ctx: Context) -> None:
    """Once a night, also in the two nights of a year in which the clocks change."""
    found = ctx.schedule
    if found is not None:
        print(f"report for {found.local:%d %B %Y}, of {found.count} night(s)", flush=True)


@app.schedule(every=2, overlap="skip")
@app.job
async def clean(ctx: Context) -> None:
    """Every two seconds, and never two at a time."""
    found = ctx.schedule
    if found is not None:
        print(f"cleaned at {found.at:%H:%M:%S}", flush=True)


@app.job
async def watch(customer: str) -> None:
    """For schedules that are made at run time: one for each customer."""
    print(f"looked at {customer}", flush=True)
