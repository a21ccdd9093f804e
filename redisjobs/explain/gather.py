"""Asks both stores for the facts on one job: a few statements and round trips, all of them reads."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from redisjobs.base import statements
from redisjobs.base.postgres import BEGIN_SNAPSHOT, check_database_url, in_our_words, options
from redisjobs.broker.limit_view import LimitView
from redisjobs.broker.trace import Trace
from redisjobs.broker.view import QueueView, View
from redisjobs.errors import RedisjobsError, StoreRefused
from redisjobs.explain.facts import MOST_BEFORE, MOST_WAITS, Doubt, Facts, Line, Row, Wait
from redisjobs.settings import RelaySettings, Settings

_NAMES = ("row", "line", "owner", "waits", "doubt")
statements.load("explain").require(*_NAMES)

T = TypeVar("T")

QUEUES_SEARCHED = 10_000
"""An id without a row is looked for in so many queues of Redis."""


def gather(settings: Settings, job_id: UUID) -> Facts:
    """What both stores know of a job. A store that does not answer leaves its error.

    Raises:
        ConfigurationError: a URL is missing.
    """
    url, redis_url = settings.need_database_url(), settings.need_redis_url()
    known: dict[str, Any] = {}
    errors: dict[str, RedisjobsError] = {}
    try:
        known |= _ask_postgres(url, settings.schema, job_id)
    except RedisjobsError as error:
        errors["postgres"] = error
    try:
        known |= _ask_redis(redis_url, settings.prefix, job_id, known.get("row"))
    except RedisjobsError as error:
        errors["redis"] = error
    return Facts(job_id, **known, errors=errors)


def _ask_postgres(url: str, schema: str, job_id: UUID) -> dict[str, Any]:
    sql = statements.load("explain", schema).require(*_NAMES)
    with in_our_words("look at a job"), psycopg.connect(check_database_url(url), **options()) as connection:
        connection.execute(BEGIN_SNAPSHOT)
        row = _first(connection, Row, sql.row, {"id": job_id})
        if row is None:
            return {"doubt": _first(connection, Doubt, sql.doubt, {})}
        line = _first(connection, Line, sql.line, {"queue": row.queue, "seq": row.seq, "most": MOST_BEFORE})
        found = connection.execute(sql.owner, {"id": row.duplicate_of}).fetchone() if row.duplicate_of else None
        waits = _all(connection, Wait, sql.waits, {"id": job_id, "most": MOST_WAITS}) if row.place == "outbox" else []
        return {"row": row, "line": line, "owner": found[0] if found else None, "waits": waits}


def _first(
    connection: psycopg.Connection[Any], kind: type[T], statement: bytes, parameters: dict[str, Any]
) -> T | None:
    return next(iter(_all(connection, kind, statement, parameters)), None)


def _all(connection: psycopg.Connection[Any], kind: type[T], statement: bytes, parameters: dict[str, Any]) -> list[T]:
    with connection.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(statement, parameters).fetchall()


def _ask_redis(url: str, prefix: str, job_id: UUID, row: Row | None) -> dict[str, Any]:
    with View(url, prefix) as view:
        searched: list[str] = [] if row else sorted(view.queues())[:QUEUES_SEARCHED]
        queue = row.queue if row else view.find(searched, job_id.bytes)
        if queue is None:
            return {"searched": len(searched)}
        trace: Trace | None = view.trace(queue, job_id.bytes)
        told: dict[str, Any] = {"trace": trace, "view": view.look([queue]).get(queue, QueueView()),
                                "workers": view.workers()}  # fmt: skip
        if trace is not None and trace.limited:
            with LimitView(url, prefix) as limits:
                told["standing"] = limits.standing(job_id.bytes)
        if row is not None and row.state == "staged":
            told["full"] = _is_full(view)
            told["key_owner"] = _other_owner(view, row)
        return told


def _is_full(view: View) -> bool | None:
    try:
        return view.server().is_full(RelaySettings().memory_budget)
    except StoreRefused:
        return None


def _other_owner(view: View, row: Row) -> UUID | None:
    found = view.key_owner(row.queue, row.idempotency_key) if row.idempotency_key else None
    return UUID(bytes=found) if found and len(found) == 16 and found != row.id.bytes else None
