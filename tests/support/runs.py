"""The two step stores, Postgres and memory, as one thing: what a test does to one, it can do to the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Json

from redisjobs import App, Call
from redisjobs.steps import Claim, StepRecord, StepStore, Token
from redisjobs.steps.postgres import PostgresSteps
from redisjobs.testing.outbox import MemoryConnection, Tables
from redisjobs.testing.outbox.tables import EventRow
from redisjobs.testing.steps import MemorySteps

app = App("runs")


@app.job
async def onboard(customer: str) -> None:
    del customer


@app.job
async def greet(customer: str) -> None:
    del customer


@dataclass
class AnyRuns:
    """One of the two stores, with runs in it.

    Attributes:
        name: postgres or memory.
        connect: opens a connection for producers and senders, closed with the test.
        row: the row of a run; None: it has none.
        change: sets columns of a run's row, as the relay does.
        send: sends an event, with a JSON text; `expired`: it is over already.
        end: ends a run, as the relay does.
    """

    name: str
    store: StepStore
    connect: Callable[[], Any]
    row: Callable[[UUID], dict[str, Any] | None]
    change: Callable[..., None]
    send: Callable[..., None]
    end: Callable[[UUID], None]
    staged: list[UUID] = field(default_factory=list)

    def stage(self, customer: str = "ada") -> UUID:
        """A committed row of a run."""
        call = onboard.call(customer)
        connection = self.connect()
        app.enqueue(connection, call)
        connection.commit()
        self.staged.append(call.id)
        return call.id

    def token(self, run: UUID | None = None, number: int = 1, start: int = 1, holder: str = "w1") -> Token:
        """The token of an attempt of a new run, or of this one."""
        return Token(run or self.stage(), 0, number, start, holder, "onboard")

    async def begin(self, run: UUID | None = None, **token: Any) -> Token:
        """The same, and it has claimed its run."""
        made = self.token(run, **token)
        claim = await self.store.claim(made)
        assert claim.word == "ok"
        return made

    async def claim(self, token: Token) -> Claim:
        return await self.store.claim(token)


def child_of(customer: str = "ada") -> Call[Any]:
    """A call that a run makes."""
    return greet.call(customer)


def done(token: Token, name: str = "charge", value: bytes = b"1", **more: Any) -> StepRecord:
    """A record of a step that has ended well."""
    return StepRecord(token.run, name, codec="json", value=value, tries=1, **more)


def in_postgres(url: str, opened: list[Any]) -> AnyRuns:
    """The real one.

    Args:
        opened: connections are added to it, so that the fixture closes them.
    """

    def connect() -> Any:
        opened.append(psycopg.connect(url))
        return opened[-1]

    def execute(statement: str, *parameters: Any) -> list[dict[str, Any]]:
        with psycopg.connect(url, autocommit=True) as connection, connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description is not None else []

    def row(run: UUID) -> dict[str, Any] | None:
        rows = execute("SELECT * FROM redisjobs.outbox WHERE id = %s", run)
        return rows[0] if rows else None

    def change(run: UUID, **columns: Any) -> None:
        for name, value in columns.items():
            given = Json(value) if isinstance(value, dict) else value
            execute(f"UPDATE redisjobs.outbox SET {name} = %s WHERE id = %s", given, run)

    def send(name: str, key: str = "", text: str | None = None, *, expired: bool = False) -> None:
        execute(
            "INSERT INTO redisjobs.events (name, key, input, expires_at)"
            " VALUES (%s, %s, %s, now() + make_interval(secs => %s))",
            name, key, text, -1.0 if expired else 60.0,
        )  # fmt: skip

    def end(run: UUID) -> None:
        execute("DELETE FROM redisjobs.outbox WHERE id = %s", run)

    return AnyRuns("postgres", PostgresSteps(url), connect, row, change, send, end)


def in_memory() -> AnyRuns:
    """The store of the test kit, by the clock of the machine."""
    tables = Tables(lambda: datetime.now(UTC))

    def row(run: UUID) -> dict[str, Any] | None:
        return asdict(tables.outbox[run]) if run in tables.outbox else None

    def change(run: UUID, **columns: Any) -> None:
        for name, value in columns.items():
            setattr(tables.outbox[run], name, tuple(value) if isinstance(value, list) else value)

    def send(name: str, key: str = "", text: str | None = None, *, expired: bool = False) -> None:
        number, now = tables.next_event(), tables.now()
        over = tables.in_seconds(-1.0 if expired else 60.0)
        tables.events[number] = EventRow(number, name, key, text, None, None, now, over)

    def end(run: UUID) -> None:
        del tables.outbox[run]

    return AnyRuns("memory", MemorySteps(tables), lambda: MemoryConnection(tables), row, change, send, end)
