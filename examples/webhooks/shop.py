"""A shop that tells others what happens in it: each order is a row and two webhooks, in one transaction."""

import os
import sys

import psycopg

from redisjobs import App
from redisjobs.webhooks import Endpoint, webhook

app = App("shop")
hooks = webhook(
    app,
    endpoints=[
        Endpoint("python", "http://127.0.0.1:8021/", os.environ["SHOP_SECRET"]),
        Endpoint("node", "http://127.0.0.1:8022/", os.environ["SHOP_SECRET"]),
    ],
    allow=["127.0.0.0/8"],  # the receivers of this example run on this machine
)


def place_order(connection: psycopg.Connection, email: str) -> int:
    """Place an order, and tell both receivers of it."""
    with connection.transaction():
        (order,) = connection.execute("INSERT INTO orders (email) VALUES (%s) RETURNING id", [email]).fetchone()
        for endpoint in ("python", "node"):
            hooks.enqueue(connection, endpoint=endpoint, type="order.placed", data={"order": order, "email": email})
    return order


if __name__ == "__main__":
    with psycopg.connect(os.environ["REDISJOBS_DATABASE_URL"]) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS orders (id serial PRIMARY KEY, email text)")
        print(f"order {place_order(connection, sys.argv[1])} is committed")
