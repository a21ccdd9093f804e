"""`redisjobs scheduler`: asks for the jobs of schedules when they are due, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import AsyncGenerator

import click

from redisjobs.app import App
from redisjobs.base.postgres import Database
from redisjobs.base.signals import Signals
from redisjobs.cli import process
from redisjobs.cli.apps import load_app
from redisjobs.cli.monitoring import Watch, watch_options
from redisjobs.cli.options import duration, given, store_options
from redisjobs.cli.start import need_tables
from redisjobs.cli.supervisor import supervised
from redisjobs.monitoring import Monitor
from redisjobs.monitoring.scheduler_figures import of_scheduler
from redisjobs.scheduler import Scheduler
from redisjobs.settings import SchedulerSettings, Settings

STOP_S = 10.0
"""How long the round in flight may take to end after a signal."""


@click.command(
    epilog="""\b
Examples:
  redisjobs scheduler shop.jobs:app                the schedules of the app's code, and those made at run time
  redisjobs scheduler                              those that are in the database already
  redisjobs scheduler shop.jobs:app --http-port 9400

\b
Any number of schedulers may run, for high availability: each occurrence is dispatched once. It needs Postgres
alone; a relay carries what it dispatches.
Exit codes: 0 stopped, 69 Postgres is down at the start or the port is taken, 78 the tables are missing
or an option is wrong."""
)
@click.argument("place", metavar="[MODULE:APP]", required=False)
@click.option(
    "--app", "-A", metavar="MODULE:APP", envvar="REDISJOBS_APP",
    help="Whose declared schedules are made, changed and withdrawn as its code has them.",
)  # fmt: skip
@click.option(
    "--batch-size",
    type=int,
    default=200,
    show_default=True,
    metavar="N",
    help="Schedules in one round and transaction.",
)
@click.option(
    "--interval", type=duration, default="5s", show_default=True,
    help="Between looks when nothing is due and nothing wakes it.",
)  # fmt: skip
@watch_options
@store_options
def scheduler(*, place: str | None, app: str | None, batch_size: int, interval: float, watch: Watch) -> None:
    """Dispatch the jobs of schedules when they are due."""
    process.prepare()
    given().set_up_logs()
    settings = SchedulerSettings(batch_size, interval)
    found = None if not (place or app) else load_app(place or app or "")
    stores = given().settings(None if found is None else found.settings)
    if found is not None:
        found.settings = stores
    with watch.monitor("scheduler") as monitor:
        need_tables(stores)
        code = process.run(_serve(stores, settings, found, monitor))
    process.end_soon(code)
    raise click.exceptions.Exit(code)


async def _serve(stores: Settings, settings: SchedulerSettings, app: App | None, monitor: Monitor) -> int:
    asked = asyncio.Event()
    Signals(asked.set).take_over()  # for good, as in a relay
    async with (
        scheduling(stores, settings, app) as made,
        supervised(made, lambda: made.works),
        monitor.watching(made, lambda: of_scheduler(made)),
    ):
        await asked.wait()
        process.end_soon(0, within=STOP_S + process.END_S)
        await made.stop(STOP_S)
    return 0


@contextlib.asynccontextmanager
async def scheduling(
    stores: Settings, settings: SchedulerSettings, app: App | None = None
) -> AsyncGenerator[Scheduler]:
    """A scheduler that runs inside the block, with what this app declares."""
    database = Database(stores.need_database_url(), size=2)
    name = f"{socket.gethostname()[:64]}-{os.getpid()}-{secrets.token_hex(4)}"
    made = Scheduler(
        database, settings, name=name, declared=None if app is None else app.schedules,
        knows=frozenset() if app is None else frozenset(app.jobs), schema=stores.schema,
    )  # fmt: skip
    try:
        await made.start()
        yield made
    finally:
        await made.stop(STOP_S)
        await database.close()
