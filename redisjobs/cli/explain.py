"""`redisjobs explain`: where a job is, why it does not run, and what happens next."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any
from uuid import UUID

import click

from redisjobs.cli import exits, render
from redisjobs.cli.hints import hint
from redisjobs.cli.options import given, job_id, json_option, store_options
from redisjobs.explain import Explanation, Facts, gather
from redisjobs.explain import explain as explanation_of


@click.command(
    epilog="""\b
Examples:
  redisjobs explain 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f
  redisjobs explain 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f --json | jq -r .next

\b
Only reads, with a login that may SELECT, and shows no arguments.
Exit codes: 0 explained, 1 no store knows the job, 69 a store does not answer (what the other knows is shown),
78 wrong configuration, or the tables are missing."""
)
@click.argument("wanted", metavar="ID", type=job_id)
@json_option
@store_options
def explain(*, wanted: UUID, as_json: bool) -> None:
    """Why a job is where it is, and what happens next."""
    facts = gather(given().settings(), wanted)
    if len(facts.errors) == 2:
        raise facts.errors["postgres"]
    told = _hinted(explanation_of(facts))
    if as_json:
        render.as_json(document(told, facts))
    else:
        show(told)
    for error in facts.errors.values():
        raise click.exceptions.Exit(exits.code_of(error))
    if told.place == "unknown":
        raise click.exceptions.Exit(exits.FAILED)


def _hinted(told: Explanation) -> Explanation:
    reasons = [replace(each, remedy=hint(each.remedy) if each.remedy else None) for each in told.reasons]
    return replace(told, reasons=reasons, next=hint(told.next), commands=[hint(each) for each in told.commands])


def document(told: Explanation, facts: Facts) -> dict[str, Any]:
    """The explanation as JSON; its keys are stable, its sentences are not."""
    return {
        "id": told.id, "job": told.job, "queue": told.queue, "place": told.place, "where": told.where,
        "reasons": told.reasons, "next": told.next, "commands": told.commands, "notes": told.notes,
        "postgres": facts.row, "redis": facts.trace,
        "errors": {store: str(error) for store, error in facts.errors.items()},
    }  # fmt: skip


def show(told: Explanation) -> None:
    """The explanation as paragraphs."""
    of = f" ({told.job}, queue {told.queue})" if told.queue else ""
    render.heading(f"job {told.id}{of}: {told.place.replace('_', ' ')}")
    parts = [("where", [told.where]), ("why", [each.text for each in told.reasons]), ("next", [told.next]),
             ("do", told.commands), ("note", told.notes)]  # fmt: skip
    for name, lines in parts:
        for number, line in enumerate(lines):
            first = f"  {name:<6} " if number == 0 else " " * 9
            click.echo(textwrap.fill(render.printable(line), 110, initial_indent=first, subsequent_indent=" " * 9,
                                     break_long_words=False, break_on_hyphens=False))  # fmt: skip
