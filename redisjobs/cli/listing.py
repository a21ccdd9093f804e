"""`redisjobs jobs list`: which jobs there are, by what is known of them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import click

from redisjobs.broker.view import View
from redisjobs.cli import bulk, exits, pages, render
from redisjobs.cli.filters import AFTER, COUNT, LIMIT, LINES, filters
from redisjobs.cli.options import given, json_option, store_options
from redisjobs.operator import JobLine
from redisjobs.search import STATES, JobFilter, Placed, Search
from redisjobs.settings import Settings


@click.command(
    "list",
    epilog="""\b
Examples:
  redisjobs jobs list --queue mail --state retrying --error Timeout
  redisjobs jobs list --state running --queue mail       what Redis alone knows: running, waiting, due
  redisjobs jobs list --tenant acme --older-than 1h --count
  redisjobs jobs list --limit 1000 --jsonl | jq -r .id
  redisjobs jobs list --after 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f   the next page

\b
The youngest come first, by their ids; what waits, runs or is due in the order in which it starts.
In Postgres a job is `published` while it waits, runs or is due soon.""",
)
@filters(states=STATES)
@LIMIT
@AFTER
@COUNT
@LINES
@json_option
@store_options
def list_jobs(
    *, which: JobFilter, limit: int, after: UUID | None, only_count: bool, as_lines: bool, as_json: bool
) -> None:
    """The jobs that fit, from both stores. Every look is bounded, so that a busy system does not feel it."""
    settings = given().settings()
    if only_count:
        _tell_count(_count(settings, which), as_json=as_json)
        return
    with lines(settings, which, after=after, page=limit + 1) as found, bulk.looking():
        page = list(itertools.islice(found, limit + 1))
    pages.tell("jobs", page[:limit], _COLUMNS, _NOTHING, more=len(page) > limit, as_json=as_json, as_lines=as_lines)


@contextmanager
def lines(
    settings: Settings, which: JobFilter, *, after: UUID | None = None, page: int = 1000, rows_only: bool = False
) -> Generator[Iterator[JobLine]]:
    """The jobs that fit, one after the other, for as long as the block lasts."""
    with Search(settings.need_database_url(), settings.schema) as search:
        if which.where is None:
            yield _looked_up(search, search.jobs(which, after=after, page=min(page, 1000)), min(page, 1000))
            return
        with View(settings.need_redis_url(), settings.prefix) as view:
            placed = Placed(view, search).jobs(which, rows_only=rows_only)
            found = (dataclasses.replace(each, state=which.where) for each in placed)
            yield found if after is None else _behind(found, after, which.where)


def _count(settings: Settings, which: JobFilter) -> int:
    if which.where is not None:
        with lines(settings, which) as found:
            return bulk.count(each.id for each in found).count
    with Search(settings.need_database_url(), settings.schema) as search, bulk.looking():
        return search.count_jobs(which)


def _looked_up(search: Search, ids: Iterable[UUID], size: int) -> Generator[JobLine]:
    for piece in bulk.in_pieces(ids, size):
        yield from search.lines(piece)


def _behind(found: Iterator[JobLine], after: UUID, where: str) -> Generator[JobLine]:
    """What comes behind a job in an order that only Redis knows."""
    for each in found:
        if each.id == after:
            yield from found
            return
    raise exits.Fault(f"job {after} is not {where} any more, so nothing is known to come behind it: leave --after out")


def _tell_count(count: int, *, as_json: bool) -> None:
    if as_json:
        render.as_json({"count": count})
    else:
        click.echo(count)


_NOTHING = "no such jobs; those that ended well are kept for the relay's --retention"
_COLUMNS: dict[str, Callable[[JobLine], Any]] = {
    "id": lambda each: each.id,
    "job": lambda each: each.job,
    "queue": lambda each: each.queue,
    "state": lambda each: each.state,
    "attempts": lambda each: each.attempts,
    "tenant": lambda each: each.tenant_id,
    "staged": lambda each: each.staged_at,
    "ended": lambda each: each.ended_at,
    "error": lambda each: render.short(each.error, 60),
}
