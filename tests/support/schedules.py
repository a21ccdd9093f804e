"""Schedulers whose rounds a test asks for one by one, and what they have dispatched."""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from redisjobs import App
from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.postgres import Database
from redisjobs.occurrence import HEADER
from redisjobs.scheduler import Scheduler
from redisjobs.settings import SchedulerSettings
from tests.support.eventually import eventually_now

Conn = psycopg.Connection[Any]


@contextlib.asynccontextmanager
async def scheduler_by_hand(
    database_url: str, *, app: App | None = None, clock: Clock = SYSTEM_CLOCK, **settings: Any
) -> AsyncIterator[Scheduler]:
    """A scheduler with its own connections; stopped at the end if the test has started it."""
    database = Database(database_url)
    await database.open()
    made = Scheduler(
        database, SchedulerSettings(**settings), name=secrets.token_hex(4),
        declared=None if app is None else app.schedules,
        knows=frozenset() if app is None else frozenset(app.jobs), clock=clock,
    )  # fmt: skip
    try:
        yield made
    finally:
        await made.stop(5)
        await database.close()


def in_one_minute(least_s: float = 4.0) -> None:
    """Wait until so much is left of this minute: for a test in whose midst no minute may begin."""
    eventually_now(lambda: time.time() % 60 <= 60 - least_s, "a minute has begun")


async def rounds(scheduler: Scheduler, most: int = 100) -> int:
    """Rounds until one finds nothing to do; answers how many schedules they moved."""
    moved = 0
    for _ in range(most):
        did = await scheduler.tick()
        moved += did
        if not did:
            return moved
    raise AssertionError(f"after {most} rounds the scheduler still finds something to do")


def make(conn: Conn, name: str, /, job: str = "tick", **options: Any) -> None:
    """A schedule as somebody makes it in SQL; commits."""
    places = "".join(f", {option} => %({option})s" for option in options)
    statement = f"SELECT redisjobs.schedule(%(name)s, %(job)s{places})"
    conn.execute(statement.encode(), {"name": name, "job": job, **options})
    conn.commit()


def outage(conn: Conn, name: str, length: timedelta) -> datetime:
    """As if no scheduler had looked at it for so long; its watermark now. Commits."""
    row = conn.execute(
        "UPDATE redisjobs.schedules SET watermark = clock_timestamp() - %s, stale = true"
        " WHERE name = %s RETURNING watermark",
        [length, name],
    ).fetchone()
    conn.commit()
    assert row is not None
    assert isinstance(row[0], datetime)
    return row[0].astimezone(UTC)


def field(conn: Conn, name: str, column: str) -> Any:
    """A column of a schedule."""
    row = conn.execute(f"SELECT {column} FROM redisjobs.schedules WHERE name = %s".encode(), [name]).fetchone()
    conn.commit()
    assert row is not None
    return row[0]


def dispatched(conn: Conn, name: str) -> list[dict[str, Any]]:
    """What the rows of a schedule's dispatches say of it, in their order in line; each has its row's `staged_at`."""
    rows = conn.execute(
        "SELECT headers::text, staged_at, idempotency_key FROM redisjobs.outbox ORDER BY seq"
    ).fetchall()
    conn.commit()
    marks = [json.loads(headers)[HEADER] | {"staged_at": staged_at, "key": key} for headers, staged_at, key in rows]
    return [mark | {"at": datetime.fromisoformat(mark["at"])} for mark in marks if mark["name"] == name]
