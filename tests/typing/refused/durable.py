"""Durable operations with arguments, options and results that do not fit."""

from __future__ import annotations

from typing import Any

import psycopg

from redisjobs import App, Context

app = App()


@app.job
async def add(a: int, b: int) -> int:
    return a + b


async def charge(order: int) -> str:
    return str(order)


def label(order: int) -> str:
    return str(order)


async def refund(amount: int) -> None:
    del amount


async def move(tx: psycopg.AsyncConnection[Any], amount: int) -> None:
    del tx, amount


@app.job
async def run(ctx: Context) -> None:
    await ctx.step("charge", charge, "7")  # refused
    await ctx.step("charge", charge, 7, retries=3)  # refused
    await ctx.step("charge", charge, 7, undo=refund)  # refused
    number: int = await ctx.step("label", label, 7)  # refused
    await ctx.step("charge", charge(7))  # refused
    await ctx.sleep(5)  # refused
    await ctx.call(add, 1, "2")  # refused
    await ctx.call(add, 1, 2, name="x")  # refused
    await ctx.call(charge, 1)  # refused
    word: str = await ctx.call(add, 1, 2)  # refused
    await ctx.transaction("move", move, "5")  # refused
    await ctx.wait_for_event("approved", 7)  # refused
    del number, word
