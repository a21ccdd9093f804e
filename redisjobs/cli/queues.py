"""`redisjobs queues`: which there are, and pausing one."""

from __future__ import annotations

import click

from redisjobs.call import check_queue
from redisjobs.cli import exits, render
from redisjobs.cli.options import given, json_option, store_options
from redisjobs.cli.status import collect, queue_document
from redisjobs.operator import Operator


@click.group(
    epilog="""\b
Examples:
  redisjobs queues list
  redisjobs queues pause mail      nothing of it starts any more; producers go on committing
  redisjobs queues resume mail"""
)
def queues() -> None:
    """List queues, and pause or resume one."""


@queues.command("list")
@json_option
@store_options
def list_queues(*, as_json: bool) -> None:
    """Every queue that either store knows."""
    report = collect(given().settings())
    for error in report.errors.values():
        raise error
    found = [queue_document(name, report.lines.get(name), report.views.get(name)) for name in report.queues]
    if as_json:
        render.as_json({"queues": found})
        return
    if not found:
        click.echo("no queue yet: enqueue a job, and have a relay running")
        return
    render.table(
        ["queue", "paused", "waiting", "running", "due", "dead", "workers"],
        ([each["queue"], "PAUSED" if each["paused"] else "", each["waiting"], each["running"], each["due"],
          each["dead"], len(each["consumers"] or [])] for each in found),
    )  # fmt: skip


@queues.command()
@click.argument("queue")
@store_options
def pause(*, queue: str) -> None:
    """Start no more jobs of a queue. What runs goes on, and producers go on committing."""
    _set(queue, paused=True)


@queues.command()
@click.argument("queue")
@store_options
def resume(*, queue: str) -> None:
    """Start jobs of a queue again."""
    _set(queue, paused=False)


def _set(queue: str, *, paused: bool) -> None:
    check_queue(queue)
    settings = given().settings()
    with Operator(settings.need_database_url(), settings.schema) as operator:
        known = {line.queue: line for line in operator.queues()}
        if not paused and queue not in known:
            raise exits.Fault(f"no queue {queue!r} has had a job: `redisjobs queues list` names those that have")
        operator.pause(queue, paused=paused)
    click.echo(f"queue {queue} is {'paused' if paused else 'resumed'}")
    if queue not in known:
        click.echo(f"queue {queue} has had no job yet; it will begin paused", err=True)
    elif not known[queue].is_held:
        click.echo("no relay holds it now: this reaches the workers once a relay runs", err=True)
