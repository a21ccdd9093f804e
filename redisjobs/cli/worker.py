"""`redisjobs worker`: runs jobs until it is told to stop, and says then what became of those that ran."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import click
from click.core import ParameterSource

from redisjobs.app import App
from redisjobs.base.durations import many
from redisjobs.cli import member, process
from redisjobs.cli.apps import load_app
from redisjobs.cli.fleet import Fleet, this_command
from redisjobs.cli.monitoring import Watch, watch_options
from redisjobs.cli.options import Function, duration, given, store_options
from redisjobs.cli.plain_text import printable
from redisjobs.cli.reload import reloading
from redisjobs.cli.scheduler import scheduling
from redisjobs.cli.start import need_redis, need_tables
from redisjobs.cli.supervisor import supervised
from redisjobs.drain import Receipt
from redisjobs.logs import event
from redisjobs.monitoring import Monitor
from redisjobs.monitoring.attempts import Attempts
from redisjobs.monitoring.family import Family
from redisjobs.monitoring.scheduler_figures import of_scheduler
from redisjobs.monitoring.worker_figures import of_worker
from redisjobs.scheduler import Scheduler
from redisjobs.settings import SchedulerSettings
from redisjobs.worker import Worker

log = logging.getLogger("redisjobs.worker")


def slots(value: str) -> int | dict[str, int]:
    """Slots for each queue: `20`, or `default=20,mail.*=5`."""
    try:
        if "=" not in value:
            return int(value)
        pairs = [part.rsplit("=", 1) for part in value.split(",") if part.strip()]
        return {queue.strip(): int(number) for queue, number in pairs}
    except ValueError:
        raise click.BadParameter(f"{value!r} is no number of slots: pass 20, or queue=20,other=5.") from None


def names(value: str) -> list[str]:
    """Names of queues with commas between."""
    return [name.strip() for name in value.split(",") if name.strip()]


def serving_options(*, queues: str, names_help: str) -> Callable[[Function], Function]:
    """The app, the queues of its jobs, and their slots."""
    options = (
        click.argument("place", metavar="[MODULE:APP]", required=False),
        click.option(
            "--app", "-A", metavar="MODULE:APP", envvar="REDISJOBS_APP",
            help="Where the app is; the folder you are in is searched first.",
        ),
        click.option(
            "--queues", "-q", type=names, default=queues, show_default=True, envvar="REDISJOBS_QUEUES", metavar="A,B",
            help=names_help,
        ),
        click.option(
            "--concurrency", "-c", type=slots, default="10", show_default=True, envvar="REDISJOBS_CONCURRENCY",
            metavar="N|QUEUE=N,…", help="Jobs of each queue at the same time.",
        ),
    )  # fmt: skip

    def add(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return add


reload_option = click.option(
    "--reload", is_flag=True, help="Start anew when a Python file of the app is saved; needs the extra [reload]."
)


@click.command(
    epilog="""\b
Examples:
  redisjobs worker shop.jobs:app
  redisjobs worker shop.jobs:app -q default,mail.* -c default=20,mail.*=5
  redisjobs worker shop.jobs:app --burst           run what is there, then end
  redisjobs worker shop.jobs:app --processes 4     four processes, each with its own slots
  redisjobs worker shop.jobs:app --reload          for development: start anew when a file is saved
  redisjobs worker shop.jobs:app --http-port 9400  tell of health and metrics

\b
SIGTERM or Ctrl-C: nothing more is taken, running bodies may end within the grace, the rest is handed back,
uncounted; the receipt on stdout has a line for each. A second signal hands back at once. SIGTSTP: nothing
more is taken from now on, and what runs goes on.
Exit codes: 0 all was finished, 75 something was handed back, 69 Redis is down at the start or the port is taken,
78 wrong configuration."""
)
@serving_options(queues="default", names_help="Names, or globs such as mail.*")
@click.option(
    "--visibility-timeout",
    type=duration,
    default="30s",
    show_default=True,
    help="How long a lease lasts without a renewal.",
)
@click.option("--heartbeat-interval", type=duration, help="Between renewals; by default a third of the lease.")
@click.option(
    "--shutdown-grace",
    type=duration,
    default="25s",
    show_default=True,
    help="How long running bodies may go on after the first signal.",
)
@click.option(
    "--max-losses",
    type=click.IntRange(1, 1_000_000),
    default=3,
    show_default=True,
    help="Leases lost in a row after which a job counts as one that kills its worker: a dead letter.",
)
@click.option("--burst", is_flag=True, help="End when nothing waits, runs, or is due by now; what is due later stays.")
@click.option(
    "--worker-id",
    default="",
    metavar="NAME",
    help="Unlike any other worker's; by default host, process id and a random tail.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="So many processes, each with --concurrency slots; one that ends is started again.",
)
@reload_option
@click.option(
    "--scheduler",
    "schedules",
    is_flag=True,
    help="Dispatch schedules too, as `redisjobs scheduler` does; needs Postgres. Of several processes the first does.",
)
@click.option("--uvloop/--no-uvloop", default=None, help="By default where it is installed.")
@watch_options
@store_options
def worker(
    *, place: str | None, app: str | None, queues: list[str], concurrency: int | dict[str, int],
    visibility_timeout: float, heartbeat_interval: float | None, shutdown_grace: float, max_losses: int, burst: bool,
    worker_id: str, uvloop: bool | None, processes: int, reload: bool, schedules: bool, watch: Watch,
) -> None:  # fmt: skip
    """Run jobs."""
    process.prepare()
    given().set_up_logs()
    number = member.number()
    if number is None and (processes > 1 or reload):
        raise click.exceptions.Exit(run_fleet(need_place(place or app), processes, burst=burst, reload=reload))
    if number is not None:
        worker_id = f"{worker_id}-{number}" if worker_id else ""
        shutdown_grace = 0 if reload else shutdown_grace
        watch = watch.of_process(number - 1)
    found = find_app(place or app)
    _tell_unserved(found, queues)

    with watch.monitor("worker") as monitor:
        attempts = counting(found, monitor)
        made = Worker(
            found, queues=queues, concurrency=concurrency, visibility_timeout=visibility_timeout,
            heartbeat_interval=heartbeat_interval, drain_grace=shutdown_grace, max_losses=max_losses,
            worker_id=worker_id, burst=burst, observer=attempts,
        )  # fmt: skip
        need_redis(found.settings)
        schedules = schedules and number in (None, 1)
        if schedules:
            need_tables(found.settings)
        code = process.run(_serve(made, monitor, attempts, schedules=schedules), uvloop=uvloop)
    raise click.exceptions.Exit(code)


def run_fleet(place: str, processes: int, *, burst: bool, reload: bool) -> int:
    """Run this very command in so many processes, anew at each change of the app if asked for; the worst exit code.

    Raises:
        ConfigurationError: what watches files is not installed.
    """
    made = Fleet(this_command(), processes, ends=burst, waits_for_change=reload)
    return asyncio.run(reloading(made, place) if reload else made.run())


async def _serve(made: Worker, monitor: Monitor, attempts: Attempts | None, *, schedules: bool) -> int:
    async with contextlib.AsyncExitStack() as stack:
        beside = None
        if schedules:
            beside = await stack.enter_async_context(scheduling(made.app.settings, SchedulerSettings(), made.app))
        await stack.enter_async_context(watched(made, monitor, attempts, beside))
        await stack.enter_async_context(supervised(made, lambda: made.works))
        receipt = await made.run()
    return conclude(receipt)


def counting(app: App, monitor: Monitor) -> Attempts | None:
    """What counts the attempts of a worker, where somebody asks for its metrics."""
    return Attempts(app.jobs) if monitor.serves_metrics else None


def watched(
    made: Worker, monitor: Monitor, attempts: Attempts | None, beside: Scheduler | None = None
) -> AbstractAsyncContextManager[None]:
    """Inside the block the monitor speaks for this worker, and tells of the scheduler beside it."""

    def tell() -> Iterator[Family]:
        if attempts is not None:
            yield from of_worker(made, attempts)
        if beside is not None:
            yield from of_scheduler(beside)

    return monitor.watching(made, tell)


def need_place(place: str | None, more: str = "") -> str:
    """Where the app is.

    Args:
        more: what else is said where nothing tells.

    Raises:
        click.UsageError: nothing does.
    """
    if not place:
        said = "Missing the app: pass MODULE:APP, such as shop.jobs:app, or set REDISJOBS_APP."
        if Path("manage.py").is_file():
            context = click.get_current_context()
            words = context.command_path.removeprefix(context.find_root().command_path)
            more = (
                f"\nThis is the folder of a Django project, whose own command knows: python manage.py redisjobs{words}"
            )
        raise click.UsageError(f"{said}{more}")
    return place


def find_app(place: str | None) -> App:
    """The app, on the stores that were given here.

    Raises:
        ConfigurationError: there is none there, or the stores cannot work.
    """
    app = load_app(need_place(place))
    app.settings = given().settings(app.settings)
    if not app.jobs:
        event(log, logging.WARNING, "worker.no_jobs", app=place, remedy="import the modules that declare its jobs")
    return app


def _tell_unserved(app: App, queues: list[str]) -> None:
    """Say which queues of the app are left to others, where nobody chose the queues."""
    if click.get_current_context().get_parameter_source("queues") is not ParameterSource.DEFAULT:
        return
    others = sorted({job.queue for job in app.jobs.values()} - set(queues))
    if others:
        event(
            log, logging.WARNING, "worker.queues_unserved", queues=",".join(others),
            remedy=f"--queues {','.join([*queues, *others])}, or a worker of their own",
        )  # fmt: skip


def conclude(receipt: Receipt) -> int:
    """Print the receipt, and see to it that the process ends; its exit code."""
    with contextlib.suppress(OSError, ValueError):  # a body closed stdout, or its reader has gone: the fates stand
        tell(receipt, as_json=(given().log_format or "text").lower() == "json")
    process.end_soon(receipt.exit_code, within=0 if receipt.stuck else process.END_S)
    return receipt.exit_code


def tell(receipt: Receipt, *, as_json: bool) -> None:
    """Print a line for each job that ran when the drain began, and one that counts them and all that ran before."""
    fates = {fate: receipt.count(fate) for fate in ("finished", "handed back", "abandoned")}
    number = member.number()
    if as_json:
        for line in receipt.lines:
            click.echo(json.dumps({"fate": line.fate, "job_id": line.job_id, "job": line.job, "queue": line.queue}))
        done = {"processed": receipt.processed, "failed": receipt.failed, "drained": fates}
        click.echo(json.dumps(done | ({} if number is None else {"process": number})))
        return
    for line in receipt.lines:
        click.echo(f"{line.fate:<11}  {line.job_id}  {printable(line.job)}  {line.queue}")
    who = "" if number is None else f"process {number} "
    life = f"{who}processed {many(receipt.processed, 'attempt')} in its life, {receipt.failed} of them failed"
    click.echo(f"{life}; during the drain: " + ", ".join(f"{count} {fate}" for fate, count in fates.items()))
