"""Batch jobs: one argument a call, and the type of one result."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

import psycopg

from redisjobs import App, BatchCall, BatchContext, Context, Handle, Retry, Snooze
from redisjobs.testing import Inline, Outcome, run, run_batch


class Client: ...


@asynccontextmanager
async def lifespan(app: App[Any]) -> AsyncGenerator[Client]:
    yield Client()


app = App("search", lifespan=lifespan)


@dataclass
class Doc:
    id: int
    shop: str


@app.batch_job(size=100, within=timedelta(seconds=2), key=lambda doc: doc.shop)
async def index(calls: list[BatchCall[Doc]]) -> None:
    for call in calls:
        assert_type(call.argument, Doc)
        assert_type((call.id, call.attempt, call.lost, call.cancelled), tuple[str, int, bool, bool])
        call.fail(ValueError(call.argument.shop))
        call.fail(Snooze(5))
        call.retry(after=5)
        call.snooze(timedelta(hours=1))
        call.done(7)
        call.cancel()
        call.dead("no")


@app.batch_job(result_ttl=60, split=False)
async def squares(ctx: BatchContext, calls: list[BatchCall[int]]) -> list[int]:
    if ctx.draining.is_set():
        raise Retry
    return [call.argument**2 for call in calls]


@app.batch_job()
async def with_state(ctx: BatchContext[Client], calls: list[BatchCall[str]]) -> Sequence[str] | None:
    assert_type(ctx.state, Client)
    return None


@app.batch_job()
def plain(ctx: Context[Client], calls: Sequence[BatchCall[str]]) -> None:
    assert_type(calls[0].argument, str)


@app.batch_job()
def lengths(calls: list[BatchCall[str]]) -> list[int]:
    return [len(call.argument) for call in calls]


async def use(connection: psycopg.Connection[Any], other: psycopg.AsyncConnection[Any]) -> None:
    assert_type(index.enqueue(connection, Doc(1, "a")), Handle[None])
    assert_type(await squares.enqueue(other, 3), Handle[int])
    assert_type(await with_state.using(delay=5).enqueue(other, "x"), Handle[str])
    assert_type(lengths.enqueue(connection, "x"), Handle[int])
    assert_type(plain.enqueue(connection, "x"), Handle[None])
    assert_type(lengths("abc"), int)
    assert_type(await squares(3), int)
    assert_type(app.enqueue(connection, [squares.call(n) for n in range(9)]), list[Handle[Any]])
    assert_type(await run(squares, 3), Outcome[int])
    assert_type(await run_batch(squares, [1, 2]), list[Outcome[int]])
    assert_type(await Inline(attempt=2).run_batch(lengths.using(tenant="t"), ["a"]), list[Outcome[int]])
