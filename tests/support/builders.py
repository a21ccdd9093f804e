"""Values and rows that many tests need, with everything that a test does not care about filled in."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql

from redisjobs.base.envelope import Envelope
from redisjobs.broker.values import Delivery, Finish, Publication, Word

Conn = psycopg.Connection[tuple[object, ...]]


def envelope(job: str = "add", /, **arguments: object) -> Envelope:
    """A job with these arguments, as JSON: `envelope("add", a=1, b=2)`."""
    return Envelope(job, "json", json.dumps(arguments).encode())


def publication(job: str | Envelope = "add", /, **given: Any) -> Publication:
    """A job on its way into Redis; `given` are fields of `Publication`."""
    packed = (envelope(job) if isinstance(job, str) else job).pack()
    fields: dict[str, Any] = {"job_id": uuid4().bytes, "envelope": packed} | given
    return Publication(**fields)


def finish(delivery: Delivery, word: Word = "done", /, **given: Any) -> Finish:
    """The end of an attempt, counted unless it is handed back; `given` are fields of `Finish`."""
    fields: dict[str, Any] = {"counted": word not in ("released", "parked", "snooze", "suspended")} | given
    return Finish(delivery, word, **fields)


def stage(conn: Conn, job: str = "add", /, arguments: object = None, **columns: object) -> UUID:
    """Write an outbox row as a producer in another language does; its id. Does not commit.

    `columns` are those of `redisjobs.outbox`: `stage(conn, "mail", {"to": "a@b.c"}, queue="mails")`.
    """
    if "payload" not in columns:
        columns["input"] = json.dumps({} if arguments is None else arguments)
    names = sql.SQL(", ").join(map(sql.Identifier, ["job", *columns]))
    places = sql.SQL(", ").join([sql.Placeholder()] * (1 + len(columns)))
    query = sql.SQL("INSERT INTO redisjobs.outbox ({}) VALUES ({}) RETURNING id").format(names, places)
    row = conn.execute(query, [job, *columns.values()]).fetchone()
    assert row is not None
    assert isinstance(row[0], UUID)
    return row[0]


def states(conn: Conn) -> dict[UUID, str]:
    """Where each job of this database stands: its state in the outbox, or its end. Commits."""
    rows = conn.execute(
        "SELECT id, state FROM redisjobs.outbox UNION ALL SELECT id, state FROM redisjobs.finished"
        " UNION ALL SELECT id, 'dead' FROM redisjobs.dead"
    ).fetchall()
    conn.commit()
    found = {job: str(state) for job, state in rows if isinstance(job, UUID)}
    assert len(found) == len(rows), f"a job stands at two places: {rows}"
    return found
