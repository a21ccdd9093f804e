"""Calls that have the parameters and the result of their function."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import psycopg

from redisjobs import App, Backoff, Call, Context, Handle, Job

app = App("shop")


@dataclass
class Order:
    id: int


@app.job
async def confirm(order: Order, copies: int = 1) -> str:
    return f"{order.id} {copies}"


@app.job(queue="mail", retry=Backoff(base=2), timeout=timedelta(seconds=30), retry_on=ConnectionError, result_ttl=60)
async def mail(ctx: Context, to: str, *, subject: str = "") -> int:
    return ctx.attempt + len(to) + len(subject)


@app.job
def report(year: int) -> list[Order]:
    return [Order(year)]


@app.job(max_attempts=3, retry=[1, 5, 60])
def clean(ctx: Context) -> None:
    ctx.remaining()


@app.job(retry=lambda attempt, error: 2.0 * attempt, give_up_on=[ValueError, KeyError])
async def tags(**tags: str) -> None:
    del tags


@app.job
async def anything(value: object, copies: int = 1) -> int:
    return hash(value) + copies


@app.job(queue="x")
def whatever(value: Any) -> str:
    return str(value)


def sync_producer(connection: psycopg.Connection[Any], cursor: psycopg.Cursor[Any]) -> None:
    assert_type(confirm.enqueue(connection, Order(1), copies=2), Handle[str])
    assert_type(mail.enqueue(cursor, "a@example.org", subject="hello"), Handle[int])
    assert_type(report.enqueue(connection, 2026), Handle[list[Order]])
    assert_type(clean.enqueue(connection), Handle[None])
    assert_type(tags.enqueue(connection, a="1", b="2"), Handle[None])
    assert_type(anything.enqueue(connection, 5, copies=2), Handle[int])
    assert_type(anything.enqueue(connection, value="x"), Handle[int])
    assert_type(whatever.enqueue(connection, value="x"), Handle[str])
    assert_type(app.enqueue(connection, confirm.call(Order(1)), report.call(year=1)), list[Handle[Any]])
    assert_type(app.enqueue(connection, [confirm.call(Order(n)) for n in range(3)]), list[Handle[Any]])
    assert_type(app.cancel(connection, "id"), str)


async def async_producer(connection: psycopg.AsyncConnection[Any], cursor: psycopg.AsyncCursor[Any]) -> None:
    handle = await confirm.enqueue(connection, Order(1))
    assert_type(handle, Handle[str])
    assert_type(await handle.result(timeout=timedelta(seconds=5)), str)
    assert_type(await report.enqueue(cursor, 2026), Handle[list[Order]])
    assert_type(await mail.enqueue_direct("a@example.org"), Handle[int])
    assert_type(await app.enqueue(connection, confirm.call(Order(1))), list[Handle[Any]])
    assert_type(await app.cancel(connection, handle.id), str)
    assert_type(await app.handle(handle.id, report).result(), list[Order])


async def options(connection: psycopg.AsyncConnection[Any]) -> None:
    later = mail.using(delay=timedelta(minutes=5), idempotency_key="k", window=60, headers={"a": [1]}, priority=-1)
    assert_type(later.call("a@example.org"), Call[int])
    assert_type(await later.enqueue(connection, "a@example.org"), Handle[int])
    at = confirm.using(run_at=datetime.now(UTC), expires=60, tenant="t", enqueued_by="x", max_attempts=1, queue="q")
    assert_type(await at.enqueue_direct(Order(2), copies=1), Handle[str])


async def bodies() -> None:
    assert_type(await confirm(Order(1)), str)
    assert_type(await mail("a@example.org"), int)
    assert_type(report(2026), list[Order])


def any_job(job: Job[[int], list[Order]]) -> Call[list[Order]]:
    return job.call(1)


any_job(report)
