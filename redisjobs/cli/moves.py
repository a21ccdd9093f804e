"""`redisjobs jobs reprioritize` and `reschedule`: another priority or time for jobs that wait, by id or by filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import click

from redisjobs.base.durations import many
from redisjobs.broker.view import View
from redisjobs.call import check_moment
from redisjobs.cli import bulk, chosen, exits, render
from redisjobs.cli.filters import ALL, DRY_RUN, YES, age, filters, some_or_all
from redisjobs.cli.options import given, job_id, json_option, store_options
from redisjobs.cli.placing import no_row
from redisjobs.cli.replay import moment
from redisjobs.cli.schedule_words import utc
from redisjobs.errors import RedisjobsError
from redisjobs.operator import Operator
from redisjobs.search import LIVE, JobFilter
from redisjobs.settings import Settings

AT_ONCE = 100
"""Rows in one transaction: the relay may have to wait for them."""
_STATES = (*LIVE, "waiting", "due", "limited", "behind")
_IN_REDIS = ("published", "retrying", "snoozed", "parked")


@dataclass(frozen=True, slots=True)
class Change:
    """What shall become of jobs.

    Args:
    what: what one of them gets: `priority 5`.
        would: what becomes of several: `get priority 5`.
    """

    what: str
    would: str
    do: Callable[[Operator, Sequence[UUID]], dict[UUID, str]]


@dataclass(frozen=True, slots=True)
class Which:
    """Which jobs a command was told to change, and how to talk about it."""

    ids: tuple[UUID, ...]
    which: JobFilter
    dry_run: bool
    yes: bool
    as_json: bool


@click.command(
    "reprioritize",
    epilog="""\b
Examples:
  redisjobs jobs reprioritize 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f --priority 10
  redisjobs jobs reprioritize --queue mail --tenant acme --priority=-5 --dry-run
  redisjobs jobs reprioritize --job report --state waiting --priority=-1 --yes

\b
Above 0 goes before, below 0 behind the ordinary; a job in Redis goes to the end of its new band, within moments.
What runs or has ended is left as it is. Many are changed in transactions of 100; Ctrl-C tells how far it came.
Exit codes: 0 done, 1 an id is not known, runs or has ended, 130 interrupted.""",
)
@click.argument("wanted", metavar="[ID…]", type=job_id, nargs=-1)
@click.option("--priority", type=click.IntRange(-100, 100), required=True, help="From -100 to 100.")
@filters(states=_STATES)
@ALL
@DRY_RUN
@YES
@json_option
@store_options
def reprioritize_jobs(*, wanted: tuple[UUID, ...], priority: int, which: JobFilter, every: bool, **how: bool) -> None:
    """Give jobs that wait another priority."""
    some_or_all(wanted, which, every=every)
    change = Change(f"priority {priority}", f"get priority {priority}", lambda to, ids: to.reprioritize(ids, priority))
    _carry_out(change, Which(wanted, which, **how))


@click.command(
    "reschedule",
    epilog="""\b
Examples:
  redisjobs jobs reschedule 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f --now
  redisjobs jobs reschedule 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f --at 2030-01-02T03:04:05Z
  redisjobs jobs reschedule --job sync --state retrying --in 30m --dry-run

\b
Of a job whose attempt has failed this is its next attempt; --now is a retry at once. What runs or has ended is left as
it is, and so are durable runs that sleep or wait: their times stand in what they have recorded (redisjobs steps ID).
Many are changed in transactions of 100; Ctrl-C tells how far it came.
Exit codes: 0 done, 1 an id is not known, runs, has ended or is suspended, 130 interrupted.""",
)
@click.argument("wanted", metavar="[ID…]", type=job_id, nargs=-1)
@click.option("--at", "run_at", type=moment, metavar="TIME", help="Not before this moment.")
@click.option("--in", "delay", type=age, metavar="DURATION", help="Not before so long from now: 90s, 5m, 2h, 7d.")
@click.option("--now", is_flag=True, help="As soon as a worker has a free slot.")
@filters(states=_STATES)
@ALL
@DRY_RUN
@YES
@json_option
@store_options
def reschedule_jobs(
    *,
    wanted: tuple[UUID, ...],
    run_at: datetime | None,
    delay: float | None,
    now: bool,
    which: JobFilter,
    every: bool,
    **how: bool,
) -> None:
    """Give jobs that wait another time from which they may start."""
    if [run_at is not None, delay is not None, now].count(True) != 1:
        raise click.UsageError("Say when they may start, by one of --at TIME, --in DURATION and --now.")
    if run_at is not None:
        check_moment("--at", run_at)
    some_or_all(wanted, which, every=every)
    when = "now" if now else f"in {render.age(delay)}" if delay is not None else f"at {utc(run_at)} UTC"
    change = Change(
        f"its start {when}", f"may start {when}", lambda to, ids: to.reschedule(ids, run_at=run_at, delay=delay)
    )
    _carry_out(change, Which(wanted, which, **how))


def _carry_out(change: Change, asked: Which) -> None:
    settings = given().settings()
    if not asked.ids:
        _change_many(settings, change, replace(asked, which=replace(asked.which, flagged=False)))
        return
    if asked.dry_run:
        raise click.UsageError("--dry-run goes with filters; `redisjobs jobs show ID` says where one job stands.")
    with Operator(settings.need_database_url(), settings.schema) as operator:
        held = _running(settings, operator, asked.ids)
        words = change.do(operator, [each for each in asked.ids if each not in held])
    _tell_each(settings, change, asked, words | dict.fromkeys(held, "running"))


def _running(settings: Settings, operator: Operator, wanted: Sequence[UUID]) -> set[UUID]:
    """Those that a worker has; where Redis cannot be asked, the relay finds that out."""
    held = set[UUID]()
    rows = [row for each in wanted if (row := operator.job(each)) is not None and row.state in _IN_REDIS]
    if not rows or settings.redis_url is None:
        return held
    with suppress(RedisjobsError), View(settings.redis_url, settings.prefix) as view:
        for row in rows:
            place = view.place(row.queue, row.id.bytes)
            if place is not None and place.where == "running" and place.life == row.redrives:
                held.add(row.id)
    return held


def _change_many(settings: Settings, change: Change, asked: Which) -> None:
    found = chosen.count(settings, asked.which)
    document: dict[str, Any] = {"fit": found.count, "sample": found.sample, "dry_run": asked.dry_run, "answers": {}}
    if asked.dry_run:
        bulk.tell_sample(found, "job", f"would {change.would}", document if asked.as_json else None)
        return
    bulk.confirm(f"{many(found.count, 'job')} shall {change.would}?", found.count, yes=asked.yes)
    with chosen.ids(settings, asked.which) as ids, Operator(settings.need_database_url(), settings.schema) as operator:
        told = bulk.carry_out(
            "jobs changed", found.count, ids, lambda piece: Counter(change.do(operator, sorted(piece)).values()),
            at_once=AT_ONCE,
        )  # fmt: skip
    if asked.as_json:
        render.as_json(document | {"answers": told})
        return
    done, on_the_way = told.pop("changed", 0), told.pop("requested", 0)
    click.echo(f"{many(done + on_the_way, 'job')} {change.would}")
    if on_the_way:
        click.echo(
            f"{many(on_the_way, 'of them is', 'of them are')} in Redis: changed within moments, unless they start"
        )
    if left := ", ".join(f"{number} {word}" for word, number in sorted(told.items())):
        click.echo(f"left as they are: {left}")


def _tell_each(settings: Settings, change: Change, asked: Which, words: dict[UUID, str]) -> None:
    if asked.as_json:
        render.as_json({"jobs": [{"id": each, "answer": words[each]} for each in asked.ids]})
    for each in asked.ids:
        if words[each] in ("changed", "requested"):
            soon = "" if words[each] == "changed" else " within moments, unless it starts before"
            if not asked.as_json:
                click.echo(f"{each} gets {change.what}{soon}")
        else:
            click.echo(_refusal(settings, each, words[each]), err=True)
    if not {"changed", "requested"}.issuperset(words.values()):
        raise click.exceptions.Exit(exits.FAILED)


def _refusal(settings: Settings, job: UUID, word: str) -> str:
    if word == "unknown":
        return no_row(settings, job)
    if word == "running":
        return f"{job} is left as it is: it runs now (redisjobs jobs show {job}); redisjobs jobs cancel {job} ends it"
    if word == "suspended":
        return (
            f"{job} is left as it is: a durable run that sleeps or waits goes on when what it waits for is there; "
            f"redisjobs explain {job} tells what that is"
        )
    return f"{job} is left as it is: it has ended already ({word})"
