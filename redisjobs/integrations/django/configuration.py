"""What the project's settings say about a backend, checked where it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

from django.conf import settings
from django.db import connections
from psycopg import pq
from psycopg.conninfo import make_conninfo

from redisjobs.errors import ConfigurationError

BACKEND = "redisjobs.integrations.django.TasksBackend"


@dataclass(frozen=True, slots=True)
class Configuration:
    """`TASKS[alias]["OPTIONS"]`.

    Args:
        database: the alias in DATABASES whose transactions tasks are enqueued in.
        redis_url: None: from the environment, as `Settings` says. Only workers and relays need it.
        schema: the Postgres schema of the tables, and `prefix` what every Redis key begins with.
        imports: modules with tasks besides `tasks` and `jobs` of each app.
        max_attempts: of tasks that say nothing else.
        result_ttl: seconds for which a task's result is kept.
    """

    database: str = "default"
    redis_url: str | None = None
    schema: str = "redisjobs"
    prefix: str = "rj"
    imports: tuple[str, ...] = ()
    max_attempts: int = 20
    result_ttl: float = 86_400.0

    @classmethod
    def of(cls, options: Mapping[str, Any], where: str) -> Configuration:
        """The options, if they can work.

        Raises:
            ConfigurationError: one of them is unknown, or names a database that is not there.
        """
        known = {each.name for each in fields(cls)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise ConfigurationError(
                f"{where}: {', '.join(unknown)} is no option: pass some of {', '.join(sorted(known))}"
            )
        given: dict[str, Any] = {**options, "imports": tuple(options.get("imports", ()))}
        found = cls(**given)
        if found.database not in settings.DATABASES:
            raise ConfigurationError(
                f"{where}: database ({found.database!r}) is not in DATABASES: pass one of "
                f"{', '.join(settings.DATABASES)}"
            )
        return found

    def database_url(self) -> str:
        """The database as libpq names it, for relay and command line.

        Raises:
            ConfigurationError: it is no Postgres.
        """
        connection = connections[self.database]
        if connection.vendor != "postgresql":
            raise ConfigurationError(
                f"DATABASES[{self.database!r}] is {connection.vendor}: redisjobs enqueues in transactions of Postgres; "
                "name such a one in TASKS[…]['OPTIONS']['database']"
            )
        known = {each.keyword.decode() for each in pq.Conninfo.get_defaults()}
        given = connection.get_connection_params()
        return make_conninfo(**{name: value for name, value in given.items() if name in known and value})


def configured(alias: str) -> Configuration:
    """What the settings say about the backend of this alias; the defaults where they say nothing.

    Raises:
        ConfigurationError: an option that cannot work, or an alias that is not in TASKS.
    """
    if alias not in _tasks() and alias != "default":
        raise ConfigurationError(f"TASKS has no {alias!r}: pass one of {', '.join(_tasks()) or 'default'}")
    return Configuration.of(_tasks().get(alias, {}).get("OPTIONS", {}), f"TASKS[{alias!r}]['OPTIONS']")


def first_alias() -> str:
    """The alias of the first backend that is ours; `default` where there is none."""
    return next((alias for alias, entry in _tasks().items() if entry.get("BACKEND") == BACKEND), "default")


def queues_of(alias: str) -> list[str]:
    """The queues that the backend of this alias allows; none: any."""
    return sorted(cast("list[str]", _tasks().get(alias, {}).get("QUEUES", ["default"])))


def _tasks() -> dict[str, dict[str, Any]]:
    return getattr(settings, "TASKS", None) or {}
