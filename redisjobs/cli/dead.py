"""`redisjobs dead`: jobs that were given up, and what to do with them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

import click

from redisjobs.base.durations import many
from redisjobs.cli import bulk, exits, pages, render
from redisjobs.cli.filters import AFTER, ALL, COUNT, DRY_RUN, LIMIT, LINES, YES, filters, some_or_all
from redisjobs.cli.hints import hint
from redisjobs.cli.jobs import show_failures
from redisjobs.cli.options import given, job_id, json_option, store_options
from redisjobs.cli.replay import replay
from redisjobs.cli.values import readable
from redisjobs.operator import AT_ONCE, DeadLetter, Operator
from redisjobs.search import JobFilter, Search
from redisjobs.settings import Settings


@click.group(
    epilog="""\b
Examples:
  redisjobs dead list --job send_mail
  redisjobs dead show 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f --arguments
  redisjobs dead redrive --error "TimeoutError" --dry-run
  redisjobs dead replay --rate 50/s --queue mail
  redisjobs dead purge --queue mail --older-than 30d --yes"""
)
def dead() -> None:
    """List, show, redrive, replay and purge dead letters."""


dead.add_command(replay)


@dead.command(
    "list",
    epilog="""\b
Examples:
  redisjobs dead list --error TimeoutError --newer-than 1h
  redisjobs dead list --queue mail --count
  redisjobs dead list --limit 1000 --jsonl | jq -r .reason | sort | uniq -c""",
)
@filters(age_of="died")
@LIMIT
@AFTER
@COUNT
@LINES
@json_option
@store_options
def list_dead(
    *, which: JobFilter, limit: int, after: UUID | None, only_count: bool, as_lines: bool, as_json: bool
) -> None:
    """The youngest dead letters that fit."""
    settings = given().settings()
    with Search(settings.need_database_url(), settings.schema) as search:
        if only_count:
            with bulk.looking():
                number = search.count_deaths(which)
            render.as_json({"count": number}) if as_json else click.echo(number)
            return
        place = search.place_of(after) if after else None
        if after and place is None:
            raise exits.Fault(f"{_not_dead([after])}. Leave --after out, and begin anew")
        with bulk.looking():
            found = search.dead_letters(which, limit + 1, place)
    more = len(found) > limit
    pages.tell("dead", found[:limit], _COLUMNS, "no dead letters", more=more, as_json=as_json, as_lines=as_lines)


_COLUMNS: dict[str, Callable[[DeadLetter], Any]] = {
    "id": lambda each: each.id,
    "job": lambda each: each.job,
    "queue": lambda each: each.queue,
    "attempts": lambda each: each.attempts,
    "died": lambda each: each.died_at,
    "reason": lambda each: render.short(each.reason, 60),
    "last error": lambda each: render.short(_error_of(each.failure), 80),
}


@dead.command("show")
@click.argument("wanted", metavar="ID", type=job_id)
@click.option("--arguments", is_flag=True, help="What it was called with; left out else, for it may be private.")
@json_option
@store_options
def show_dead(*, wanted: UUID, arguments: bool, as_json: bool) -> None:
    """One dead letter: why, and every attempt's error with its traceback and time."""
    settings = given().settings()
    with Operator(settings.need_database_url(), settings.schema) as operator:
        row = operator.job(wanted)
        if row is None or row.state != "dead":
            raise exits.Fault(_not_dead([wanted]))
        read = operator.arguments(wanted) if arguments else None
    called = _called(*read) if read else None
    if as_json:
        render.as_json({"dead": asdict(row)} | ({"arguments": called} if arguments else {}))
        return
    told = {name.replace("_", " "): value for name, value in asdict(row).items() if name not in ("failures", "state")}
    del told["cancel requested"]
    render.facts({"reason": told.pop("error"), "died at": told.pop("ended at")} | told)
    show_failures(row.failures or [])
    if arguments:
        click.echo()
        render.heading("arguments")
        click.echo(render.printable(json.dumps(called, ensure_ascii=False, indent=2, default=str)))
    click.echo(hint(f"\nredisjobs dead redrive {wanted} runs it again, with fresh attempts"), err=True)


@dead.command(
    epilog="""\b
Examples:
  redisjobs dead redrive 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f
  redisjobs dead redrive --job send_mail --error TimeoutError --dry-run
  redisjobs dead redrive --all --yes

\b
In transactions of 500. Ctrl-C tells how far it came; the same command goes on with the rest. What dies after
it began is left alone, and so is what another operator has redriven meanwhile.
Exit codes: 0 done, 1 an id is no dead letter, 130 interrupted.""",
)
@click.argument("wanted", metavar="[ID…]", type=job_id, nargs=-1)
@filters(age_of="died")
@ALL
@DRY_RUN
@YES
@json_option
@store_options
def redrive(
    *, wanted: tuple[UUID, ...], which: JobFilter, every: bool, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Give dead letters a new life: the same ids and arguments, fresh attempts."""
    some_or_all(wanted, which, every=every)
    settings = given().settings()
    found = _find(settings, wanted, which)
    if dry_run:
        bulk.tell_sample(found, "dead letter", "would be redriven", _document(found, 0, dry_run=True, wanted=as_json))
        return
    bulk.confirm(f"redrive {many(found.count, 'dead letter')}?", found.count, yes=yes)
    with Operator(settings.need_database_url(), settings.schema) as operator:
        done = _carry_out("redriven", operator.redrive, settings, wanted or which, found.count)
    _tell_done(found, done, "redriven", as_json=as_json)


@dead.command(
    epilog="""\b
Examples:
  redisjobs dead purge 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f
  redisjobs dead purge --older-than 90d --dry-run
  redisjobs dead purge --queue mail --yes

\b
As `dead redrive`: in transactions of 500, can be interrupted and repeated. What is purged is gone for good."""
)
@click.argument("wanted", metavar="[ID…]", type=job_id, nargs=-1)
@filters(age_of="died")
@ALL
@DRY_RUN
@YES
@json_option
@store_options
def purge(*, wanted: tuple[UUID, ...], which: JobFilter, every: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete dead letters for good."""
    some_or_all(wanted, which, every=every)
    settings = given().settings()
    found = _find(settings, wanted, which)
    if dry_run:
        bulk.tell_sample(found, "dead letter", "would be purged", _document(found, 0, dry_run=True, wanted=as_json))
        return
    bulk.confirm(f"delete {many(found.count, 'dead letter')} for good?", found.count, yes=yes, always=True)
    with Operator(settings.need_database_url(), settings.schema) as operator:
        done = _carry_out("purged", operator.purge, settings, wanted or which, found.count)
    _tell_done(found, done, "purged", as_json=as_json)


def _find(settings: Settings, wanted: Sequence[UUID], which: JobFilter) -> bulk.Found:
    """What fits. An id that was named and is no dead letter ends the command before anything is done."""
    if not wanted:
        with Search(settings.need_database_url(), settings.schema) as search:
            return bulk.count((each for _, each in search.deaths(which)), lambda: search.count_deaths(which))
    with Operator(settings.need_database_url(), settings.schema) as operator:
        ids = operator.dead_among(wanted)
    lacking = [each for each in wanted if each not in set(ids)]
    if lacking:
        raise exits.Fault(f"nothing was changed: {_not_dead(lacking)}")
    return bulk.count(ids)


def _carry_out(
    what: str, do: Callable[..., int], settings: Settings, which: Sequence[UUID] | JobFilter, total: int
) -> int:
    """Do it with all that fit; answers with how many it was done."""
    with Search(settings.need_database_url(), settings.schema) as search:
        ids = (each for _, each in search.deaths(which)) if isinstance(which, JobFilter) else dict.fromkeys(which)
        told = bulk.carry_out(
            f"dead letters {what}", total, ids, lambda piece: Counter({what: do(piece, search.began)}), at_once=AT_ONCE
        )
    return told[what]


def _tell_done(found: bulk.Found, done: int, what: str, *, as_json: bool) -> None:
    if as_json:
        render.as_json(_document(found, done, dry_run=False, wanted=True))
        return
    click.echo(f"{many(done, 'dead letter')} {what}")
    if done < found.count:
        others = many(found.count - done, "was not dead any more", "were not dead any more")
        click.echo(f"{others}: somebody else got there first", err=True)


def _document(found: bulk.Found, done: int, *, dry_run: bool, wanted: bool) -> dict[str, Any] | None:
    return {"fit": found.count, "sample": found.sample, "dry_run": dry_run, "done": done} if wanted else None


def _not_dead(ids: Sequence[UUID]) -> str:
    return (
        f"no dead letter {', '.join(map(str, ids))}: it was redriven or purged, or never died; "
        "`redisjobs jobs show ID` says where it is"
    )


def _error_of(failure: dict[str, Any] | None) -> str | None:
    return f"{failure.get('type')}: {failure.get('message')}" if failure else None


def _called(text: str | None, payload: bytes | None, codec: str | None) -> object:
    """Arguments as far as they can be read without the app."""
    return readable("json", text.encode()) if text is not None else readable(codec, payload)
