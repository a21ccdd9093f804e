"""`redisjobs jobs`: which there are, where one stands, and ending one."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import click

from redisjobs.broker.view import Place, View
from redisjobs.cli import exits, render
from redisjobs.cli.options import given, job_id, json_option, store_options
from redisjobs.errors import RedisjobsError
from redisjobs.operator import Failure, JobRow, Operator
from redisjobs.settings import Settings

STATES = (
    "staged", "deferred", "set_aside", "published", "retrying", "snoozed", "suspended", "parked",
    "done", "dead", "cancelled", "deduplicated", "expired",
)  # fmt: skip


@click.group(
    epilog="""\b
Examples:
  redisjobs jobs list --queue mail --state retrying
  redisjobs jobs show 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f
  redisjobs jobs cancel 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f"""
)
def jobs() -> None:
    """List, show and cancel jobs."""


@jobs.command("list")
@click.option("--queue", metavar="NAME", help="Only of this queue.")
@click.option("--job", metavar="NAME", help="Only of this name.")
@click.option("--state", type=click.Choice(STATES), help="Only in this state, as Postgres knows it.")
@click.option("--tenant", metavar="ID", help="Only of this tenant.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@json_option
@store_options
def list_jobs(
    *, queue: str | None, job: str | None, state: str | None, tenant: str | None, limit: int, as_json: bool
) -> None:
    """The youngest jobs that fit. `published` is in Redis: waiting, due soon or running; `jobs show` says which."""
    settings = given().settings()
    with Operator(settings.need_database_url(), settings.schema) as operator:
        found = operator.jobs(queue=queue, job=job, state=state, tenant=tenant, limit=limit)
    if as_json:
        render.as_json({"jobs": found})
        return
    if not found:
        click.echo("no such jobs; those that ended well are kept for the relay's --retention")
        return
    headers = ["id", "job", "queue", "state", "attempts", "tenant", "staged", "ended", "error"]
    render.table(
        headers,
        ([each.id, each.job, each.queue, each.state, each.attempts, each.tenant_id, each.staged_at, each.ended_at,
          render.short(each.error, 60)] for each in found),
    )  # fmt: skip
    if len(found) == limit:
        click.echo(f"the youngest {limit}; --limit shows more", err=True)


@jobs.command("show")
@click.argument("wanted", metavar="ID", type=job_id)
@json_option
@store_options
def show_job(*, wanted: UUID, as_json: bool) -> None:
    """One job, from both stores: its row, its place in Redis, its attempts and errors, who runs it."""
    settings = given().settings()
    with Operator(settings.need_database_url(), settings.schema) as operator:
        row = operator.job(wanted)
    place, trouble = _find_place(settings, wanted, row)
    if row is None and place is None:
        raise exits.Fault(
            unknown(wanted) if trouble is None else f"{unknown(wanted)} Redis could not be asked: {trouble}"
        )
    if as_json:
        render.as_json({"job": row, "redis": place, "redis_error": trouble})
        return
    if row is not None:
        render.facts(_facts(row))
    told = {"in Redis": f"not known: {trouble}" if trouble else _place_words(place), "progress": _progress_words(place)}
    render.facts(told)
    show_failures((row and row.failures) or [])


@jobs.command("cancel")
@click.argument("wanted", metavar="ID…", type=job_id, nargs=-1, required=True)
@json_option
@store_options
def cancel_jobs(*, wanted: tuple[UUID, ...], as_json: bool) -> None:
    """End jobs: waiting ones at once, running ones within about a second. Exit code 1 if one is not known."""
    settings = given().settings()
    with Operator(settings.need_database_url(), settings.schema) as operator:
        words = operator.cancel(wanted)
    if as_json:
        render.as_json({"jobs": [{"id": each, "answer": words[each]} for each in wanted]})
    for each in wanted:
        if words[each] == "unknown":
            click.echo(unknown(each), err=True)
        elif not as_json:
            told = "will be cancelled" if words[each] == "requested" else f"had ended already: {words[each]}"
            click.echo(f"{each} {told}")
    if "unknown" in words.values():
        raise click.exceptions.Exit(exits.FAILED)


def unknown(wanted: UUID) -> str:
    """What is said of an id that Postgres does not know."""
    return (
        f"job {wanted} is not known in this database: its transaction rolled back, it ended longer ago than the "
        "relay's --retention, or it is in another database or --schema."
    )


def show_failures(failures: list[Failure]) -> None:
    """Print every attempt's error, with its time and traceback."""
    for failure in failures:
        click.echo()
        render.heading(f"attempt {failure.get('attempt')} at {failure.get('at')}: {failure.get('type')}")
        click.echo(render.printable(str(failure.get("traceback") or failure.get("message") or "")))


def _find_place(settings: Settings, wanted: UUID, row: JobRow | None) -> tuple[Place | None, str | None]:
    """Where Redis has it, or why that is not known. A job that was put there directly may be in any queue."""
    if settings.redis_url is None:
        return None, "no Redis URL was given"
    try:
        with View(settings.redis_url, settings.prefix) as view:
            names = [row.queue] if row is not None else sorted(view.queues())
            places = (view.place(name, wanted.bytes) for name in names)
            return next((place for place in places if place is not None), None), None
    except RedisjobsError as error:
        return None, str(error)


def _facts(row: JobRow) -> dict[str, Any]:
    told = asdict(row)
    del told["failures"]
    told["cancel_requested"] = "yes" if row.cancel_requested else None
    limit = row.max_attempts or "the job's own limit"
    told["attempts"] = f"{row.attempts} of {limit}" if row.priority is not None else row.attempts
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
    counts = f"{place.starts} starts, {place.attempts} attempts counted, {place.losses} leases lost in a row"
    if place.where == "ended":
        return f"ended, finished by {place.holder}; its outcome is in Postgres or on the way there"
    if place.where == "waiting":
        words = f"waiting for a worker of queue {place.queue}{band}; {counts}"
    elif place.where == "running":
        lease = place.lease_left_s or 0.0
        left = f"its lease ends in {lease:.1f} s unless renewed" if lease > 0 else "its lease has LAPSED"
        words = f"running on {place.holder}, {left}; {counts}"
    else:
        why = "parked, for no worker knew its name; " if place.parked else "suspended; " if place.suspended else ""
        due = place.due_in_s or 0.0
        words = f"{why}due {'in ' + str(render.age(due)) if due > 0 else 'now'}; {counts}"
    words += "; its cancel was asked for" if place.cancel_requested else ""
    return words + (f"; job {place.job}, put there directly, so it has no row in Postgres" if place.direct else "")
