"""The ledger: what bodies say that they did, and what the shop says that it committed, apart from the product."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from dataclasses import astuple, dataclass
from typing import Any, TypeAlias

import psycopg
from psycopg import sql

from redisjobs.base import statements
from redisjobs.base.postgres import in_our_words, options
from redisjobs.cli.demo.plan import MAX_ATTEMPTS
from redisjobs.settings import Settings

Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]

_COLUMNS = ("order_id", "run", "attempt", "pid", "word", "at_ns")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger.

    Args:
        run: one start of a body; the same in its start and its end.
        word: started, returned or raised.
        at_ns: the host's clock; for a start, at the body's first line.
    """

    order_id: int
    run: int
    attempt: int
    pid: int
    word: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Tally:
    """How many orders are where, by the ledger."""

    done: int = 0
    dead: int = 0
    running: int = 0
    retrying: int = 0


def schema_of(settings: Settings) -> str:
    """The schema of the shop and its ledger."""
    return f"{settings.schema}_shop"


class Pen:
    """Writes the entries of one process's bodies, as many in one statement as have come meanwhile.

    `write` returns once its entry is committed.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._write = statements.load("demo", schema_of(settings)).write
        self._waiting: list[tuple[Entry, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._connection: Connection | None = None

    async def write(self, order_id: int, run: int, attempt: int, word: str, at_ns: int | None = None) -> None:
        """Write one line; return when it is committed."""
        written = asyncio.get_running_loop().create_future()
        entry = Entry(order_id, run, attempt, os.getpid(), word, at_ns or time.time_ns())
        self._waiting.append((entry, written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._until_written())
        await written

    async def _until_written(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await self._send([entry for entry, _ in batch])
            except Exception as error:  # noqa: BLE001 - each body hears of it
                _answer(batch, error)
            else:
                _answer(batch, None)

    async def _send(self, entries: list[Entry]) -> None:
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(self._settings.need_database_url(), **options())
        columns = zip(*(astuple(entry) for entry in entries), strict=True)
        await self._connection.execute(self._write, dict(zip(_COLUMNS, map(list, columns), strict=True)))


def _answer(batch: list[tuple[Entry, asyncio.Future[None]]], error: Exception | None) -> None:
    for _, written in batch:
        if written.done():  # its body was cancelled
            continue
        if error is None:
            written.set_result(None)
        else:
            written.set_exception(error)


def new_run() -> int:
    """A number for one start of a body."""
    return secrets.randbits(62)


class Ledger:
    """The demo's own view of the ledger, over one connection."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self._connection = connection
        self._schema = schema_of(settings)
        self._sql = statements.load("demo", self._schema).require(
            "make_orders", "make_ledger", "tally", "running_in", "orders", "entries"
        )
        self._waiting = statements.load("demo", settings.schema).waiting

    @classmethod
    async def connect(cls, settings: Settings) -> Ledger:
        """Over a connection of its own."""
        with in_our_words("connect"):
            return cls(await psycopg.AsyncConnection.connect(settings.need_database_url(), **options()), settings)

    async def close(self) -> None:
        """Give the connection back."""
        await self._connection.close()

    async def make(self) -> None:
        """The shop's schema, with nothing in it."""
        with in_our_words("make the shop's tables"):
            await self._connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self._schema)))
            await self._connection.execute(self._sql.make_orders)
            await self._connection.execute(self._sql.make_ledger)

    async def tally(self) -> Tally:
        """How far the mails are."""
        row = (await self._rows(self._sql.tally, {"max_attempts": MAX_ATTEMPTS}))[0]
        return Tally(*row)

    async def running_in(self, pid: int) -> int:
        """How many bodies a process is in the middle of."""
        return int((await self._rows(self._sql.running_in, {"pid": pid}))[0][0])

    async def committed(self) -> set[int]:
        """The orders that committed."""
        return {row[0] for row in await self._rows(self._sql.orders)}

    async def entries(self) -> list[Entry]:
        """All that bodies wrote."""
        return [Entry(*row) for row in await self._rows(self._sql.entries)]

    async def waiting(self) -> int:
        """Live jobs: as long as there is one, a body may still start."""
        return int((await self._rows(self._waiting))[0][0])

    async def _rows(self, statement: bytes, parameters: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        with in_our_words("read the ledger"):
            cursor = await self._connection.execute(statement, parameters)
            return await cursor.fetchall()
