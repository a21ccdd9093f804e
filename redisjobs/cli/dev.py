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
ENV = "env"
"""In the folder of the servers' data: what another terminal reads to reach them."""
_QUOTE, _QUOTED = "'", "'\\''"


@click.command(
    epilog="""\b
Examples:
  redisjobs dev shop.jobs:app
  redisjobs dev shop.jobs:app -q default,mail
  redisjobs dev shop.jobs:app --reload             start anew when a file is saved

\b
Starts a Postgres and a Redis, unless URLs of them are given; their data stay in ./.redisjobs. Another terminal
reaches them after `. .redisjobs/env`, with the lines that are printed."""
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
    _forget_those_of_before(data)
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


def _forget_those_of_before(data: Path) -> None:
    """Take no stores of a `dev` that has ended for given ones: whoever starts it again may have read its file."""
    if member.number() is None and (data / ENV).is_file():
        for line in (data / ENV).read_text().splitlines():
            name, _, url = line.removeprefix("export ").partition("=")
            if os.environ.get(name) == "".join(shlex.split(url)):
                del os.environ[name]


def _name(servers: Servers, data: Path) -> None:
    """Tell other terminals where the servers are, and the app, whose module may read it while it is imported.

    Of a given URL, which may have a password, nothing is shown or written.
    """
    os.environ["REDISJOBS_DATABASE_URL"] = servers.database_url
    os.environ["REDISJOBS_REDIS_URL"] = servers.redis_url
    started = {"REDISJOBS_DATABASE_URL": servers.database_url} if servers.postgres_pid else {}
    started |= {"REDISJOBS_REDIS_URL": servers.redis_url} if servers.redis_pid else {}
    click.echo(f"{servers.description}\n", err=True)
    if started:
        lines = [f"export {name}='{url.replace(_QUOTE, _QUOTED)}'" for name, url in started.items()]
        click.echo("\n".join(lines))
        (data / ENV).touch(mode=0o600)
        (data / ENV).write_text("\n".join([*lines, ""]))
        click.echo(f"\nAnother terminal reaches them after:  . {shlex.quote(str(data / ENV))}", err=True)
