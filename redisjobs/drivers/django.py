"""Django: `django.db.connection` and its siblings, on psycopg 3 or psycopg2. The extra is `[django]`.

The row goes into the transaction that the connection is in, savepoints of `atomic` included.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.connection import ConnectionProxy

from redisjobs.drivers.driver import Statement, SyncDriver
from redisjobs.drivers.forms import named
from redisjobs.drivers.words import in_our_words
from redisjobs.errors import ConfigurationError


class Django(SyncDriver):
    """`django.db.connection`, and those of `django.db.connections`."""

    __slots__ = ()

    def send(self, connection: Any, statement: Statement) -> None:
        """Send a statement that answers nothing."""
        _check(connection)
        with told(), connection.cursor() as cursor:
            cursor.execute(*named(statement))

    def ask(self, connection: Any, statement: Statement) -> Any:
        """Send a statement; the one value that comes back."""
        _check(connection)
        with told(), connection.cursor() as cursor:
            cursor.execute(*named(statement))
            return cursor.fetchone()[0]


def driver_of(kind: type) -> SyncDriver | None:
    """Who speaks over connections of this class; None: it is none."""
    return Django() if issubclass(kind, (BaseDatabaseWrapper, ConnectionProxy)) else None


@contextmanager
def told() -> Generator[None]:
    """Turns what is certainly about the outbox into our errors."""
    try:
        yield
    except Error as error:
        cause: Any = error.__cause__  # Django's errors carry the driver's
        about = getattr(cause, "diag", None)
        code = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
        ours = about and in_our_words(
            code,
            about.message_primary,
            about.table_name,
            about.constraint_name,
            command="python manage.py redisjobs",
        )
        if not ours:
            raise
        raise ours from error


def _check(connection: Any) -> None:
    if connection.vendor != "postgresql":
        raise ConfigurationError(
            f"the database {connection.alias!r} of Django is {connection.vendor}: enqueue on one whose ENGINE is "
            "django.db.backends.postgresql, such as django.db.connections['…']"
        )
