"""Starts runs: `python produce.py onboarding | order | transfer | report`, and `confirm USER` sends an event."""

import os
import random
import sys
from pathlib import Path

import psycopg
from app import app
from fan_out import report
from onboarding import Confirmation, onboard
from order_saga import place_order
from transfer import deposit, transfer


def start(connection: psycopg.Connection, what: str, number: int) -> None:
    """Enqueue in the caller's transaction."""
    match what:
        case "onboarding":
            handle = onboard.enqueue(connection, number, f"user{number}@example.com", patience=60, pause=2)
        case "confirm":
            app.send_event(connection, "address-confirmed", str(number), Confirmation(f"user{number}@example.com"))
            return
        case "order":
            handle = place_order.enqueue(connection, number, "lamp", random.randint(1, 3))
        case "transfer":
            source, target = random.sample(range(1, 11), 2)
            handle = transfer.enqueue(connection, source, target, random.randint(1, 500))
        case "deposit":
            handle = deposit.enqueue(connection, number, 100)
        case "report":
            handle = report.enqueue(connection, number)
        case _:
            raise SystemExit(f"{what}: write onboarding, confirm, order, transfer, deposit or report")
    print(f"{what} {number}: job {handle.id}")


def main(what: str, number: int = 1) -> None:
    """Make the tables, and start one run."""
    with psycopg.connect(os.environ["REDISJOBS_DATABASE_URL"]) as connection:
        connection.execute(Path(__file__).with_name("tables.sql").read_text())
        start(connection, what, number)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "", *map(int, sys.argv[2:3]))
