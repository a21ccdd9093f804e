"""Places orders: `python produce.py 20`. Each is committed together with its jobs, or not at all."""

import os
import random
import sys
from pathlib import Path

import psycopg
from app import reserve_stock, send_confirmation

ITEMS = ["lamp", "chair", "table"]


class PaymentDeclinedError(Exception):
    """No money, no order."""


def place_order(connection: psycopg.Connection, number: int) -> int:
    """One order with two jobs; the caller's transaction decides whether any of it happened."""
    address, item, quantity = f"customer{number}@example.com", random.choice(ITEMS), random.randint(1, 5)
    row = connection.execute(
        "INSERT INTO orders (address, item, quantity) VALUES (%s, %s, %s) RETURNING id", [address, item, quantity]
    ).fetchone()
    order_id = row[0]
    send_confirmation.enqueue(connection, order_id, address)
    reserve_stock.enqueue(connection, order_id, item, quantity)
    if number % 5 == 0:
        raise PaymentDeclinedError(address)
    return order_id


def main(count: int) -> None:
    """Place so many orders, a transaction for each."""
    with psycopg.connect(os.environ["REDISJOBS_DATABASE_URL"], autocommit=True) as connection:
        connection.execute(Path(__file__).with_name("tables.sql").read_text())
        for number in range(1, count + 1):
            try:
                with connection.transaction():
                    order_id = place_order(connection, number)
            except PaymentDeclinedError as error:
                print(f"{error}: payment declined, so no order, no mail and no reservation")
            else:
                print(f"order {order_id} is committed, and with it its jobs")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
