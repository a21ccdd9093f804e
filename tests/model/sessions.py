"""Real sessions of Postgres, taken step by step: statements and commits of several of them in any order.

A statement that waits for another session's lock stays under way, and its actor has no turn until it is through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, TypeAlias

import psycopg
from psycopg.rows import tuple_row

from redisjobs.base.postgres import fetch

Rows: TypeAlias = list[tuple[Any, ...]]
Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]
LOOK_S = 0.002


class Ask(NamedTuple):
    """A statement in the session's transaction."""

    statement: bytes
    parameters: Mapping[str, Any]


class Commit(NamedTuple):
    """The end of the transaction. check: called while what it locked is still locked."""

    check: Callable[[], None] | None = None
    rolls_back: bool = False


class Call(NamedTuple):
    """What needs no session: a script in the modelled Redis, or a look at the book."""

    call: Callable[[], Any]


Step: TypeAlias = Ask | Commit | Call
Script: TypeAlias = Generator[Step, Any, None]


class Session:
    """One actor: a script of steps, begun anew whenever it has ended, over one connection."""

    def __init__(self, name: str, connection: Connection, script: Callable[[Session], Script]) -> None:
        self.name, self._connection, self._script = name, connection, script
        self.pid = connection.info.backend_pid
        self._steps = script(self)
        self._next: Step = next(self._steps)
        self._task: asyncio.Task[Any] | None = None

    async def advance(self, is_blocked: Callable[[int], Any]) -> bool:
        """One step; False: it waits for a lock."""
        if self._task is None:
            self._task = asyncio.create_task(self._perform(self._next))
        while not self._task.done():
            await asyncio.wait({self._task}, timeout=LOOK_S)
            if not self._task.done() and await is_blocked(self.pid):
                return False
        answer, self._task = self._task.result(), None
        try:
            self._next = self._steps.send(answer)
        except StopIteration:
            self._steps = self._script(self)
            self._next = next(self._steps)
        return True

    async def _perform(self, step: Step) -> Any:
        if isinstance(step, Ask):
            return await fetch(self._connection, step.statement, step.parameters)
        if isinstance(step, Call):
            return step.call()
        if step.check is not None:
            step.check()
        await (self._connection.rollback() if step.rolls_back else self._connection.commit())
        return None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self._connection.close()


async def connect(url: str) -> Connection:
    return await psycopg.AsyncConnection.connect(url, row_factory=tuple_row)


async def watcher(url: str) -> tuple[Connection, Callable[[int], Any]]:
    """A connection that sees only what is committed, and whether a session waits for another one."""
    connection = await connect(url)
    await connection.set_autocommit(True)

    async def is_blocked(pid: int) -> bool:
        cursor = await connection.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [pid])
        row = await cursor.fetchone()
        return bool(row and row[0])

    return connection, is_blocked
