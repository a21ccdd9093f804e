"""`redisjobs steps`: what a durable run has done, and taking a record of it away."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import click

from redisjobs.base.durations import many
from redisjobs.cli import bulk, exits, records, render
from redisjobs.cli.filters import YES
from redisjobs.cli.hints import hint
from redisjobs.cli.options import given, job_id, json_option, store_options, unknown
from redisjobs.lineage import Lineage
from redisjobs.steps import StepRecord


class ShownByDefault(click.Group):
    """A group that shows the run whose id stands in the place of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `show` in front of what names no command."""
        if args and not any(each in self.commands or each in ("-h", "--help") for each in args):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=ShownByDefault,
    epilog="""\b
Examples:
  redisjobs steps 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f
  redisjobs steps 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f --values --json
  redisjobs steps delete 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f charge
  redisjobs steps clear 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f --yes""",
)
def steps() -> None:
    """The steps of a durable run; `redisjobs steps ID` shows them."""


@steps.command()
@click.argument("run", metavar="ID", type=job_id)
@click.option("--values", is_flag=True, help="What each step returned; left out else, for it may be private.")
@json_option
@store_options
def show(*, run: UUID, values: bool, as_json: bool) -> None:
    """What a run has done and waits for: a line a step, in the order in which they began."""
    settings = given().settings()
    with Lineage(settings.need_database_url(), settings.schema) as lineage:
        found = _records(lineage, run, values=values)
        jobs = lineage.jobs([run, *(each.child for each in found if each.child)])
    if as_json:
        told = [records.document(each, jobs, values=values) for each in found]
        render.as_json({"run": run, "job": jobs.get(run), "steps": told})
        return
    if known := jobs.get(run):
        render.heading(f"run {run} ({known.job}): {known.state}")
    if found:
        records.table(found, jobs, values=values)
    else:
        click.echo("no steps")


@steps.command(
    epilog="""\b
What the step did is done again when the run comes back: at once where it is suspended. An attempt that runs now
has read its records already and does not notice.
Exit codes: 0 done, 1 there is no such run, or no such step."""
)
@click.argument("run", metavar="ID", type=job_id)
@click.argument("names", metavar="STEP…", nargs=-1, required=True)
@json_option
@store_options
def delete(*, run: UUID, names: tuple[str, ...], as_json: bool) -> None:
    """Take the records of steps away, so that these are done again."""
    settings = given().settings()
    with Lineage(settings.need_database_url(), settings.schema) as lineage:
        known = {each.name for each in _records(lineage, run)}
        lacking = [each for each in names if each not in known]
        if lacking:
            raise exits.Fault(f"nothing was changed: {no_step(run, lacking[0], known)}")
        gone = lineage.delete(run, names)
    _tell_deleted(run, gone, as_json=as_json)


@steps.command(
    epilog="""\b
The run begins from its first step when it comes back. As `steps delete` for what that means.
Exit codes: 0 done, 1 there is no such run."""
)
@click.argument("run", metavar="ID", type=job_id)
@YES
@json_option
@store_options
def clear(*, run: UUID, yes: bool, as_json: bool) -> None:
    """Take all records of a run away, so that it begins anew."""
    settings = given().settings()
    with Lineage(settings.need_database_url(), settings.schema) as lineage:
        count = len(_records(lineage, run))
        bulk.confirm(f"delete {many(count, 'step')} of run {run}?", count, yes=yes, always=True)
        gone = lineage.delete(run)
    _tell_deleted(run, gone, as_json=as_json)


@click.command(
    epilog="""\b
Examples:
  redisjobs fork 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f --from charge

\b
The new run has a new id, the same job, arguments and queue, and the results of the steps that began before this
one; it begins now. The old run is left as it is: cancel it, or purge its dead letter, if it is not to go on too.
The new one has no idempotency key. Undos of the steps that it keeps are its own as well.
Exit codes: 0 done, 1 there is no such run that lives or is dead, or it has no such step."""
)
@click.argument("run", metavar="ID", type=job_id)
@click.option("--from", "step", metavar="STEP", required=True, help="The first step that is done anew.")
@json_option
@store_options
def fork(*, run: UUID, step: str, as_json: bool) -> None:
    """Begin a new run that keeps what an old one did before a step."""
    settings = given().settings()
    with Lineage(settings.need_database_url(), settings.schema) as lineage:
        known = lineage.jobs([run]).get(run)
        if known is not None and known.state in ("done", "cancelled", "expired", "deduplicated"):
            raise exits.Fault(
                f"run {run} has ended {known.state}, and its steps went with it: only runs that live, and dead "
                "letters, can be forked. Enqueue it anew."
            )
        found = _records(lineage, run)
        made = lineage.fork(run, step)
        if made is None:
            raise exits.Fault(no_step(run, step, {each.name for each in found}))
        kept = len(lineage.family(made)[made])
    if as_json:
        render.as_json({"run": made, "forked_from": run, "step": step, "kept": kept})
        return
    click.echo(f"{made} begins at {step!r}, with {many(kept, 'step')} of {run}")
    click.echo(hint(f"redisjobs steps {made} shows them"), err=True)


def no_step(run: UUID, step: str, known: set[str]) -> str:
    """What is said where a run has no such step."""
    if not known:
        return f"run {run} has no steps: it has not begun one, or its job uses none."
    listed = ", ".join(repr(each) for each in sorted(known)[:10])
    return f"run {run} has no step {step!r}. It has {listed}{' and more' if len(known) > 10 else ''}."


def _records(lineage: Lineage, run: UUID, *, values: bool = False) -> list[StepRecord]:
    """The records of a run.

    Raises:
        Fault: no store knows the run.
    """
    found = lineage.family(run, values=values)[run]
    if not found and not lineage.jobs([run]):
        raise exits.Fault(unknown(run))
    return found


def _tell_deleted(run: UUID, gone: int, *, as_json: bool) -> None:
    document: dict[str, Any] = {"run": run, "deleted": gone}
    render.as_json(document) if as_json else click.echo(f"{many(gone, 'step')} deleted")
