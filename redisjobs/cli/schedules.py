"""`redisjobs schedules`: which there are, when they are due, and changing them."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import click

from redisjobs.base.ids import new_id
from redisjobs.call import Call, check_job, check_queue
from redisjobs.cli import exits, render
from redisjobs.cli import schedule_words as words
from redisjobs.cli.options import duration, given, json_option, store_options
from redisjobs.cli.replay import moment
from redisjobs.forecast import after_outage, forecast
from redisjobs.schedules import Schedule
from redisjobs.timetable import Line, Timetable
from redisjobs.timing import Timing

FAR = timedelta(days=60 * 366)
MOST = 1000
"""Occurrences that are told at most."""


@click.group(
    epilog="""\b
Examples:
  redisjobs schedules list
  redisjobs schedules next nightly --count 10      local and UTC times; changes of the clocks are marked
  redisjobs schedules explain nightly --from 2026-03-28 --to 2026-03-30
  redisjobs schedules create ping ping --every 30s
  redisjobs schedules create nightly report --cron '0 3 * * *' --zone Europe/Berlin --input '{"region": "eu"}'
  redisjobs schedules pause nightly
  redisjobs schedules trigger nightly              once, now"""
)
def schedules() -> None:
    """List schedules, tell when they are due, and change them."""


@schedules.command("list")
@json_option
@store_options
def list_schedules(*, as_json: bool) -> None:
    """Every schedule, with its next run."""
    with _timetable() as table:
        lines = table.lines()
    if as_json:
        render.as_json({"schedules": [words.document(line) for line in lines]})
        return
    if not lines:
        click.echo("no schedule yet: declare one with @app.schedule, or `redisjobs schedules create`")
        return
    render.table(
        ["name", "job", "queue", "when", "zone", "next run (UTC)", "last (UTC)", "dispatches", ""],
        ([line.name, line.job, line.queue, words.when(line), line.zone, words.utc(line.next_run),
          words.utc(line.last_occurrence),
          line.dispatches, words.state(line)] for line in lines),
    )  # fmt: skip
    if any(line.is_overdue for line in lines):
        click.echo("some are overdue: is a scheduler running? redisjobs scheduler, or worker --scheduler", err=True)


@schedules.command("next")
@click.argument("name")
@click.option("--count", "-n", type=click.IntRange(1, MOST), default=10, show_default=True, help="So many occurrences.")
@click.option("--from", "since", type=moment, metavar="TIME", help="Later than this; by default than now.")
@json_option
@store_options
def next_occurrences(*, name: str, count: int, since: datetime | None, as_json: bool) -> None:
    """The next occurrences, in the schedule's zone and in UTC."""
    with _timetable() as table:
        line = _found(table.line(name), name)
    begin = since or line.now.astimezone(UTC)
    ahead = list(islice(forecast(line.name, line.timing(), begin, begin + FAR), count))
    if as_json:
        render.as_json(
            {"schedule": name, "zone": line.zone, "enabled": line.enabled, "next": [words.told(a) for a in ahead]}
        )
        return
    words.show(ahead, line.zone)
    if not line.enabled:
        click.echo("it is paused: nothing is dispatched", err=True)


@schedules.command()
@click.argument("name")
@click.option("--from", "since", type=moment, metavar="TIME", help="By default now.")
@click.option("--to", "until", type=moment, metavar="TIME", help="By default a day after --from.")
@json_option
@store_options
def explain(*, name: str, since: datetime | None, until: datetime | None, as_json: bool) -> None:
    """What would be dispatched in a stretch of time, and why; and what if no scheduler ran in it."""
    with _timetable() as table:
        line = _found(table.line(name), name)
    begin = since or line.now.astimezone(UTC)
    end = until or begin + timedelta(days=1)
    if end <= begin:
        raise click.BadParameter(f"--to ({end.isoformat()}) is not later than --from ({begin.isoformat()}).")
    timing = line.timing()
    ahead = list(islice(forecast(line.name, timing, begin, end), MOST))
    outage = after_outage(line.name, timing, begin, end)
    if as_json:
        render.as_json({"schedule": words.document(line), "from": begin, "to": end,
                        "occurrences": [words.told(each) for each in ahead],
                        "after_an_outage": outage})  # fmt: skip
        return
    for sentence in words.sentences(line, timing):
        click.echo(sentence)
    click.echo(f"\n{len(ahead)} occurrences after {words.utc(begin)} UTC, up to {words.utc(end)} UTC:")
    words.show(ahead, line.zone)
    click.echo("\nIf no scheduler ran in all that time, the first to come would dispatch:")
    for each in outage:
        click.echo(f"  {each}")


@schedules.command()
@click.argument("name")
@store_options
def pause(*, name: str) -> None:
    """Dispatch no more of it, also where an app's code declares it."""
    with _timetable() as table:
        _need(name, known=table.pause(name))
    click.echo(f"schedule {name} is paused")


@schedules.command()
@click.argument("name")
@store_options
def resume(*, name: str) -> None:
    """Go on from now; what came due during the pause is not made up for."""
    with _timetable() as table:
        _need(name, known=table.pause(name, paused=False))
    click.echo(f"schedule {name} goes on")


@schedules.command()
@click.argument("name")
@store_options
def trigger(*, name: str) -> None:
    """Ask for its job once, now and beside its occurrences; prints the job's id."""
    with _timetable() as table:
        job_id = table.trigger(name)
    _need(name, known=job_id is not None)
    click.echo(str(job_id))


@schedules.command()
@click.argument("name")
@store_options
def delete(*, name: str) -> None:
    """Take it away; jobs that it has asked for go on."""
    with _timetable() as table:
        line = _found(table.line(name), name)
        table.delete(name)
    click.echo(f"schedule {name} is deleted")
    if line.declared_by is not None:
        click.echo(f"a scheduler of the app {line.declared_by} makes it again when it starts, if its code still has it",
                   err=True)  # fmt: skip


@schedules.command()
@click.argument("name")
@click.argument("job")
@click.option("--cron", metavar="EXPRESSION", help="Five fields, or six with the second in front.")
@click.option("--every", type=duration, metavar="DURATION", help="An even interval instead.")
@click.option("--zone", default="UTC", show_default=True, help="Whose clocks --cron means.")
@click.option("--input", "arguments", default="{}", show_default=True, metavar="JSON", help="The job's arguments.")
@click.option("--queue", default="default", show_default=True, metavar="NAME", help="Where the jobs go.")
@click.option("--starts-at", type=moment, metavar="TIME", help="Nothing is due before it.")
@click.option("--ends-at", type=moment, metavar="TIME", help="Nothing is due after it.")
@click.option("--jitter", type=duration, default="0", show_default=True, help="Jobs start up to so much later.")
@click.option(
    "--catch-up", type=click.Choice(["skip", "run_once", "run_all"]), default="skip", show_default=True,
    help="After an outage: the latest missed occurrence, one job for all, or each.",
)  # fmt: skip
@click.option("--max-catch-up", type=int, default=10, show_default=True, metavar="N", help="Of run_all, in one round.")
@click.option("--misfire-grace", type=duration, help="What is later than this is passed over.")
@click.option(
    "--overlap", type=click.Choice(["allow", "skip", "cancel"]), default="allow", show_default=True,
    help="While the last job lives: go on, pass over, or cancel that job.",
)  # fmt: skip
@click.option("--paused", is_flag=True, help="Make it paused.")
@store_options
def create(*, name: str, job: str, arguments: str, queue: str, paused: bool, **when: Any) -> None:
    """Make a schedule, or change the one of this name."""
    payload = _arguments(arguments)
    call: Call[Any] = Call(new_id(), check_job(job), check_queue(queue), "json", payload)
    made = Schedule(name, call, Timing(**when), enabled=False if paused else None)
    with _timetable() as table:
        changed = table.create(made)
    click.echo(f"schedule {name} is {'there' if changed else 'there already, as it was asked for'}")


@contextmanager
def _timetable() -> Generator[Timetable]:
    settings = given().settings()
    with Timetable(settings.need_database_url(), settings.schema) as table:
        yield table


def _found(line: Line | None, name: str) -> Line:
    _need(name, known=line is not None)
    assert line is not None  # noqa: S101 - told just now
    return line


def _need(name: str, *, known: bool) -> None:
    if not known:
        raise exits.Fault(f"no schedule {name!r}: `redisjobs schedules list` names those that there are")


def _arguments(text: str) -> bytes:
    try:
        if isinstance(json.loads(text), (dict, list)):
            return text.encode()
    except ValueError:
        pass
    raise click.BadParameter(
        f"--input {text[:60]!r} is no JSON object: pass the job's arguments, such as '{{\"a\": 1}}'."
    )
