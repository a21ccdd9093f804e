"""`redisjobs jobs`: which there are, where one stands, ending one, and changing when it runs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import click

from redisjobs.base.durations import many
from redisjobs.broker.view import Place
from redisjobs.cli import exits, records, render
from redisjobs.cli.cancel import cancel_jobs
from redisjobs.cli.listing import list_jobs
from redisjobs.cli.moves import reprioritize_jobs, reschedule_jobs
from redisjobs.cli.options import given, job_id, json_option, store_options, unknown
from redisjobs.cli.placing import find_place
from redisjobs.lineage import Known, Lineage
from redisjobs.operator import Failure, JobRow, Operator
from redisjobs.settings import Settings
from redisjobs.steps import StepRecord

LEVELS = 3
"""Children of children of children are shown, and no more."""


@click.group(
    epilog="""\b
Examples:
  redisjobs jobs list --queue mail --state retrying
  redisjobs jobs show 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f
  redisjobs jobs cancel 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f
  redisjobs jobs cancel --job send_mail --older-than 1h --dry-run
  redisjobs jobs reprioritize --tenant acme --priority=-5
  redisjobs jobs reschedule 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f --now"""
)
def jobs() -> None:
    """List, show, cancel, reprioritize and reschedule jobs."""


jobs.add_command(list_jobs)
jobs.add_command(cancel_jobs)
jobs.add_command(reprioritize_jobs)
jobs.add_command(reschedule_jobs)


@jobs.command("show")
@click.argument("wanted", metavar="ID", type=job_id)
@json_option
@store_options
def show_job(*, wanted: UUID, as_json: bool) -> None:
    """One job, from both stores: its row, its place in Redis, its steps, its attempts and errors, who runs it."""
    settings = given().settings()
    with Operator(settings.need_database_url(), settings.schema) as operator:
        row = operator.job(wanted)
    family, jobs = _family(settings, wanted)
    place, trouble = find_place(settings, wanted, row)
    if row is None and place is None:
        raise exits.Fault(
            unknown(wanted) if trouble is None else f"{unknown(wanted)} Redis could not be asked: {trouble}"
        )
    if as_json:
        steps = [records.document(each, jobs, values=False) for each in family[wanted]]
        render.as_json({"job": row, "redis": place, "redis_error": trouble, "steps": steps})
        return
    if row is not None:
        render.facts(_facts(row))
    told = {"in Redis": f"not known: {trouble}" if trouble else _place_words(place), "progress": _progress_words(place)}
    render.facts(told)
    if family[wanted]:
        click.echo()
        records.tree(wanted, family, jobs)
    show_failures((row and row.failures) or [])


def _family(settings: Settings, run: UUID) -> tuple[dict[UUID, list[StepRecord]], dict[UUID, Known]]:
    """The records of a durable run and of its children, and which jobs these are."""
    with Lineage(settings.need_database_url(), settings.schema) as lineage:
        family = lineage.family(run, depth=LEVELS)
        children = [each.child for listed in family.values() for each in listed if each.child]
        return family, lineage.jobs(children) if children else {}


def show_failures(failures: list[Failure]) -> None:
    """Print every attempt's error, with its time and traceback."""
    for failure in failures:
        click.echo()
        render.heading(f"attempt {failure.get('attempt')} at {failure.get('at')}: {failure.get('type')}")
        click.echo(render.printable(str(failure.get("traceback") or failure.get("message") or "")))


def _facts(row: JobRow) -> dict[str, Any]:
    told = asdict(row)
    del told["failures"]
    told["cancel_requested"] = "yes" if row.cancel_requested else None
    limit = row.max_attempts or "the job's own limit"
    told["attempts"] = f"{row.attempts} of {limit}" if row.priority is not None else row.attempts
    if earlier := told.pop("earlier_error"):
        told["attempts"] = f"{told['attempts']}; an earlier one failed: {earlier}"
    told["made_at"] = row.made_at if row.redrives else None
    told["priority"] = row.priority or None
    told["redrives"] = row.redrives or None
    del told["max_attempts"]
    return {name.replace("_", " "): value for name, value in told.items()}


def _progress_words(place: Place | None) -> str | None:
    progress = place and place.progress
    if not place or not progress:
        return None
    at = progress.at or datetime.now(UTC)
    told = render.printable(f"{progress}; told {render.age(max(0.0, (datetime.now(UTC) - at).total_seconds()))} ago")
    return told + ("" if progress.start == place.starts else ", by an earlier attempt")


def _place_words(place: Place | None) -> str:
    if place is None:
        return "no"
    band = f", {('high', 'normal', 'low')[place.band]} band" if place.band not in (None, 1) else ""
    counts = ", ".join((
        many(place.starts, "start"), many(place.attempts, "attempt counted", "attempts counted"),
        many(place.losses, "lease lost in a row", "leases lost in a row"),
    ))  # fmt: skip
    if place.where == "ended":
        return f"ended, finished by {place.holder}; its outcome is in Postgres or on the way there"
    if place.where == "waiting":
        words = f"waiting for a worker of queue {place.queue}{band}; {counts}"
    elif place.where == "running":
        lease = place.lease_left_s or 0.0
        left = f"its lease ends in {lease:.1f} s unless renewed" if lease > 0 else "its lease has LAPSED"
        words = f"running on {place.holder}, {left}; {counts}"
    elif place.where == "limited":
        again = render.age(max(0.0, place.due_in_s or 0.0))
        words = f"waits for a limit (redisjobs explain tells which), and asks by itself in {again}; {counts}"
    elif place.where == "behind":
        head = f"job {place.head}, which goes first" if place.head else "a job that Redis has lost"
        words = f"waits in lane {place.lane!r} for {head}; {counts}"
    else:
        why = "parked, for no worker knew its name; " if place.parked else ""
        due = place.due_in_s or 0.0
        words = f"{why}due {'in ' + str(render.age(due)) if due > 0 else 'now'}; {counts}"
    words += "; its cancel was asked for" if place.cancel_requested else ""
    return words + (f"; job {place.job}, put there directly, so it has no row in Postgres" if place.direct else "")
