"""asyncpg: its connections, also those that its pool gives. The extra is `[asyncpg]`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from redisjobs.drivers.driver import AsyncDriver, Statement
from redisjobs.drivers.forms import numbered
from redisjobs.drivers.words import in_our_words


class Asyncpg(AsyncDriver):
    """`asyncpg.Connection`, and what `pool.acquire()` gives."""

    __slots__ = ()

    async def send(self, connection: Any, statement: Statement) -> None:
        """Send a statement that answers nothing."""
        text, values = numbered(statement)
        with told():
            await connection.execute(text, *values)

    async def ask(self, connection: Any, statement: Statement) -> Any:
        """Send a statement; the one value that comes back."""
        text, values = numbered(statement)
        with told():
            return await connection.fetchval(text, *values)


def driver_of(kind: type) -> AsyncDriver | None:
    """Who speaks over connections of this class; None: it is none."""
    return Asyncpg() if issubclass(kind, (asyncpg.Connection, PoolConnectionProxy)) else None


@contextmanager
def told() -> Generator[None]:
    """Turns what is certainly about the outbox into our errors."""
    try:
        yield
    except asyncpg.PostgresError as error:
        ours = refusal(error)
        if ours is None:
            raise
        raise ours from error


def refusal(error: Any) -> Exception | None:
    """What an error of asyncpg means to us, if anything."""
    about = (getattr(error, name, None) for name in ("sqlstate", "message", "table_name", "constraint_name"))
    return in_our_words(*about)
