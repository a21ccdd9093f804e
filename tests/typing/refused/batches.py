"""Batch jobs that cannot be: their arguments, results, options and state."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from redisjobs import App, BatchCall, BatchContext, Handle
from redisjobs.testing import run_batch


class Client: ...


class Other: ...


@asynccontextmanager
async def lifespan(app: App[Any]) -> AsyncGenerator[Client]:
    yield Client()


app = App("search", lifespan=lifespan)


@app.batch_job(size=100, result_ttl=60)
async def squares(calls: list[BatchCall[int]]) -> list[int]:
    for call in calls:
        call.done(result=1, later=2)  # refused
        call.fail(5)  # refused
        text: str = call.argument  # refused
        del text
    return [call.argument**2 for call in calls]


async def wrong_arguments(connection: psycopg.AsyncConnection[Any]) -> None:
    await squares.enqueue(connection)  # refused
    await squares.enqueue(connection, "3")  # refused
    await squares.enqueue(connection, [1, 2])  # refused
    await squares.enqueue(connection, 1, 2)  # refused
    handle: Handle[list[int]] = await squares.enqueue(connection, 1)  # refused
    del handle
    await run_batch(squares, ["a"])  # refused
    await run_batch(squares, 3)  # refused


def wrong_options() -> None:
    app.batch_job(process=True)  # refused
    app.batch_job(transactional=True)  # refused
    app.batch_job(within="2s")  # refused
    app.batch_job(key="shop")  # refused


def wrong_bodies() -> None:
    async def takes_one(argument: int) -> None: ...
    async def another_state(ctx: BatchContext[Other], calls: list[BatchCall[int]]) -> None: ...

    app.batch_job()(takes_one)  # refused
    app.batch_job()(another_state)  # refused
