"""Bodies have the state of the app's lifespan typed, and middleware has its shape."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, assert_type

from redisjobs import App, Context, Next, Options, Progress


class Client:
    def get(self, url: str) -> str:
        return url


class Special(Client): ...


@asynccontextmanager
async def lifespan(app: App) -> AsyncGenerator[Special]:
    del app
    yield Special()


async def timing(ctx: Context, call_next: Next) -> Any:
    ctx.remaining()
    return await call_next()


def tagged(job: str, options: Options) -> Options:
    return replace(options, headers={"job": job})


app = App("shop", lifespan=lifespan, middleware=[timing], enqueue_middleware=[tagged])
plain = App("plain")
assert_type(app, App[Special])


@app.middleware
async def more(ctx: Context[Special], call_next: Next) -> Any:
    ctx.state.get("x")
    return await call_next()


@app.job
async def fetch(ctx: Context[Special], url: str) -> str:
    ctx.progress(1, 2, "half")
    return ctx.state.get(url)


@app.job(queue="slow")
def fetch_slowly(ctx: Context[Client], url: str) -> str:
    return ctx.state.get(url)


@app.job
async def no_state(ctx: Context, url: str) -> str:
    return url * ctx.attempt


@plain.job
async def elsewhere(ctx: Context, url: str) -> str:
    return f"{ctx.state} {url}"


async def asks() -> None:
    handle = await fetch.enqueue_direct("u")
    assert_type(await handle.progress(), Progress | None)
    assert_type(await handle.result(), str)
    fetch_slowly.call("u")
    no_state.call("u")
    elsewhere.call("u")
