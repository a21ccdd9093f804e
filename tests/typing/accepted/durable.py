"""What a durable body writes, with the types of what it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

import psycopg

from redisjobs import App, Backoff, Context, Event

app = App()


@dataclass
class Receipt:
    number: int


@app.job
async def add(a: int, b: int = 0) -> int:
    return a + b


@app.job(version="2", also_runs=["1"])
def name_of(number: int) -> str:
    return str(number)


async def charge(order: int, times: int = 1) -> Receipt:
    return Receipt(order * times)


def label(order: int) -> str:
    return str(order)


async def refund(receipt: Receipt) -> None:
    del receipt


async def move(tx: psycopg.AsyncConnection[tuple[Any, ...]], amount: int) -> str:
    await tx.execute("SELECT 1")
    return str(amount)


def move_sync(tx: psycopg.Connection[tuple[Any, ...]], amount: int) -> str:
    tx.execute("SELECT 1")
    return str(amount)


@app.job
async def run(ctx: Context) -> None:
    assert_type(await ctx.step("charge", charge, 7), Receipt)
    assert_type(await ctx.step("label", label, 7), str)
    assert_type(await ctx.step("again", charge, 7, 2, retry=Backoff(), tries=3, timeout=5, undo=refund), Receipt)

    @ctx.step("inner", tries=2)
    async def inner(order: int) -> Receipt:
        return Receipt(order)

    assert_type(await inner(7), Receipt)
    await ctx.sleep("nap", 5)
    event = await ctx.wait_for_event("approved", "7", timeout=60, of=Receipt)
    assert_type(event, Event[Receipt] | None)
    assert_type(await ctx.wait_for_event("seen"), Event[Any] | None)
    assert_type(await ctx.call(add, 1, b=2), int)
    assert_type(await ctx.call(name_of.using(queue="bulk").call(7), name="name-7"), str)
    child = await ctx.start(add, 1)
    assert_type(await child.result(), int)
    both = await ctx.gather(ctx.step("x", charge, 1), ctx.call(name_of, 2))
    assert_type(both, tuple[Receipt, str])
    many = await ctx.gather(*(ctx.call(add.call(each), name=f"add-{each}") for each in range(50)))
    assert_type(many, tuple[int, ...])
    some = await ctx.gather(ctx.call(add, 1), ctx.call(add.call(2), name="b"), return_exceptions=True)
    assert_type(some, tuple[int | Exception, ...])
    async with ctx.transaction("debit") as tx:
        assert_type(tx, psycopg.AsyncConnection[tuple[Any, ...]])
    assert_type(await ctx.transaction("credit", move, 5), str)


@app.job(transactional=True)
def run_in_thread(ctx: Context) -> None:
    assert_type(ctx.sync.step("label", label, 7), str)
    assert_type(ctx.sync.call(add, 1), int)
    children = [ctx.sync.start(add.call(each), name=f"add-{each}") for each in range(3)]
    assert_type(ctx.sync.results(*children), list[int])
    with ctx.sync.transaction("debit") as tx:
        assert_type(tx, psycopg.Connection[tuple[Any, ...]])
    assert_type(ctx.sync.transaction("credit", move_sync, 5), str)
    assert_type(ctx.sync.wait_for_event("approved", of=Receipt), Event[Receipt] | None)
