"""A bank whose transfers are durable runs; its processes end themselves where a test asks for it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psycopg

from redisjobs import App, Context

app = App("bank")

ACCOUNTS = 20
CENTS = 1_000_000
POINTS = ("before", "inside", "after", "between", "last")
"""Where a process can be asked to end: around and inside of the transaction, between the steps, before the end."""
TABLES = f"""
CREATE TABLE bank_accounts (id integer PRIMARY KEY, cents bigint NOT NULL CHECK (cents >= 0));
CREATE TABLE bank_moves (number integer NOT NULL);
CREATE TABLE bank_notes (number integer NOT NULL);
INSERT INTO bank_accounts SELECT n, {CENTS} FROM generate_series(1, {ACCOUNTS}) AS n;
"""


def die(number: int, point: str) -> None:
    """End this process with SIGKILL at this point of this transfer, if the test has asked for it, and once."""
    doomed = Path(os.environ["BANK_DOOMED"]) / f"{number}-{point}"
    try:
        doomed.unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


async def move(tx: psycopg.AsyncConnection[Any], number: int, source: int, target: int, cents: int) -> int:
    """The money, and a line that tells how often it was moved; answers what is left."""
    for account in sorted((source, target)):
        await tx.execute("SELECT FROM bank_accounts WHERE id = %s FOR UPDATE", [account])
    await tx.execute("UPDATE bank_accounts SET cents = cents - %s WHERE id = %s", [cents, source])
    await tx.execute("UPDATE bank_accounts SET cents = cents + %s WHERE id = %s", [cents, target])
    await tx.execute("INSERT INTO bank_moves (number) VALUES (%s)", [number])
    die(number, "inside")
    cursor = await tx.execute("SELECT cents FROM bank_accounts WHERE id = %s", [source])
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


async def look(number: int) -> str:
    """A step like any other."""
    return f"transfer {number}"


@app.job(retry=[0.05], max_attempts=100)
async def transfer(ctx: Context, number: int, source: int, target: int, cents: int, *, rest: float = 0.0) -> str:
    """Two transactions, a step, and, where `rest` is above 0, a sleep that gives the slot back."""
    die(number, "before")
    left = await ctx.transaction("move", move, number, source, target, cents)
    die(number, "after")
    told = await ctx.step("look", look, number)
    if rest:
        await ctx.sleep("rest", rest)
    die(number, "between")
    async with ctx.transaction("note") as tx:
        await tx.execute("INSERT INTO bank_notes (number) VALUES (%s)", [number])
    die(number, "last")
    return f"{told}: {left} left"


@app.job(transactional=True, retry=[0.05], max_attempts=100)
async def pay_in(ctx: Context, number: int, target: int) -> None:
    """A whole job in one transaction: it takes nothing from nobody, and notes itself."""
    die(number, "before")
    await ctx.tx.execute("UPDATE bank_accounts SET cents = cents + 0 WHERE id = %s", [target])
    await ctx.tx.execute("INSERT INTO bank_moves (number) VALUES (%s), (%s)", [number, -number])
    die(number, "inside")
    await ctx.tx.execute("INSERT INTO bank_notes (number) VALUES (%s)", [number])
