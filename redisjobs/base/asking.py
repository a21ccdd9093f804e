"""Questions to Postgres by whoever operates it: one connection, one after the other, errors in our own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeVar

from psycopg.rows import class_row

from redisjobs.base.postgres import Row, in_our_words, opened

T = TypeVar("T")


class Asking:
    """A connection for the time of a block; every question is a transaction of its own.

    Raises:
        DatabaseUnavailable: no answer. ConfigurationError: the schema is missing. StoreRefused: a right is missing.
    """

    def __init__(self, url: str) -> None:
        self._connection = opened(url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _rows(self, what: str, statement: bytes, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """All rows.

        Args:
            what: names the question in errors.
        """
        with in_our_words(what):
            return self._connection.execute(statement, parameters or {}).fetchall()

    def _one(self, what: str, statement: bytes, parameters: Mapping[str, Any] | None = None) -> Any:
        """The first value of the first row; None: there is no row."""
        row = next(iter(self._rows(what, statement, parameters)), None)
        return None if row is None else row[0]

    def _all(self, what: str, kind: type[T], statement: bytes, parameters: Mapping[str, Any] | None = None) -> list[T]:
        """All rows, each as an object of this class."""
        with in_our_words(what), self._connection.cursor(row_factory=class_row(kind)) as cursor:
            return cursor.execute(statement, parameters or {}).fetchall()
