"""A caller's transaction on each driver that can be enqueued on, with the same few moves for all of them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool


class Party:
    """Somebody in a transaction.

    Attributes:
        connection: what is enqueued on.
    """

    def __init__(
        self, connection: Any, execute: Callable[[str], Any], savepoint: Callable[[], Any], **ends: Any
    ) -> None:
        self.connection = connection
        self._execute, self._savepoint, self._ends = execute, savepoint, ends

    async def execute(self, statement: str) -> None:
        """A statement of the caller's own."""
        await settled(self._execute(statement))

    async def commit(self) -> None:
        await settled(self._ends["commit"]())

    async def rollback(self) -> None:
        await settled(self._ends["rollback"]())

    async def inside_a_savepoint_that_is_rolled_back(self, work: Callable[[], Any]) -> None:
        point = await settled(self._savepoint())
        await settled(work())
        await settled(point.rollback())


async def settled(value: Any) -> Any:
    """The value, awaited where it has to be."""
    return await value if inspect.isawaitable(value) else value


def engine_url(driver: str, url: str) -> str:
    """The database as SQLAlchemy names it."""
    return url.replace("postgresql://", f"postgresql+{driver}://", 1)


@asynccontextmanager
async def session(driver: str, url: str) -> AsyncIterator[Party]:
    with Session(create_engine(engine_url(driver, url), poolclass=NullPool)) as opened:
        yield _of_sqlalchemy(opened)


@asynccontextmanager
async def connection(driver: str, url: str) -> AsyncIterator[Party]:
    with create_engine(engine_url(driver, url), poolclass=NullPool).connect() as opened:
        yield _of_sqlalchemy(opened)


@asynccontextmanager
async def async_session(driver: str, url: str) -> AsyncIterator[Party]:
    async with AsyncSession(create_async_engine(engine_url(driver, url), poolclass=NullPool)) as opened:
        yield _of_sqlalchemy(opened)


@asynccontextmanager
async def async_connection(driver: str, url: str) -> AsyncIterator[Party]:
    async with create_async_engine(engine_url(driver, url), poolclass=NullPool).connect() as opened:
        yield _of_sqlalchemy(opened)


@asynccontextmanager
async def of_asyncpg(kind: str, url: str) -> AsyncIterator[Party]:
    async with AsyncExitStack() as stack:
        if kind == "pool":
            pool = await stack.enter_async_context(asyncpg.create_pool(url, min_size=1, max_size=1))
            opened: Any = await stack.enter_async_context(pool.acquire())
        else:
            opened = await asyncpg.connect(url)
            stack.push_async_callback(opened.close)
        transaction = opened.transaction()
        await transaction.start()

        async def savepoint() -> Any:
            point = opened.transaction()
            await point.start()
            return point

        yield Party(opened, opened.execute, savepoint, commit=transaction.commit, rollback=transaction.rollback)


def _of_sqlalchemy(opened: Session | AsyncSession | Any) -> Party:
    def execute(statement: str) -> Any:
        if isinstance(opened, (Session, AsyncSession)):
            return _through_its_connection(opened, statement)
        return opened.exec_driver_sql(statement)

    return Party(opened, execute, opened.begin_nested, commit=opened.commit, rollback=opened.rollback)


async def _through_its_connection(opened: Session | AsyncSession, statement: str) -> None:
    found: Any = await settled(opened.connection())
    done = found.exec_driver_sql(statement)
    if isinstance(found, AsyncConnection):
        await done


Open = Callable[[str, str], AbstractAsyncContextManager[Party]]

KINDS: dict[str, tuple[Open, str]] = {
    "Session on psycopg": (session, "psycopg"),
    "Session on psycopg2": (session, "psycopg2"),
    "Connection on psycopg": (connection, "psycopg"),
    "AsyncSession on psycopg": (async_session, "psycopg"),
    "AsyncSession on asyncpg": (async_session, "asyncpg"),
    "AsyncConnection on asyncpg": (async_connection, "asyncpg"),
    "asyncpg": (of_asyncpg, "connection"),
    "asyncpg from a pool": (of_asyncpg, "pool"),
}
