"""The connection of a transaction that is committed already: whoever uses it leaves the block."""

from __future__ import annotations

from typing import Any, Self

import psycopg


class Left(BaseException):
    """The block is left at its first use of the connection: it was committed by an earlier attempt."""


class _Leaves:
    """Stands for a connection, and has nothing of one."""

    def __new__(cls) -> Self:
        return object.__new__(cls)

    def __init__(self) -> None:
        """It has nothing."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        raise Left

    def __del__(self, *_: Any) -> None:
        """There is nothing to close."""


class LeftAsync(_Leaves, psycopg.AsyncConnection[tuple[Any, ...]]):
    """Stands for the async connection of such a block."""


class LeftSync(_Leaves, psycopg.Connection[tuple[Any, ...]]):
    """Likewise, for a body in a thread."""
