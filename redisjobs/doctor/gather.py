"""Asks both stores for what the checks look at. Nothing is written; one NOTIFY goes to a channel of its own."""

from __future__ import annotations

import time
from typing import Any, TypeVar

import psycopg
from psycopg.rows import class_row

from redisjobs import migrations
from redisjobs.base import statements
from redisjobs.base.postgres import check_database_url, in_our_words, options
from redisjobs.broker.checkup import ungrouped
from redisjobs.broker.presence import Presence
from redisjobs.broker.share_lines import ShareLine
from redisjobs.broker.view import QueueView, View
from redisjobs.doctor import limits
from redisjobs.doctor.facts import Holding, HotTable, PostgresFacts, QueueFacts, Server
from redisjobs.errors import ConfigurationError, StoreRefused
from redisjobs.operator import Operator, QueueLine

_NAMES = ("server", "lacks", "hot_table", "holding")
statements.load("doctor").require(*_NAMES)

T = TypeVar("T")

CHANNEL = "redisjobs.doctor"
EAR_S = 2.0
"""How long a NOTIFY may take; a relay waits as long before it says that it is deaf."""


def look_at_postgres(url: str, schema: str) -> PostgresFacts:
    """Postgres, as this login sees it.

    Raises:
        DatabaseUnavailable, ConfigurationError, StoreRefused: it cannot even be connected to.
    """
    sql = statements.load("doctor", schema).require(*_NAMES)
    began = time.perf_counter()
    with in_our_words("look at Postgres"), psycopg.connect(check_database_url(url), **options()) as connection:
        connect_s, before = time.perf_counter() - began, time.time()
        (server,) = _all(connection, Server, sql.server)
        host_now_s = (before + time.time()) / 2
        missing, schema_error = _schema(url, schema)
        lacks: dict[str, list[str]] = {}
        for work, privilege, name in connection.execute(sql.lacks, {"schema": schema}):
            lacks.setdefault(work, []).append(f"{privilege} on {name}")
        table = _all(connection, HotTable, sql.hot_table, {"schema": schema})
        holding = _all(connection, Holding, sql.holding)
        hears = None if server.standby else _hears(connection, url)
        return PostgresFacts(
            url, schema, connection.info.hostaddr, server, host_now_s, connect_s, missing, schema_error, lacks,
            next(iter(table), None), holding, hears,
        )  # fmt: skip


def look_at_queues(
    database: tuple[str, str] | None, redis: tuple[str, str] | None
) -> tuple[list[QueueFacts], StoreRefused | None]:
    """Every queue that either store knows, and what a login was refused to look at.

    Args:
        database: URL and schema, where the tables are. redis: URL and prefix, where it answers.
    """
    lines: dict[str, QueueLine] = {}
    views: dict[str, QueueView] = {}
    loose: dict[str, int] = {}
    lapsed: dict[str, tuple[str, float]] = {}
    paused: dict[str, list[ShareLine]] = {}
    workers: list[Presence] = []
    refused: StoreRefused | None = None
    if database is not None:
        try:
            with Operator(*database) as operator:
                lines = {line.queue: line for line in operator.queues()}
        except StoreRefused as error:
            database, refused = None, error
    if redis is not None:
        try:
            with View(*redis) as view:
                names = sorted({*lines, *view.queues()})
                views, workers = view.look(names), view.workers()
                loose = ungrouped(*redis, names)
                lapsed, paused = _lapsed(view, views), _paused_shares(view, views)
        except StoreRefused as error:
            refused = refused or error
    found = [
        QueueFacts(
            name,
            lines.get(name),
            views.get(name),
            loose.get(name, 0),
            workers,
            lapsed.get(name),
            paused.get(name, []),
            known=database is not None,
        )
        for name in sorted({*lines, *views})
    ]
    return found, refused


def _paused_shares(view: View, views: dict[str, QueueView]) -> dict[str, list[ShareLine]]:
    """Of queues in whose shares jobs wait: those that are paused with jobs behind them."""
    shared = (queue for queue, each in views.items() if each.shared)
    return {queue: [share for share in view.shares(queue) if share.paused and share.waiting] for queue in shared}


def _lapsed(view: View, views: dict[str, QueueView]) -> dict[str, tuple[str, float]]:
    """Of queues with a silent worker that holds jobs: the holder and the age of the lease that lapsed longest ago."""
    found: dict[str, tuple[str, float]] = {}
    for queue, each in views.items():
        if any(member.running and member.idle_s > limits.SILENT_S for member in each.consumers):
            held = view.longest_held(queue, limits.SILENT_S)
            late = [(trace.holder or "", -trace.lease_left_s) for trace in held if trace.lease_left_s is not None]
            late = [(holder, late_s) for holder, late_s in late if late_s > limits.SILENT_S]
            if late:
                found[queue] = max(late, key=lambda each: each[1])
    return found


def _schema(url: str, schema: str) -> tuple[list[str], str | None]:
    try:
        return migrations.missing(url, schema), None
    except ConfigurationError as error:
        return [], str(error)
    except StoreRefused:  # the rights say so
        return [], None


def _all(
    connection: psycopg.Connection[Any], kind: type[T], statement: bytes, parameters: dict[str, Any] | None = None
) -> list[T]:
    with connection.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(statement, parameters or {}).fetchall()


def _hears(speaker: psycopg.Connection[Any], url: str) -> bool:
    """Whether a session that listens gets what another one notifies; behind a transaction pooler it does not."""
    with psycopg.connect(url, **options()) as ear:
        ear.execute(f'LISTEN "{CHANNEL}"'.encode())
        probe = f"{time.time_ns()}"
        speaker.execute(b"SELECT pg_notify(%s, %s)", [CHANNEL, probe])
        return any(notice.payload == probe for notice in ear.notifies(timeout=EAR_S, stop_after=1))
