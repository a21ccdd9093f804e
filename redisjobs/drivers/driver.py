"""What each driver does: sends one statement in the caller's transaction, or asks for one value. None commits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

Statement: TypeAlias = tuple[bytes, dict[str, Any]]
"""A statement with `%(name)s` for its parameters, and their values."""


class SyncDriver(ABC):
    """Speaks over connections that block.

    Raises:
        EnqueueError: Postgres refuses the row; the caller's transaction is then aborted.
        ConfigurationError: the tables are not there, or the connection is of a kind that is not served.
        StoreRefused: the role may not do it.
        Exception: what is the matter with the connection or the transaction itself, in the driver's own words.
    """

    __slots__ = ()

    @abstractmethod
    def send(self, connection: Any, statement: Statement) -> None:
        """Send a statement that answers nothing."""

    @abstractmethod
    def ask(self, connection: Any, statement: Statement) -> Any:
        """Send a statement; the one value that comes back."""


class AsyncDriver(ABC):
    """As `SyncDriver`, over connections that are awaited."""

    __slots__ = ()

    @abstractmethod
    async def send(self, connection: Any, statement: Statement) -> None:
        """Send a statement that answers nothing."""

    @abstractmethod
    async def ask(self, connection: Any, statement: Statement) -> Any:
        """Send a statement; the one value that comes back."""
