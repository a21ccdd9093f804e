"""Deliveries are calls with names and types, on any connection."""

from __future__ import annotations

from typing import assert_type

import psycopg

from redisjobs import App, Handle
from redisjobs.webhooks import Endpoint, over_days, verify, webhook

app = App("shop")
hooks = webhook(
    app, endpoints=[Endpoint("billing", "https://hooks.example/", "whsec_")], retry=over_days([5, 60]), allow=["::1"]
)


async def tell(connection: psycopg.Connection, aconn: psycopg.AsyncConnection) -> None:
    assert_type(hooks.enqueue(connection, endpoint="billing", type="a", data={"b": 1}), Handle[None])
    assert_type(await hooks.enqueue(aconn, endpoint="billing", type="a"), Handle[None])
    app.enqueue(connection, hooks.using(delay=5).call("billing", "a", None))


def receive(headers: dict[str, str], body: bytes) -> None:
    assert_type(verify(body, headers, ["whsec_"]), bool)
