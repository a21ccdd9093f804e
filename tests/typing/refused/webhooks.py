"""What no delivery has is refused where it is written."""

from __future__ import annotations

import psycopg

from redisjobs import App
from redisjobs.webhooks import Endpoint, webhook

app = App("shop")
hooks = webhook(app, endpoints=["https://hooks.example/"])  # refused
other = webhook(app, retries=5)  # refused
endpoint = Endpoint("billing", "https://hooks.example/")  # refused


def tell(connection: psycopg.Connection) -> None:
    hooks.enqueue(connection, endpoint="billing")  # refused
    hooks.enqueue(connection, endpoint=1, type="a")  # refused
    hooks.enqueue(connection, endpoint="billing", type="a", queue="b")  # refused
