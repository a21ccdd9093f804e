"""`redisjobs dev`: all of it on this machine, in one process with one log."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from redisjobs import migrations
from redisjobs.cli import member, process
from redisjobs.cli.options import given, store_options
from redisjobs.cli.relay import relaying
from redisjobs.cli.worker import conclude, find_app, need_place, reload_option, run_fleet, serving_options
from redisjobs.embedded import Embedded, Servers
from redisjobs.settings import RelaySettings
from redisjobs.worker import Worker

GRACE_S = 5.0
"""At a desk nobody waits for longer after a Ctrl-C."""


@click.command(
    epilog="""\b
Examples:
  redisjobs dev shop.jobs:app
  redisjobs dev shop.jobs:app -q default,mail
  redisjobs dev shop.jobs:app --reload             start anew when a file is saved

\b
Starts a Postgres and a Redis, unless URLs of them are given; their data stay in ./.redisjobs. Another terminal
reaches them with the two lines that are printed, or by `. .redisjobs/env`, where they stand too."""
)
@serving_options(
    queues="*", names_help="Names, or globs such as mail.*; those that the app declares are served from the start."
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=".redisjobs",
    show_default=True,
    help="Where the embedded servers keep their data.",
)
@reload_option
@store_options
def dev(
    *, place: str | None, app: str | None, queues: list[str], concurrency: int | dict[str, int], data: Path,
    reload: bool,
) -> None:  # fmt: skip
    """Run everything here: servers, tables, relay and worker."""
    process.prepare()
    place = need_place(place or app)
    given().set_up_logs()
    known = given().settings()
    with Embedded(data, database_url=known.database_url, redis_url=known.redis_url) as servers:
        if member.number() is None:
            _name(servers, data)
        if reload and member.number() is None:
            code = run_fleet(place, 1, burst=False, reload=True)
        else:
            code = _work(place, queues, concurrency, 0.0 if reload else GRACE_S)
    raise click.exceptions.Exit(code)


def _work(place: str, queues: list[str], concurrency: int | dict[str, int], grace: float) -> int:
    found = find_app(place)
    for step in migrations.migrate(found.settings.need_database_url(), found.settings.schema):
        click.echo(f"applied {step}", err=True)
    declared = sorted({job.queue for job in found.jobs.values()}) if queues == ["*"] else []
    made = Worker(found, queues=[*declared, *queues], concurrency=concurrency, drain_grace=grace)
    return process.run(_serve(made))


async def _serve(made: Worker) -> int:
    async with relaying(made.app.settings, RelaySettings()):
        receipt = await made.run()
    return conclude(receipt)


def _name(servers: Servers, data: Path) -> None:
    """Tell other terminals where the servers are, and the app, whose module may read it while it is imported."""
    urls = {"REDISJOBS_DATABASE_URL": servers.database_url, "REDISJOBS_REDIS_URL": servers.redis_url}
    os.environ.update(urls)
    lines = [f"export {name}='{url}'" for name, url in urls.items()]
    click.echo(f"{servers.description}\n", err=True)
    click.echo("\n".join(lines))
    if data.is_dir():
        written = data / "env"
        written.touch(mode=0o600)
        written.write_text("\n".join([*lines, ""]))
        click.echo(f"\nAnother terminal reaches them after:  . {shlex.quote(str(written))}", err=True)
