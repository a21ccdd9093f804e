"""The command itself: which subcommands there are, each imported only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any, cast

import click

from redisjobs.cli.exits import in_exit_codes
from redisjobs.cli.options import store_options
from redisjobs.cli.streams import fill

COMMANDS = {
    "worker": "redisjobs.cli.worker:worker",
    "relay": "redisjobs.cli.relay:relay",
    "scheduler": "redisjobs.cli.scheduler:scheduler",
    "dev": "redisjobs.cli.dev:dev",
    "demo": "redisjobs.cli.demo.command:demo",
    "migrate": "redisjobs.cli.migrate:migrate",
    "status": "redisjobs.cli.status:status",
    "explain": "redisjobs.cli.explain:explain",
    "top": "redisjobs.cli.top:top",
    "doctor": "redisjobs.cli.doctor:doctor",
    "jobs": "redisjobs.cli.jobs:jobs",
    "steps": "redisjobs.cli.steps:steps",
    "fork": "redisjobs.cli.steps:fork",
    "dead": "redisjobs.cli.dead:dead",
    "outbox": "redisjobs.cli.outbox:outbox",
    "queues": "redisjobs.cli.queues:queues",
    "limits": "redisjobs.cli.limits:limits",
    "schedules": "redisjobs.cli.schedules:schedules",
    "events": "redisjobs.cli.events:events",
    "webhooks": "redisjobs.cli.webhooks.command:webhooks",
    "schema": "redisjobs.cli.schema:schema",
}
"""Each subcommand's module and name. A new one needs a line here and nothing else."""


class Commands(click.Group):
    """Loads a subcommand when it is asked for, and ends every error of ours with its exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """The whole command, from its arguments to its exit code."""
        fill()
        return super().main(*args, **kwargs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of this name."""
        module, _, attribute = COMMANDS.get(cmd_name, "").partition(":")
        return cast(click.Command, getattr(import_module(module), attribute)) if module else None

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        with in_exit_codes():
            return super().invoke(ctx)


@click.group(
    cls=Commands,
    context_settings={
        "auto_envvar_prefix": "REDISJOBS",
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
    epilog="""\b
Examples:
  redisjobs dev --app shop:app                     all of it on this machine, servers included
  redisjobs migrate                                make or update the tables
  redisjobs relay                                  carry committed rows to Redis, and outcomes back
  redisjobs worker shop:app -q default,mail -c 20  run jobs
  redisjobs scheduler shop:app                     dispatch the jobs of schedules when they are due
  redisjobs status                                 one screen on everything
  redisjobs top                                    the same, live
  redisjobs explain ID                             where a job is, why it does not run, what happens next
  redisjobs doctor                                 is this set-up sound, and what mends it
  redisjobs dead redrive --error TimeoutError      give dead letters a new life
  redisjobs events send approved 1207              what a durable run waits for

\b
The stores are found in REDISJOBS_DATABASE_URL and REDISJOBS_REDIS_URL, else in DATABASE_URL and REDIS_URL.
Every option can be set in the environment: --batch-size of relay is REDISJOBS_RELAY_BATCH_SIZE.

\b
Exit codes: 0 done, 1 refused or not found, 2 wrong usage, 69 a store is down, 75 a worker handed jobs
back when it stopped, 78 wrong configuration, 130 interrupted.""",
)
@click.version_option(version("redisjobs-pg"), package_name="redisjobs-pg", prog_name="redisjobs")
@store_options
def main() -> None:
    """Jobs on Postgres and Redis: committing a transaction is enqueuing the job."""
