"""Calls that do not fit their function, and options that do not exist."""

from __future__ import annotations

from typing import Any

import psycopg

from redisjobs import App, Context, Handle

app = App("shop")


@app.job
async def confirm(order_id: int, copies: int = 1) -> str:
    return f"{order_id} {copies}"


@app.job(queue="mail")
async def mail(ctx: Context, to: str) -> None:
    del ctx, to


def wrong_arguments(connection: psycopg.Connection[Any]) -> None:
    confirm.enqueue(connection)  # refused
    confirm.enqueue(connection, "1")  # refused
    confirm.enqueue(connection, 1, copy=2)  # refused
    confirm.enqueue(connection, 1, delay=5)  # refused
    confirm.call(1, 2, 3)  # refused
    mail.call(5)  # refused
    mail.enqueue(connection, Context("id", "mail"), "a@example.org")  # refused
    confirm.using(delay=1).call("1")  # refused


def wrong_options() -> None:
    confirm.using(countdown=5)  # refused
    confirm.using(run_at="tomorrow")  # refused
    app.job(retries=3)  # refused
    app.job(timeout="5")  # refused


async def wrong_results(connection: psycopg.AsyncConnection[Any]) -> None:
    handle: Handle[int] = await confirm.enqueue(connection, 1)  # refused
    number: int = await (await confirm.enqueue(connection, 1)).result()  # refused
    confirm.enqueue(connection, 1).result()  # refused
    del handle, number


def wrong_connection() -> None:
    confirm.enqueue("postgresql://", 1)  # refused
