"""A shop on asyncpg: `python shop.py 20` places orders, a worker runs `shop:app`."""

import asyncio
import os
import sys

import asyncpg

from redisjobs import App

app = App("shop")


@app.job
async def send_confirmation(order_id: int, email: str) -> None:
    """Tell the customer."""
    print(f"order {order_id} is confirmed to {email}", flush=True)


class PaymentDeclinedError(Exception):
    """No money, no order."""


async def place_order(connection: asyncpg.Connection, number: int) -> None:
    """One order with its job, in the caller's transaction."""
    email = f"customer{number}@example.com"
    order_id = await connection.fetchval("INSERT INTO orders (email) VALUES ($1) RETURNING id", email)
    await send_confirmation.enqueue(connection, order_id, email)
    if number % 5 == 0:
        raise PaymentDeclinedError(email)


async def main(count: int) -> None:
    """Place so many orders, a transaction for each; then remind everybody, in one statement."""
    async with asyncpg.create_pool(os.environ["REDISJOBS_DATABASE_URL"], min_size=1) as pool:
        await pool.execute("CREATE TABLE IF NOT EXISTS orders (id serial PRIMARY KEY, email text)")
        for number in range(1, count + 1):
            try:
                async with pool.acquire() as connection, connection.transaction():
                    await place_order(connection, number)
            except PaymentDeclinedError as error:
                print(f"{error}: payment declined, so no order and no job")
        async with pool.acquire() as connection, connection.transaction():
            orders = await connection.fetch("SELECT id, email FROM orders")
            await app.enqueue(
                connection, [send_confirmation.call(row["id"], f"again {row['email']}") for row in orders]
            )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
