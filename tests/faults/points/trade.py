"""A producer that writes down what it knows: `staged`, and `committed`, `lost` or `sent`, and the id of a job.

It asks again for what it was told that it failed, as producers do.
"""

from __future__ import annotations

import os
import sys
from uuid import UUID

import psycopg

from redisjobs import Call, SyncClient
from redisjobs.errors import RedisjobsError
from tests.faults.points.arms import UnexpectedError
from tests.faults.points.market import app, sell

TIMES = 3
FAILS = (UnexpectedError, RedisjobsError, psycopg.Error)


def say(word: str, job: object) -> None:
    """One line, there before anything else happens."""
    os.write(1, f"{word} {job}\n".encode())


def in_a_transaction(conn: psycopg.Connection[object], call: Call[None]) -> bool:
    """Stage a call and commit; whether that is done. Else nothing of it is there."""
    say("staged", call.id)
    try:
        app.enqueue(conn, call)
        conn.commit()
    except FAILS:
        conn.rollback()
        say("lost", call.id)
        return False
    say("committed", call.id)
    return True


def cancelled(conn: psycopg.Connection[object], job: UUID) -> bool:
    """Ask for a job's end; whether that is committed."""
    try:
        app.cancel(conn, str(job))
        conn.commit()
    except FAILS:
        conn.rollback()
        return False
    say("cancelled", job)
    return True


def straight(client: SyncClient, call: Call[None]) -> bool:
    """Put a call into Redis, and the same again where nobody knows whether it is there."""
    try:
        client.enqueue_direct(call)
    except FAILS:
        return False
    say("sent", call.id)
    return True


def main() -> None:
    """The whole trade."""
    with psycopg.connect(os.environ["REDISJOBS_DATABASE_URL"]) as conn:
        for _ in range(TIMES):
            while not in_a_transaction(conn, sell.call()):
                pass
        doomed = sell.using(delay=60).call()
        app.enqueue(conn, doomed)
        conn.commit()
        say("committed", doomed.id)
        while not cancelled(conn, doomed.id):
            pass
    client = SyncClient(app)
    call = sell.call()
    while not straight(client, call):
        pass
    client.close()
    sys.stdout.flush()
