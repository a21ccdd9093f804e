"""The connections that a caller may enqueue on, named in one place."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, runtime_checkable

import psycopg


@runtime_checkable
class SyncTransaction(Protocol):
    """A transaction that psycopg does not run, such as one of the test kit's memory."""

    def run_ours(self, statement: bytes, parameters: dict[str, Any], /) -> Any:
        """Run one of our statements in it; the one value that it answers, if it answers one."""
        ...


@runtime_checkable
class AsyncTransaction(Protocol):
    """As `SyncTransaction`, awaited."""

    async def run_ours_async(self, statement: bytes, parameters: dict[str, Any], /) -> Any:
        """Run one of our statements in it; the one value that it answers, if it answers one."""
        ...


Sync: TypeAlias = "psycopg.Connection[Any] | psycopg.Cursor[Any] | SyncTransaction"
Async: TypeAlias = "psycopg.AsyncConnection[Any] | psycopg.AsyncCursor[Any] | AsyncTransaction"
