"""A shop with FastAPI: an order and its job are one transaction, that of the request."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import psycopg
from fastapi import Depends, FastAPI, HTTPException

from redisjobs import App, ResultTimeout
from redisjobs.integrations.fastapi import redisjobs_lifespan, transaction

app = App("shop")


@app.job(queue="mail", max_attempts=5, timeout=30, result_ttl=600)
async def send_confirmation(order_id: int, email: str) -> str:
    """Tell the customer."""
    print(f"order {order_id} is confirmed to {email}", flush=True)
    return f"sent to {email}"


Transaction = Annotated[psycopg.AsyncConnection, Depends(transaction, scope="function")]


@asynccontextmanager
async def lifespan(web: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """What redisjobs opens, and the shop's own table; without the latter, `redisjobs_lifespan(…)` would do alone."""
    async with redisjobs_lifespan(app, pool_size=10, develop="DEVELOP" in os.environ)(web) as state:
        async with state["redisjobs_pool"].connection() as connection:
            await connection.execute("CREATE TABLE IF NOT EXISTS orders (id serial PRIMARY KEY, email text)")
        yield state


web = FastAPI(lifespan=lifespan)


@web.post("/orders", status_code=201)
async def place_order(email: str, connection: Transaction, payment: str = "card") -> dict[str, str | int]:
    """Place an order; what raises takes back order and job alike."""
    cursor = await connection.execute("INSERT INTO orders (email) VALUES (%s) RETURNING id", [email])
    (order_id,) = await cursor.fetchone()
    handle = await send_confirmation.enqueue(connection, order_id, email)
    if payment == "declined":
        raise HTTPException(402, "payment declined")
    return {"order": order_id, "job": handle.id}


@web.get("/confirmations/{job_id}")
async def confirmation(job_id: str) -> dict[str, str]:
    """What became of the mail."""
    try:
        return {"mail": await app.handle(job_id, send_confirmation).result(timeout=5)}
    except ResultTimeout:
        return {"mail": "under way"}
