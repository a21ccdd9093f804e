"""`redisjobs outbox`: what waits to be published, what stops it, and taking that out of the way."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import click

from redisjobs.base.durations import many
from redisjobs.cli import exits, render
from redisjobs.cli.options import given, job_id, json_option, store_options, unknown
from redisjobs.cli.status import failing_words
from redisjobs.operator import Operator, QueueLine

ROWS = 50


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  redisjobs outbox
  redisjobs outbox set-aside 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f
  redisjobs outbox put-back 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f""",
)
@json_option
@store_options
@click.pass_context
def outbox(ctx: click.Context, *, as_json: bool) -> None:
    """What waits to be published, the row that stops a queue, and rows that were set aside."""
    if ctx.invoked_subcommand is not None:
        return
    settings = given().settings()
    with Operator(settings.need_database_url(), settings.schema) as operator:
        lines = operator.queues()
        aside = operator.set_aside_rows(ROWS)
    if as_json:
        render.as_json({"queues": [_document(line) for line in lines], "set_aside": aside})
        return
    render.table(
        ["queue", "pending", "oldest", "deferred", "set aside", "relay", ""],
        ([line.queue, line.states.get("staged", 0), render.age(line.oldest_staged_s), line.states.get("deferred", 0),
          line.states.get("set_aside", 0), line.holder if line.is_held else "nobody",
          "PAUSED" if line.paused else ""] for line in lines),
    )  # fmt: skip
    for line in lines:
        if line.failing:
            click.echo()
            render.heading(failing_words(line))
    if aside:
        click.echo()
        render.table(
            ["id", "job", "queue", "age"],
            ([row.id, row.job, row.queue, render.age(row.age_s)] for row in aside),
            title="set aside",
        )


def _document(line: QueueLine) -> dict[str, object]:
    return {
        "queue": line.queue,
        "pending": line.states.get("staged", 0),
        "oldest_s": line.oldest_staged_s,
        "deferred": line.states.get("deferred", 0),
        "set_aside": line.states.get("set_aside", 0),
        "holder": line.holder if line.is_held else None,
        "paused": line.paused,
        "failing": line.failing,
    }


@outbox.command("set-aside")
@click.argument("wanted", metavar="ID…", type=job_id, nargs=-1, required=True)
@store_options
def set_aside(*, wanted: tuple[UUID, ...]) -> None:
    """Take rows out of the line, so that those behind them go on in their order."""
    _move(wanted, aside=True)


@outbox.command("put-back")
@click.argument("wanted", metavar="ID…", type=job_id, nargs=-1, required=True)
@store_options
def put_back(*, wanted: tuple[UUID, ...]) -> None:
    """Put rows that were set aside back, at the end of their queue's line."""
    _move(wanted, aside=False)


def _move(wanted: Sequence[UUID], *, aside: bool) -> None:
    before, words = ("staged", "set aside") if aside else ("set_aside", "put back")
    settings = given().settings()
    with Operator(settings.need_database_url(), settings.schema) as operator:
        states = operator.states(wanted)
        fit = [each for each in dict.fromkeys(wanted) if states.get(each) == before]
        moved = operator.set_aside(fit, aside=aside) if fit else 0
    click.echo(f"{many(moved, 'row')} {words}")
    for each in wanted:
        if each not in states:
            click.echo(unknown(each), err=True)
        elif states[each] != before:
            click.echo(f"row {each} is {states[each]}, and only what is {before} can be {words}", err=True)
    if moved < len(set(wanted)):
        raise click.exceptions.Exit(exits.FAILED)
