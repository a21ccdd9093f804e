"""`redisjobs demo`: committed work under faults, on real servers, in some ten seconds."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Generator
from contextlib import contextmanager

import click
from rich.console import Console

from redisjobs import migrations
from redisjobs.base.signals import Signals
from redisjobs.cli import exits, process
from redisjobs.cli.demo import jobs as shop_jobs
from redisjobs.cli.demo import summary, tidy
from redisjobs.cli.demo.audit import Verdict
from redisjobs.cli.demo.live import Live
from redisjobs.cli.demo.plan import plan
from redisjobs.cli.demo.play import Scene, play
from redisjobs.cli.demo.progress import Lines, Screen
from redisjobs.cli.options import Given, given, store_options
from redisjobs.cli.start import need_redis
from redisjobs.embedded import Embedded, Servers
from redisjobs.settings import Settings

INTERRUPTED = 130


@click.command(
    epilog="""\b
Examples:
  redisjobs demo
  redisjobs demo --calm --jobs 10000
  redisjobs demo --json | jq .lost

\b
A Postgres and a Redis are started for it and leave nothing behind. Given servers are used with a schema and a
key prefix of the demo's own, which are removed at the end; DATABASE_URL and REDIS_URL are not looked at.
Exit codes: 0 every promise held, 1 something was lost, ran from a rolled back transaction, or started again
without a fault; 130 interrupted."""
)
@click.option(
    "--jobs", type=click.IntRange(1, 1_000_000), default=2000, show_default=True, metavar="N",
    help="Orders that commit; those rolled back come on top.",
)  # fmt: skip
@click.option("--calm", is_flag=True, help="No faults and no failing mails: then nothing starts twice.")
@click.option("--seed", type=int, help="Play the same orders again.")
@click.option("--flushall-given", is_flag=True, help="Empty a given Redis too, with all that is in it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout; progress goes to stderr.")
@store_options
def demo(*, jobs: int, calm: bool, seed: int | None, flushall_given: bool, as_json: bool) -> None:
    """Show that nothing is lost: a shop, two workers, and faults."""
    process.prepare()
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    sales = plan(jobs, seed, calm=calm)
    console = Console(stderr=as_json, highlight=False, soft_wrap=not Console(stderr=as_json).is_terminal)
    embedded = Embedded(database_url=given().database_url, redis_url=given().redis_url)
    with _interruptible(), embedded as servers:
        console.print(f"{servers.description}; seed {seed}", style="dim")
        scene = Scene(_stores(servers, given()), sales, calm, flush=servers.redis_pid is not None or flushall_given)
        need_redis(scene.settings)
        with _tables(scene.settings), _screen(console) as screen:
            verdict = _verdict(scene, screen)
    rolled_back = len(sales) - jobs + sum(sale.withdrawn is not None for sale in sales)
    if as_json:
        summary.tell_troubles(console, verdict)
        click.echo(summary.as_json(verdict, rolled_back, seed))
    else:
        summary.show(console, verdict, rolled_back, calm=calm)
    raise click.exceptions.Exit(0 if verdict.holds else exits.FAILED)


def _stores(servers: Servers, known: Given) -> Settings:
    """Names of the demo's own on servers that are not."""
    mark = secrets.token_hex(3)
    return Settings.load(
        database_url=servers.database_url,
        redis_url=servers.redis_url,
        database_password=known.database_password,
        redis_password=known.redis_password,
        schema="redisjobs" if servers.postgres_pid else f"redisjobs_demo_{mark}",
        prefix="rj" if servers.redis_pid else f"rj-demo-{mark}",
    )


@contextmanager
def _tables(settings: Settings) -> Generator[None]:
    """The tables of redisjobs, and nothing of the demo afterwards."""
    try:
        migrations.migrate(settings.need_database_url(), settings.schema)
        yield
    finally:
        tidy.leave_nothing(settings)


def _verdict(scene: Scene, screen: Screen) -> Verdict:
    shop_jobs.app.settings = scene.settings
    found: list[Verdict] = []

    async def run() -> int:
        work = asyncio.ensure_future(play(scene, screen))

        def end() -> None:
            work.cancel()

        Signals(end).take_over()
        found.append(await work)
        return 0

    process.run(run(), uvloop=None)
    return found[0]


@contextmanager
def _interruptible() -> Generator[None]:
    """An end that was asked for is told in one line, whenever it comes; psycopg's queries die of it without a word."""
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    try:
        yield
    except (SystemExit, asyncio.CancelledError):
        raise exits.Fault("interrupted; whatever the demo started has ended", INTERRUPTED) from None


@contextmanager
def _screen(console: Console) -> Generator[Screen]:
    if console.is_terminal:
        with Live(console) as live:
            yield live
    else:
        yield Lines(lambda line: console.print(line, markup=False))
