"""Makes a schedule for each customer, in the transaction that makes the customer."""

from __future__ import annotations

import os
import sys

import psycopg
from app import app, watch

with psycopg.connect(os.environ["REDISJOBS_DATABASE_URL"]) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS customers (name text PRIMARY KEY)")
    for name in sys.argv[1:]:
        connection.execute("INSERT INTO customers VALUES (%s) ON CONFLICT DO NOTHING", [name])
        app.schedules.create(connection, f"watch-{name}", watch.call(name), every=1, jitter=0.2)
        print(f"{name} is watched")
