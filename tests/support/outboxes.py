"""The two stores of the outbox, Postgres and memory, as one thing: what a test does to one, it can do to the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Json

from redisjobs.base import statements
from redisjobs.base.postgres import Database
from redisjobs.testing.outbox import MemoryConnection, MemoryDatabase, Row, Tables
from redisjobs.testing.outbox.tables import EventRow, StepRow

COLUMNS = tuple(field.name for field in fields(Row))
MOMENTS = ("run_at", "expires_at", "published_at", "wake_at", "move_to", "key_since")
RECORD = ("run", "name", "kind", "state", "awaited", "event", "key", "child", "undo", "codec", "value", "detail")
EVENT = ("id", "name", "key", "input", "payload", "codec", "looked_at", "taken_at", "run", "step")


class SyncConnection(Protocol):
    """What a test does on a connection of either kind."""

    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...
    def transaction(self, *, force_rollback: bool = False) -> AbstractContextManager[Any]: ...


class Hands(Protocol):
    """What a test reads and writes behind the statements."""

    def rows(self) -> list[dict[str, Any]]: ...
    def records(self) -> list[tuple[Any, ...]]: ...
    def events(self) -> list[tuple[Any, ...]]: ...
    def change(self, job_id: UUID, columns: Mapping[str, Any]) -> None: ...
    def record(self, run: UUID, name: str, columns: Mapping[str, Any]) -> None: ...
    def send(self, name: str, key: str, text: str | None, expires_in: float) -> None: ...
    def reached(self, schedule: str, seconds: float) -> None: ...


class AnyOutbox:
    """One of the two, empty.

    Attributes:
        name: postgres or memory.
        database: as the relay sees it.
        connect: opens a connection for producers, which is closed with the test.
    """

    def __init__(self, name: str, database: Database, connect: Callable[..., Any], hands: Hands) -> None:
        self.name = name
        self.database = database
        self.connect = connect
        self._hands = hands

    def rows(self) -> list[dict[str, Any]]:
        """The committed rows, in their order in line."""
        return self._hands.rows()

    def beside(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The records, in the order of run and name, and the events, without times."""
        return self._hands.records(), self._hands.events()

    def change(self, job_id: UUID, **columns: Any) -> None:
        """Set columns of a row; a moment is given in seconds from now."""
        self._hands.change(job_id, columns)

    def record(self, run: UUID, name: str, **columns: Any) -> None:
        """A record of a run; `due` in seconds from now."""
        self._hands.record(run, name, {"kind": "step", "state": "done"} | columns)

    def send(self, name: str, key: str, text: str | None, expires_in: float) -> None:
        """An event, committed."""
        self._hands.send(name, key, text, expires_in)

    def reached(self, schedule: str, seconds: float) -> None:
        """A schedule's watermark so long from now, which is to be looked at anew."""
        self._hands.reached(schedule, seconds)

    async def ask(self, station: str, name: str, /, **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement; one that only changes answers one empty row for each row that it changed."""
        statement = statements.load(station)[name]
        async with self.database.transaction(name) as connection:
            cursor = await connection.execute(statement, parameters, binary=True)
            return await cursor.fetchall() if cursor.description is not None else [()] * cursor.rowcount


class _InMemory:
    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def rows(self) -> list[dict[str, Any]]:
        return [{name: getattr(row, name) for name in COLUMNS} for row in MemoryConnection(self.tables).rows]

    def records(self) -> list[tuple[Any, ...]]:
        found = sorted(self.tables.steps.values(), key=lambda step: (step.run, step.name))
        return [_record({name: getattr(step, name) for name in RECORD}) for step in found]

    def events(self) -> list[tuple[Any, ...]]:
        found = sorted(self.tables.events.values(), key=lambda event: event.id)
        return [_event({name: getattr(event, name) for name in EVENT}) for event in found]

    def change(self, job_id: UUID, columns: Mapping[str, Any]) -> None:
        for name, value in columns.items():
            moment = None if value is None or name not in MOMENTS else self.tables.in_seconds(value)
            setattr(self.tables.outbox[job_id], name, moment or value)

    def record(self, run: UUID, name: str, columns: Mapping[str, Any]) -> None:
        due = columns.get("due")
        at = due if due is None else self.tables.in_seconds(due)
        self.tables.steps[run, name] = StepRow(run, name, self.tables.next_step(), **{**columns, "due": at})

    def send(self, name: str, key: str, text: str | None, expires_in: float) -> None:
        number, now, until = self.tables.next_event(), self.tables.now(), self.tables.in_seconds(expires_in)
        self.tables.events[number] = EventRow(number, name, key, text, None, None, now, until)

    def reached(self, schedule: str, seconds: float) -> None:
        row = self.tables.schedules[schedule]
        row.watermark, row.stale = self.tables.in_seconds(seconds), True


def in_memory() -> AnyOutbox:
    """The store of the test kit, by the clock of the machine."""
    tables = Tables(lambda: datetime.now(UTC))
    connect = lambda **options: MemoryConnection(tables, **options)  # noqa: E731
    return AnyOutbox("memory", MemoryDatabase(tables), connect, _InMemory(tables))


class _InPostgres:
    def __init__(self, url: str) -> None:
        self.url = url

    def rows(self) -> list[dict[str, Any]]:
        found = self._run(
            "SELECT *, input::text AS input, headers::text AS headers,"
            " date_part('epoch', key_window) AS key_window, date_part('epoch', key_wait) AS key_wait,"
            " date_part('epoch', key_longest) AS key_longest, date_part('epoch', result_ttl) AS result_ttl,"
            " xact::text::bigint AS xact"
            " FROM redisjobs.outbox ORDER BY seq"
        )
        return [{name: _plain(name, row) for name in COLUMNS} for row in found]

    def records(self) -> list[tuple[Any, ...]]:
        return [_record(row) for row in self._run("SELECT * FROM redisjobs.steps ORDER BY run, name")]

    def events(self) -> list[tuple[Any, ...]]:
        return [_event(row) for row in self._run("SELECT *, input::text AS input FROM redisjobs.events ORDER BY id")]

    def change(self, job_id: UUID, columns: Mapping[str, Any]) -> None:
        for name, value in columns.items():
            place = "clock_timestamp() + make_interval(secs => %s)" if name in MOMENTS else "%s"
            given = Json(value) if isinstance(value, dict) else list(value) if isinstance(value, tuple) else value
            self._run(f"UPDATE redisjobs.outbox SET {name} = {place} WHERE id = %s", given, job_id)

    def record(self, run: UUID, name: str, columns: Mapping[str, Any]) -> None:
        names = ", ".join(columns)
        places = ", ".join("now() + make_interval(secs => %s)" if each == "due" else "%s" for each in columns)
        given = [Json(value) if isinstance(value, dict) else value for value in columns.values()]
        self._run(f"INSERT INTO redisjobs.steps (run, name, {names}) VALUES (%s, %s, {places})", run, name, *given)

    def send(self, name: str, key: str, text: str | None, expires_in: float) -> None:
        self._run(
            "INSERT INTO redisjobs.events (name, key, input, expires_at)"
            " VALUES (%s, %s, %s, clock_timestamp() + make_interval(secs => %s))",
            name, key, text, expires_in,
        )  # fmt: skip

    def reached(self, schedule: str, seconds: float) -> None:
        self._run(
            "UPDATE redisjobs.schedules SET watermark = clock_timestamp() + make_interval(secs => %s), stale = true"
            " WHERE name = %s",
            seconds, schedule,
        )  # fmt: skip

    def _run(self, statement: str, *given: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self.url) as connection, connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(statement.encode(), given)
            return cursor.fetchall() if cursor.description is not None else []


def in_postgres(url: str, opened: list[Any]) -> AnyOutbox:
    """The real one.

    Args:
        opened: connections are added to it, so that the fixture closes them.
    """

    def connect(**options: Any) -> Any:
        opened.append(psycopg.connect(url, **options))
        return opened[-1]

    return AnyOutbox("postgres", Database(url, size=1), connect, _InPostgres(url))


def _plain(name: str, row: Mapping[str, Any]) -> Any:
    if name == "fence":
        return row[name] and tuple(row[name])
    return (row[name] or []) if name == "failures" else row[name]


def _record(row: Mapping[str, Any]) -> tuple[Any, ...]:
    detail = row["detail"] and {name: value for name, value in row["detail"].items() if name != "sent_at"}
    return *(row[name] for name in RECORD if name != "detail"), detail


def _event(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return *(row[name] for name in EVENT if name not in ("looked_at", "taken_at")), row["looked_at"] is not None
