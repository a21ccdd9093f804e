"""`redisjobs dev`: all of it on this machine, in one process with one log."""

from __future__ import annotations

import os
import shlex
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import click

from redisjobs import migrations
from redisjobs.cli import member, process, relay, worker
from redisjobs.cli.monitoring import Watch, watch_options
from redisjobs.cli.options import given, store_options
from redisjobs.cli.scheduler import scheduling
from redisjobs.cli.worker import conclude, find_app, need_place, reload_option, run_fleet, serving_options
from redisjobs.embedded import Embedded, Servers
from redisjobs.monitoring import Monitor
from redisjobs.settings import RelaySettings, SchedulerSettings
from redisjobs.worker import Worker

GRACE_S = 5.0
"""At a desk nobody waits for longer after a Ctrl-C."""
ENV = "env"
"""In the folder of the servers' data: what another terminal reads to reach them."""
_QUOTE, _QUOTED = "'", "'\\''"
NO_APP_YET = """

If there is none yet, write shop.py:

    from redisjobs import App
    app = App()

    @app.job
    def greet(name: str) -> None:
        print(f"hello {name}")

and then:

    redisjobs dev shop:app
"""


@click.command(
    epilog="""\b
Examples:
  redisjobs dev shop.jobs:app
  redisjobs dev shop.jobs:app -q default,mail
  redisjobs dev shop.jobs:app --reload             start anew when a file is saved
  redisjobs dev shop.jobs:app --http-port 9400     health and metrics: the relay's here, the worker's at 9401

\b
Starts a Postgres and a Redis, unless URLs of them are given; their data stay in ./.redisjobs. Another terminal
reaches them after `. .redisjobs/env`, with the lines that are printed; they are the same at each start."""
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
@watch_options
@store_options
def dev(
    *, place: str | None, app: str | None, queues: list[str], concurrency: int | dict[str, int], data: Path,
    reload: bool, watch: Watch,
) -> None:  # fmt: skip
    """Run everything here: servers, tables, relay, scheduler and worker."""
    process.prepare()
    place = need_place(place or app, NO_APP_YET)
    given().set_up_logs()
    _forget_those_of_before(data)
    known = given().settings()
    with Embedded(data, database_url=known.database_url, redis_url=known.redis_url) as servers:
        if member.number() is None:
            _name(servers, data)
        if reload and member.number() is None:
            code = run_fleet(place, 1, burst=False, reload=True)
        else:
            code = _work(place, queues, concurrency, watch, 0.0 if reload else GRACE_S)
    raise click.exceptions.Exit(code)


def _work(place: str, queues: list[str], concurrency: int | dict[str, int], watch: Watch, grace: float) -> int:
    found = find_app(place)
    for step in migrations.migrate(found.settings.need_database_url(), found.settings.schema):
        click.echo(f"applied {step}", err=True)
    declared = sorted({job.queue for job in found.jobs.values()}) if queues == ["*"] else []
    with watch.monitor("relay") as of_relay, watch.of_process(1).monitor("worker") as of_worker:
        attempts = worker.counting(found, of_worker)
        made = Worker(
            found, queues=[*declared, *queues], concurrency=concurrency, drain_grace=grace, observer=attempts
        )  # fmt: skip
        return process.run(_serve(made, of_relay, worker.watched(made, of_worker, attempts)))


async def _serve(made: Worker, of_relay: Monitor, watched: AbstractAsyncContextManager[None]) -> int:
    stores = made.app.settings
    async with (
        relay.relaying(stores, RelaySettings()) as relaying,
        relay.watched(relaying, of_relay, stores),
        scheduling(stores, SchedulerSettings(), made.app),
        watched,
    ):
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
