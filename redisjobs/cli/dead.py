"""`redisjobs dead`: jobs that were given up, and what to do with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, TypeVar
from uuid import UUID

import click
import msgpack

from redisjobs.cli import exits, render
from redisjobs.cli.jobs import show_failures
from redisjobs.cli.options import given, job_id, json_option, store_options
from redisjobs.operator import AT_ONCE, DeadFilter, Operator

Function = TypeVar("Function", bound=Callable[..., Any])


@click.group(
    epilog="""\b
Examples:
  redisjobs dead list --job send_mail
  redisjobs dead show 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f --arguments
  redisjobs dead redrive --error "TimeoutError" --dry-run
  redisjobs dead purge --queue mail --yes"""
)
def dead() -> None:
    """List, show, redrive and purge dead letters."""


def _filters(function: Function) -> Function:
    for option in (
        click.option("--error", metavar="TEXT", help="Only where the reason or the last error has this in it."),
        click.option("--job", metavar="NAME", help="Only of this name."),
        click.option("--queue", metavar="NAME", help="Only of this queue."),
    ):
        function = option(function)
    return function


def _choice(function: Function) -> Function:
    for option in (
        click.option("--dry-run", is_flag=True, help="Only say which, and change nothing."),
        click.option("--all", "every", is_flag=True, help="All of them."),
        _filters,
        click.argument("wanted", metavar="[ID…]", type=job_id, nargs=-1),
    ):
        function = option(function)
    return function


@dead.command("list")
@_filters
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@json_option
@store_options
def list_dead(*, queue: str | None, job: str | None, error: str | None, limit: int, as_json: bool) -> None:
    """The youngest dead letters that fit."""
    settings = given().settings()
    with Operator(settings.need_database_url(), settings.schema) as operator:
        found = operator.dead_letters(DeadFilter((), queue, job, error), limit)
    if as_json:
        render.as_json({"dead": found})
        return
    if not found:
        click.echo("no dead letters")
        return
    render.table(
        ["id", "job", "queue", "attempts", "died", "reason", "last error"],
        ([each.id, each.job, each.queue, each.attempts, each.died_at, render.short(each.reason, 60),
          render.short(_error_of(each.failure), 80)] for each in found),
    )  # fmt: skip
    if len(found) == limit:
        click.echo(f"the youngest {limit}; --limit shows more", err=True)


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
    called = _readable(*read) if read else None
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
    click.echo(f"\nredisjobs dead redrive {wanted} runs it again, with fresh attempts", err=True)


@dead.command()
@_choice
@store_options
def redrive(
    *, wanted: tuple[UUID, ...], queue: str | None, job: str | None, error: str | None, every: bool, dry_run: bool
) -> None:
    """Give dead letters a new life: the same ids and arguments, fresh attempts."""
    which = _which(wanted, queue, job, error, every=every)
    settings = given().settings()
    with Operator(settings.need_database_url(), settings.schema) as operator:
        ids = _ids(operator, which)
        if dry_run:
            _tell(ids, "would be redriven")
            return
        done = sum(operator.redrive(piece) for piece in _pieces(ids, "redriving"))
    click.echo(f"{done} dead letters redriven")


@dead.command()
@_choice
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_options
def purge(
    *, wanted: tuple[UUID, ...], queue: str | None, job: str | None, error: str | None, every: bool, dry_run: bool,
    yes: bool,
) -> None:  # fmt: skip
    """Delete dead letters for good."""
    which = _which(wanted, queue, job, error, every=every)
    settings = given().settings()
    with Operator(settings.need_database_url(), settings.schema) as operator:
        ids = _ids(operator, which)
        if dry_run:
            _tell(ids, "would be purged")
            return
        if ids and not yes:
            click.confirm(f"delete {len(ids)} dead letters for good?", abort=True, err=True)
        done = sum(operator.purge(piece) for piece in _pieces(ids, "purging"))
    click.echo(f"{done} dead letters purged")


def _which(wanted: Sequence[UUID], queue: str | None, job: str | None, error: str | None, *, every: bool) -> DeadFilter:
    narrowed = bool(wanted) or any(part is not None for part in (queue, job, error))
    if not narrowed and not every:
        raise click.UsageError("Say which: ids, --queue, --job, --error, or --all.")
    if every and narrowed:
        raise click.UsageError(
            "--all takes all of them: leave out ids, --queue, --job and --error, or leave out --all."
        )
    return DeadFilter(tuple(dict.fromkeys(wanted)), queue, job, error)


def _ids(operator: Operator, which: DeadFilter) -> list[UUID]:
    """The dead letters that fit. An id that was named and is none of them ends the command before anything is done."""
    ids = operator.dead_ids(which)
    lacking = [each for each in which.ids if each not in set(ids)]
    if lacking:
        raise exits.Fault(f"nothing was changed: {_not_dead(lacking)}")
    return ids


def _not_dead(ids: Sequence[UUID]) -> str:
    return (
        f"no dead letter {', '.join(map(str, ids))} fits: it was redriven or purged, or never died; "
        "`redisjobs jobs show ID` says where it is"
    )


def _pieces(ids: Sequence[UUID], what: str) -> Iterator[Sequence[UUID]]:
    """In pieces of a transaction each, with a bar on stderr where there are several."""
    pieces = [ids[first : first + AT_ONCE] for first in range(0, len(ids), AT_ONCE)]
    if len(pieces) < 2:
        yield from pieces
        return
    with click.progressbar(length=len(ids), label=what, file=sys.stderr) as bar:
        for piece in pieces:
            yield piece
            bar.update(len(piece))


def _tell(ids: Sequence[UUID], what: str) -> None:
    for each in ids:
        click.echo(str(each))
    click.echo(f"{len(ids)} dead letters {what}; nothing was changed", err=True)


def _error_of(failure: dict[str, Any] | None) -> str | None:
    return f"{failure.get('type')}: {failure.get('message')}" if failure else None


def _readable(text: str | None, payload: bytes | None, codec: str | None) -> object:
    """Arguments as far as they can be read without the app."""
    try:
        if text is not None:
            return json.loads(text)
        if codec == "json" and payload is not None:
            return json.loads(payload)
        if codec == "msgpack" and payload is not None:
            return msgpack.unpackb(payload, strict_map_key=False)
    except ValueError:
        return f"(cannot be read as {codec or 'json'})"
    return f"({len(payload or b'')} bytes of codec {codec})"
