"""`redisjobs relay`: carries committed rows to Redis and outcomes back, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import AsyncGenerator, Callable, Generator, Iterable

import click

from redisjobs.base.postgres import Database
from redisjobs.base.signals import Signals
from redisjobs.broker import Carrier
from redisjobs.broker.client import connect
from redisjobs.cli import process
from redisjobs.cli.monitoring import Watch, watch_options
from redisjobs.cli.options import duration, given, store_options
from redisjobs.cli.start import need_redis, need_tables
from redisjobs.cli.supervisor import supervised
from redisjobs.monitoring import Monitor
from redisjobs.monitoring.family import Family
from redisjobs.monitoring.relay_figures import of_relay
from redisjobs.monitoring.stores import Stores
from redisjobs.relay import Relay
from redisjobs.settings import RelaySettings, Settings

STOP_S = 10.0
"""How long the round in flight may take to end after a signal."""


@click.command(
    epilog="""\b
Examples:
  redisjobs relay
  redisjobs relay --batch-size 1000 --retention 1d
  redisjobs relay --http-port 9400                 tell of health and metrics

\b
Any number of relays may run, for high availability: each queue is held by one at a time.
Exit codes: 0 stopped, 69 a store is down at the start or the port is taken, 78 the tables are missing
or an option is wrong."""
)
@click.option(
    "--batch-size", type=int, default=500, show_default=True, metavar="N", help="Rows of one queue in a pass."
)
@click.option(
    "--interval", type=duration, default="200ms", show_default=True, help="Between looks when nothing wakes it."
)
@click.option(
    "--lease", type=duration, default="15s", show_default=True, help="How long a queue stays its own without a renewal."
)
@click.option(
    "--horizon", type=duration, default="1h", show_default=True, help="What is due later than this waits in Postgres."
)
@click.option(
    "--memory-budget",
    type=float,
    default=0.8,
    show_default=True,
    metavar="SHARE",
    help="The share of Redis' maxmemory past which nothing more is published.",
)
@click.option(
    "--retention",
    type=duration,
    default="1h",
    show_default=True,
    help="How long a finished job stays visible; 0: not at all.",
)
@watch_options
@store_options
def relay(
    *, batch_size: int, interval: float, lease: float, horizon: float, memory_budget: float, retention: float,
    watch: Watch,
) -> None:  # fmt: skip
    """Carry committed rows to Redis, and outcomes back."""
    process.prepare()
    given().set_up_logs()
    settings = RelaySettings(batch_size, interval, lease, horizon, memory_budget, retention)
    stores = given().settings()
    with watch.monitor("relay") as monitor:
        need_tables(stores)
        need_redis(stores)
        code = process.run(_serve(stores, settings, monitor))
    process.end_soon(code)
    raise click.exceptions.Exit(code)


async def _serve(stores: Settings, settings: RelaySettings, monitor: Monitor) -> int:
    asked = asyncio.Event()
    Signals(asked.set).take_over()  # for good: further signals change nothing, for the stop has a limit of its own
    async with (
        relaying(stores, settings) as made,
        supervised(made, lambda: made.works),
        watched(made, monitor, stores),
    ):
        await asked.wait()
        process.end_soon(0, within=STOP_S + process.END_S)  # a driver may wait for a silent store for longer
        await made.stop(STOP_S)
    return 0


@contextlib.asynccontextmanager
async def watched(made: Relay, monitor: Monitor, stores: Settings) -> AsyncGenerator[None]:
    """Inside the block the monitor speaks for this relay."""
    with _told_by(monitor, made, stores) as tell:
        async with monitor.watching(made, tell):
            yield


@contextlib.contextmanager
def _told_by(monitor: Monitor, made: Relay, stores: Settings) -> Generator[Callable[[], Iterable[Family]] | None]:
    """The relay's metrics, where somebody asks for them: then both stores are looked at inside the block."""
    if not monitor.serves_metrics:
        yield None
        return
    looks = Stores(stores, lambda: {queue: hold.floor.seq for queue, hold in dict(made.leases.held).items()})
    looks.start()
    try:
        yield lambda: of_relay(made, looks)
    finally:
        looks.stop()


@contextlib.asynccontextmanager
async def relaying(stores: Settings, settings: RelaySettings) -> AsyncGenerator[Relay]:
    """A relay that runs inside the block."""
    redis, database = connect(stores.need_redis_url()), Database(stores.need_database_url())
    name = f"{socket.gethostname()[:64]}-{os.getpid()}-{secrets.token_hex(4)}"
    made = Relay(database, Carrier(redis, stores.prefix), settings, name=name, schema=stores.schema)
    try:
        await made.start()
        yield made
    finally:
        await made.stop(STOP_S)
        await database.close()
        await redis.aclose()
