"""`redisjobs jobs cancel`: ends jobs, by id or by what is known of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import click

from redisjobs.base.durations import many
from redisjobs.cli import bulk, chosen, exits, render
from redisjobs.cli.filters import ALL, DRY_RUN, YES, filters, some_or_all
from redisjobs.cli.options import given, job_id, json_option, store_options
from redisjobs.cli.placing import no_row
from redisjobs.operator import Operator
from redisjobs.search import IN_REDIS, LIVE, JobFilter
from redisjobs.settings import Settings

AT_ONCE = 100
"""Rows in one transaction: the relay may have to wait for them."""


@click.command(
    "cancel",
    epilog="""\b
Examples:
  redisjobs jobs cancel 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f
  redisjobs jobs cancel --queue mail --tenant acme --dry-run
  redisjobs jobs cancel --job send_mail --state waiting --yes

\b
Many are cancelled in transactions of 100. Ctrl-C tells how far it came; the same command goes on with the rest.
What is committed after it began is left alone. A job that was put into Redis directly has no row, and cannot be
cancelled, neither by filters nor by its id.
Exit codes: 0 done, 1 an id is not known, 130 interrupted.""",
)
@click.argument("wanted", metavar="[ID…]", type=job_id, nargs=-1)
@filters(states=(*LIVE, *IN_REDIS))
@ALL
@DRY_RUN
@YES
@json_option
@store_options
def cancel_jobs(
    *, wanted: tuple[UUID, ...], which: JobFilter, every: bool, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """End jobs: waiting ones at once, running ones within about a second."""
    some_or_all(wanted, which, every=every)
    settings = given().settings()
    if not wanted:
        _cancel_many(settings, replace(which, flagged=False), dry_run=dry_run, yes=yes, as_json=as_json)
        return
    if dry_run:
        raise click.UsageError("--dry-run goes with filters; `redisjobs jobs show ID` says where one job stands.")
    with Operator(settings.need_database_url(), settings.schema) as operator:
        words = operator.cancel(wanted)
    _tell_each(settings, wanted, words, as_json=as_json)


def _cancel_many(settings: Settings, which: JobFilter, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    found = chosen.count(settings, which)
    document: dict[str, Any] = {"fit": found.count, "sample": found.sample, "dry_run": dry_run, "answers": {}}
    if dry_run:
        bulk.tell_sample(found, "job", "would be cancelled", document if as_json else None)
        return
    bulk.confirm(f"cancel {many(found.count, 'job')}?", found.count, yes=yes)
    with chosen.ids(settings, which) as ids, Operator(settings.need_database_url(), settings.schema) as operator:
        told = bulk.carry_out(
            "jobs asked to end", found.count, ids, lambda piece: _cancel(operator, piece), at_once=AT_ONCE
        )
    if as_json:
        render.as_json(document | {"answers": told})
        return
    asked = told.pop("requested", 0)
    click.echo(f"{many(asked, 'job')} will be cancelled")
    if told:
        ended = ", ".join(f"{number} {word}" for word, number in sorted(told.items()))
        click.echo(f"{many(told.total(), 'job')} ended meanwhile: {ended}")


def _cancel(operator: Operator, ids: list[UUID]) -> Counter[str]:
    """In the order of their ids, in which the relay locks most rows too."""
    return Counter(operator.cancel(sorted(ids)).values())


def _tell_each(settings: Settings, wanted: Sequence[UUID], words: dict[UUID, str], *, as_json: bool) -> None:
    if as_json:
        render.as_json({"jobs": [{"id": each, "answer": words[each]} for each in wanted]})
    for each in wanted:
        if words[each] == "unknown":
            click.echo(no_row(settings, each), err=True)
        elif not as_json:
            told = "will be cancelled" if words[each] == "requested" else f"had ended already: {words[each]}"
            click.echo(f"{each} {told}")
    if "unknown" in words.values():
        raise click.exceptions.Exit(exits.FAILED)
