"""A body that wants another state than the app's lifespan yields, and middleware of another shape."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from redisjobs import App, Context, Options


class Client: ...


@asynccontextmanager
async def lifespan(app: App) -> AsyncGenerator[Client]:
    del app
    yield Client()


app = App("shop", lifespan=lifespan)


async def fetch(ctx: Context[str], url: str) -> str:
    return ctx.state + url


def blocking(ctx: Context, call_next: object) -> None:
    del ctx, call_next


async def slow_shape(job: str, options: Options) -> Options:
    del job
    return options


async def uses(ctx: Context[Client]) -> None:
    ctx.state.get("x")  # refused
    ctx.progress("half")  # refused


async def elsewhere(ctx: Context[Client]) -> None:
    del ctx


without = App("plain").job(elsewhere)
without.call()  # refused
job = app.job(fetch)
job.call("u")  # refused
app.middleware(blocking)  # refused
app.enqueue_middleware(slow_shape)  # refused
