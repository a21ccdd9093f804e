"""The relay's way to the tables in memory: its statements by their names."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

from redisjobs.base.postgres import Connection, Database, Row
from redisjobs.errors import DatabaseUnavailable, StoreRefused
from redisjobs.testing.outbox import holding, moving, publishing, runs, scheduling, settling
from redisjobs.testing.outbox.names import name_of
from redisjobs.testing.outbox.parameters import Rows, Statement
from redisjobs.testing.outbox.tables import Tables

_PUBLISHER: dict[str, Statement] = {
    "batch": publishing.batch,
    "mark": publishing.mark,
    "is_held": publishing.look_at_lease,
    "defer": publishing.defer,
    "come_due": publishing.come_due,
    "deduplicate": publishing.deduplicate,
    "replaced": publishing.replaced,
    "cancels": publishing.cancels,
    "end_cancelled": publishing.end_cancelled,
    "failing": publishing.failing,
}
_SETTLER: dict[str, Statement] = {
    "settle": settling.settle,
    "settle_done": settling.settle_done,
    "suspend": settling.suspend,
    "look_again": runs.look_again,
    "bury_direct": settling.bury_direct,
    "make_room": settling.make_room,
    "drop_finished": settling.drop_finished,
}
STATIONS: dict[str, dict[str, Statement]] = {
    "publisher": _PUBLISHER,
    "mover": moving.MOVER,
    "settler": _SETTLER,
    "leases": holding.LEASES,
    "recovery": holding.RECOVERY,
    "audit": holding.AUDIT,
    "aftermath": runs.AFTERMATH,
    "deliverer": runs.DELIVERER,
    "scheduler": scheduling.SCHEDULER,
    "schedules": scheduling.SCHEDULES,
}
"""What relays and schedulers ask of Postgres, station by station."""


class MemoryDatabase(Database):
    """Runs the relay's statements on tables in memory. Each is atomic, and there at once: a relay needs no more.

    Args:
        tables: what producers commit into.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    async def open(self) -> None:
        """Nothing is to be opened."""

    async def close(self) -> None:
        """Nothing is to be closed."""

    @asynccontextmanager
    async def transaction(self, what: str, *, quickly: bool = False) -> AsyncGenerator[Connection, None]:
        """A stand-in for a transaction of psycopg, as far as the relay uses one."""
        del what, quickly
        yield cast(Connection, _Statements(self.tables))

    async def run(self, what: str, statement: bytes, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """The rows of a statement."""
        return _run(self.tables, statement, parameters)

    async def change(self, what: str, statement: bytes, parameters: Mapping[str, Any] | None = None) -> int:
        """How many rows a statement changed."""
        return len(_run(self.tables, statement, parameters))

    async def alone(self, what: str, statement: bytes, parameters: Mapping[str, Any]) -> list[Row]:
        """The rows of a statement."""
        return _run(self.tables, statement, parameters)

    async def session(self) -> Connection:
        """There is nothing to listen on: whoever drives the relay in memory has it look."""
        raise DatabaseUnavailable("connect: an outbox in memory notifies nobody")


class _Statements:
    """What the relay does on a connection."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def execute(self, statement: bytes, parameters: Mapping[str, Any], *, binary: bool = False) -> _Answer:
        return _Answer(_run(self._tables, statement, parameters))

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None, None]:
        yield


class _Answer:
    """A cursor that has its rows."""

    def __init__(self, rows: Rows) -> None:
        self.description = [row for row in rows[:1] if row]
        self.rowcount = len(rows)
        self._rows = rows

    async def fetchall(self) -> Rows:
        return self._rows


def _run(tables: Tables, statement: bytes, parameters: Mapping[str, Any] | None) -> Rows:
    for station, named in STATIONS.items():
        name = name_of(statement, station)
        if name:
            with tables.lock:
                return named[name](tables, parameters or {})
    raise StoreRefused(f"an outbox in memory does not know this statement: {statement[:60].decode()}…")
