"""The options that all commands share, and the types that options have."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

import click

from redisjobs.base.postgres import check_database_url
from redisjobs.cli import logging, member
from redisjobs.settings import Settings

Function = TypeVar("Function", bound=Callable[..., Any])

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|)")


@dataclass(slots=True)
class Given:
    """What was said about stores and logs, on any level of the command; None: nothing."""

    database_url: str | None = None
    redis_url: str | None = None
    database_password: str | None = None
    redis_password: str | None = None
    schema: str | None = None
    prefix: str | None = None
    log_level: str | None = None
    log_format: str | None = None

    def settings(self, known: Settings | None = None) -> Settings:
        """The stores: as given here, else as an app has them, else from the environment.

        Raises:
            ConfigurationError: a URL or name that cannot work.
        """
        known = known or Settings()
        settings = Settings.load(
            database_url=self.database_url or known.database_url,
            redis_url=self.redis_url or known.redis_url,
            database_password=self.database_password,
            redis_password=self.redis_password,
            schema=self.schema or known.schema,
            prefix=self.prefix or known.prefix,
        )
        if settings.database_url is not None:
            check_database_url(settings.database_url)
        return settings

    def set_up_logs(self) -> None:
        """Send logs to stderr, in the form asked for."""
        logging.set_up(self.log_level or "info", self.log_format or "text", member.number())


def given() -> Given:
    """What the running command was given."""
    return click.get_current_context().find_root().ensure_object(Given)


def _remember(ctx: click.Context, param: click.Parameter, value: object) -> None:
    if value is not None:
        setattr(ctx.find_root().ensure_object(Given), param.name or "", value)


def _shared(*names: str, autoenv: bool = True, **options: Any) -> Callable[[Function], Function]:
    return click.option(
        *names, expose_value=False, callback=_remember, allow_from_autoenv=autoenv, show_envvar=False, **options
    )


_LEVELS = click.Choice(["debug", "info", "warning", "error"], case_sensitive=False)
_FORMATS = click.Choice(["text", "json"], case_sensitive=False)
_DATABASE_HELP = "Postgres; else REDISJOBS_DATABASE_URL, DATABASE_URL."
_APART = "Apart from its URL, as it is. Others here can read options: REDISJOBS_DATABASE_PASSWORD is better."
_STORES = (
    # their environment is read by the settings, below what an app says about itself
    _shared("--database-url", metavar="URL", autoenv=False, help=_DATABASE_HELP),
    _shared("--redis-url", metavar="URL", autoenv=False, help="Redis; else REDISJOBS_REDIS_URL, REDIS_URL."),
    _shared("--database-password", metavar="TEXT", autoenv=False, help=_APART),
    _shared("--redis-password", metavar="TEXT", autoenv=False, help="Likewise; or REDISJOBS_REDIS_PASSWORD."),
    _shared("--schema", metavar="NAME", help="The Postgres schema of the tables (redisjobs)."),
    _shared("--prefix", metavar="TEXT", help="What every Redis key begins with (rj)."),
    _shared("--log-level", type=_LEVELS, help="What is written to stderr (info)."),
    _shared("--log-format", type=_FORMATS, help="For people, or for machines (text)."),
)


def store_options(function: Function) -> Function:
    """The options for stores and logs. They may stand before the subcommand or behind it."""
    for option in reversed(_STORES):
        function = option(function)
    return function


def json_option(function: Function) -> Function:
    """`--json`: one document on stdout, and nothing else there."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")(function)


def duration(value: str) -> float:
    """Seconds, or a number with a unit: 90, 1.5s, 250ms, 5m, 2h, 7d. The settings check the range."""
    match = _DURATION.fullmatch(value.strip().lower())
    if match is None:
        raise click.BadParameter(f"{value!r} is no duration: pass seconds, or a number with ms, s, m, h or d.")
    return float(match[1]) * _UNITS[match[2]]


def job_id(value: str) -> UUID:
    """The id of a job."""
    try:
        return UUID(value.strip())
    except ValueError:
        raise click.BadParameter(f"{value[:60]!r} is no job id: pass a UUID as enqueue answered it.") from None


def unknown(wanted: UUID) -> str:
    """What is said of an id that Postgres does not know."""
    return (
        f"job {wanted} is not known in this database: its transaction rolled back, it ended longer ago than the "
        "relay's --retention, or it is in another database or --schema."
    )
