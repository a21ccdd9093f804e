"""The page on settings: every field of the classes that hold them, with option, environment and default."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import redisjobs
from redisjobs.backoff import Backoff
from redisjobs.batching import Batching
from redisjobs.call import Options
from redisjobs.cli import main
from redisjobs.declaration import Declaration
from redisjobs.settings import RelaySettings, Settings, WorkerSettings
from redisjobs.webhooks.endpoint import Endpoint
from redisjobs.webhooks.options import WebhookOptions
from reference.cli import commands
from reference.markdown import arguments, code, page, summary, table

INTRO = """\
Three places, the first that says something counts: an option of the command, an argument in your code, the environment.
Values are checked where they are given; an error names the setting, the value and the remedy. Durations are seconds or
a `timedelta` in Python, and seconds or a number with a unit (`250ms`, `5m`, `1d`) elsewhere."""
OPTION_OF = {"drain_grace": "shutdown_grace"}
"""Fields that their option calls otherwise."""
ENVIRONMENT = {
    "DATABASE_URL": "Postgres, where REDISJOBS_DATABASE_URL is not set",
    "REDIS_URL": "Redis, where REDISJOBS_REDIS_URL is not set",
    "REDISJOBS_DATABASE_URL": "Postgres: `postgresql://user@host:5432/name`, percent-encoded",
    "REDISJOBS_REDIS_URL": "Redis: `redis://`, `unix://`, `redis+cluster://`, `redis+sentinel://`; with TLS `rediss…`",
    "REDISJOBS_DATABASE_PASSWORD": "as it is, not encoded; comes before one in the URL",
    "REDISJOBS_REDIS_PASSWORD": "likewise",
    "REDISJOBS_WEBHOOK_KEYS": "secrets of stored webhook endpoints: the first encrypts, each decrypts",
    "REDISJOBS_PG_BIN": "embedded servers: the folder of `postgres` and `initdb`",
    "REDISJOBS_REDIS_BIN": "embedded servers: the file `redis-server` or `valkey-server`",
    "REDISJOBS_ROOT": "embedded servers as root: `setuid`, to do without user namespaces",
    "REDISJOBS_MEMBER": "set by `worker --processes` for each of its processes; not to be set by hand",
    "REDISJOBS_TASKS": "Django: which backend of TASKS the management command serves, where several are ours",
    "NOTIFY_SOCKET": "systemd's: where READY, WATCHDOG and STOPPING are said",
    "WATCHDOG_USEC": "systemd's: how often it wants to hear of a living process",
    "WATCHDOG_PID": "systemd's: the process that it watches",
}
"""What is read from the environment by itself, and not as an option of a command."""


def page_of_settings() -> str:
    """The page."""
    return page(
        "Settings",
        INTRO,
        "## Stores\n\nArguments of `App(...)` and options of every command.",
        _fields(Settings, "", environment={"database_url": "DATABASE", "redis_url": "REDIS"}),
        "## Worker\n\nOptions of `redisjobs worker`, arguments of `Worker(app, ...)`.",
        _fields(WorkerSettings, "worker"),
        "## Relay\n\nOptions of `redisjobs relay`, fields of `RelaySettings`.",
        _fields(RelaySettings, "relay"),
        "## A job\n\nArguments of `@app.job(...)`. They are the job's own, on whatever worker it runs.",
        _fields(Declaration, without=("batching",)),
        "### Batch jobs\n\nArguments of `@app.batch_job(...)`, beside those of a job: all but `process`, "
        "`transactional`, `limit`, `rate` and `limits`. See the [guide](../guides/batches.md).",
        _fields(Batching),
        f"### Backoff\n\n`retry=Backoff(...)`. {summary(Backoff)}",
        _fields(Backoff),
        "## A call\n\nArguments of `job.using(...)`, for the calls that are made with it.",
        _fields(Options),
        "## Webhooks\n\nArguments of `webhook(app, ...)`; see the [guide](../guides/webhooks.md).",
        _fields(WebhookOptions),
        f"### Endpoint\n\n`Endpoint(...)`. {summary(Endpoint)}",
        _fields(Endpoint),
        "## Environment\n\nBesides the options of commands, which stand with each [command](cli.md).",
        table(["variable", ""], ([code(name), text] for name, text in ENVIRONMENT.items())),
    )


def names_in_code() -> set[str]:
    """The variables of redisjobs that its code names."""
    folder = Path(redisjobs.__file__).parent
    return {
        name for file in folder.rglob("*.py") for name in re.findall(r"\bREDISJOBS_[A-Z_]+[A-Z]\b", file.read_text())
    }


def _fields(
    settings: type[Any],
    command: str | None = None,
    environment: dict[str, str] | None = None,
    without: tuple[str, ...] = (),
) -> str:
    told = arguments(settings)
    given = {} if command is None else _given(command)
    rows = []
    for field in dataclasses.fields(settings):
        if field.name.startswith("_") or not field.init or field.name in without:
            continue
        option, variable = given.get(OPTION_OF.get(field.name, field.name), ("", ""))
        if environment and field.name in environment:
            variable = f"`REDISJOBS_{environment[field.name]}_URL`"
        row = [code(field.name), _default(field), told.get(field.name, "")]
        rows.append(row if command is None else [*row[:2], option, variable, row[2]])
    head = ["field", "default", ""] if command is None else ["field", "default", "option", "environment", ""]
    return table(head, rows)


def _given(command: str) -> dict[str, tuple[str, str]]:
    """The options of a command: by name, how they are written and their variable."""
    root = click.Context(main, info_name="redisjobs", auto_envvar_prefix="REDISJOBS")
    if not command:
        return dict(_written(main, root))
    return next(dict(_written(each, context)) for each, context in commands(main, root) if context.info_name == command)


def _written(command: click.Command, context: click.Context) -> Iterator[tuple[str, tuple[str, str]]]:
    for each in command.params:
        if isinstance(each, click.Option) and each.name:
            variable = each.envvar or (
                f"{context.auto_envvar_prefix}_{each.name.upper()}" if each.allow_from_autoenv else ""
            )
            yield each.name, (code(each.opts[0]), code(variable))


def _default(field: dataclasses.Field[Any]) -> str:
    value = field.default
    if value is dataclasses.MISSING or value is None or value in ("", ()):
        return ""
    is_duration = "timedelta" in str(field.type) or "Duration" in str(field.type)
    if isinstance(value, tuple):
        return ", ".join(code(each) for each in value)
    return f"{value:g} s" if is_duration and isinstance(value, (int, float)) else code(value)
