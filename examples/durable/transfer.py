"""Money from one account to another, exactly once: the record of the step commits together with the writes."""

from typing import Any

import psycopg
from shop import app

from redisjobs import Context, Dead, StepFailed


class NotEnoughError(Exception):
    """The account has less than that."""


async def move(tx: psycopg.AsyncConnection[Any], source: int, target: int, cents: int) -> int:
    """Take from one and give to the other, in the transaction that also records the step; answers what is left."""
    for account in sorted((source, target)):  # always in one order, so that two transfers never wait for each other
        await tx.execute("SELECT FROM accounts WHERE id = %s FOR UPDATE", [account])
    cursor = await tx.execute(
        "UPDATE accounts SET cents = cents - %s WHERE id = %s AND cents >= %s RETURNING cents", [cents, source, cents]
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotEnoughError(f"account {source} has less than {cents}")
    await tx.execute("UPDATE accounts SET cents = cents + %s WHERE id = %s", [cents, target])
    return int(row[0])


@app.job(retry=[0.1, 0.5, 1])
async def transfer(ctx: Context, source: int, target: int, cents: int) -> None:
    """One transfer. Killed at any point and run again, it moves the money once."""
    try:
        left = await ctx.transaction("move", move, source, target, cents)
    except StepFailed as error:
        raise Dead(error.error) from error
    async with ctx.transaction("statement") as tx:
        await tx.execute(
            "INSERT INTO statements (account, text) VALUES (%s, %s)", [source, f"{cents} to {target}, {left} left"]
        )


@app.job(transactional=True)
async def deposit(ctx: Context, account: int, cents: int) -> None:
    """A whole job in one transaction: its writes and its end commit together."""
    await ctx.tx.execute("UPDATE accounts SET cents = cents + %s WHERE id = %s", [cents, account])
