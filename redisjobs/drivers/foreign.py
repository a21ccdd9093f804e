"""Transactions that run our statements themselves, such as one of the test kit's memory."""

from __future__ import annotations

from typing import Any

from redisjobs.base import connections
from redisjobs.drivers.driver import AsyncDriver, Statement, SyncDriver


class Foreign(SyncDriver):
    """A `SyncTransaction`."""

    __slots__ = ()

    def send(self, connection: Any, statement: Statement) -> None:
        """Send a statement that answers nothing."""
        connection.run_ours(*statement)

    def ask(self, connection: Any, statement: Statement) -> Any:
        """Send a statement; the one value that comes back."""
        return connection.run_ours(*statement)


class AsyncForeign(AsyncDriver):
    """An `AsyncTransaction`."""

    __slots__ = ()

    async def send(self, connection: Any, statement: Statement) -> None:
        """Send a statement that answers nothing."""
        await connection.run_ours_async(*statement)

    async def ask(self, connection: Any, statement: Statement) -> Any:
        """Send a statement; the one value that comes back."""
        return await connection.run_ours_async(*statement)


def driver_of(kind: type) -> SyncDriver | AsyncDriver | None:
    """Who speaks over objects of this class; None: it runs nothing of ours."""
    if issubclass(kind, connections.AsyncTransaction):
        return AsyncForeign()
    return Foreign() if issubclass(kind, connections.SyncTransaction) else None
