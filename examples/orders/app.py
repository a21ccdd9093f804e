"""The jobs of a small shop. A worker imports this module, and so does whoever enqueues."""

import asyncio
import random

import psycopg

from redisjobs import App

app = App("orders")


class WarehouseBusyError(Exception):
    """The warehouse answers so now and then."""


@app.job(queue="mail")
async def send_confirmation(order_id: int, address: str) -> None:
    """Tell the customer; an async job runs in the worker's event loop."""
    await asyncio.sleep(0.02)  # the mail server takes its time
    print(f"mail to {address}: order {order_id} is confirmed", flush=True)


@app.job(queue="stock", retry=[0.2, 0.5, 1], timeout=10)
def reserve_stock(order_id: int, item: str, quantity: int) -> None:
    """Reserve what was ordered; an ordinary function runs in a thread.

    A job may run more than once: its worker can be killed right before it reports the end. So a second run
    finds what the first one did.
    """
    if random.random() < 0.3:
        raise WarehouseBusyError(f"order {order_id}: try again later")
    with psycopg.connect(app.settings.need_database_url()) as connection:
        connection.execute(
            "INSERT INTO reservations (order_id, item, quantity) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
            [order_id, item, quantity],
        )
    print(f"order {order_id}: {quantity} of {item} reserved", flush=True)
