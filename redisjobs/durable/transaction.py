"""The blocks of `ctx.transaction`: their writes and the record of the step commit together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any

import psycopg


class Kept(ABC):
    """What a block of a transaction gives beside its connection."""

    @property
    @abstractmethod
    def value(self) -> Any:
        """What was kept, once the block has ended; on a replay what was kept then."""

    @abstractmethod
    def keep(self, value: Any) -> None:
        """Record this as the result of the block, in its transaction."""


class Transaction(Kept):
    """`async with ctx.transaction("debit") as tx:`"""

    @abstractmethod
    async def __aenter__(self) -> psycopg.AsyncConnection[tuple[Any, ...]]: ...

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool: ...


class SyncTransaction(Kept):
    """`with ctx.sync.transaction("debit") as tx:`"""

    @abstractmethod
    def __enter__(self) -> psycopg.Connection[tuple[Any, ...]]: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool: ...
