"""`redisjobs events`: send an event, and see which there are and who took them."""

from __future__ import annotations

import json

import click

from redisjobs.base.durations import age
from redisjobs.cli import render
from redisjobs.cli.options import duration, given, json_option, store_options
from redisjobs.errors import OptionError
from redisjobs.events import KEPT_S, NewEvent
from redisjobs.operator import EventLine, Operator


@click.group(
    epilog="""\b
Examples:
  redisjobs events send approved 1207 --data '{"by": "ada"}'
  redisjobs events list --name approved --free"""
)
def events() -> None:
    """Send an event to the run that waits for it, and list events."""


@events.command(
    epilog="""\b
Examples:
  redisjobs events send approved 1207
  redisjobs events send paid 1207 --data '{"amount": 5}' --expires-in 1d"""
)
@click.argument("name")
@click.argument("key", default="")
@click.option("--data", metavar="JSON", help="What the run gets with it.")
@click.option("--expires-in", type=duration, default=f"{KEPT_S:.0f}", metavar="DURATION", show_default="7d",
              help="For how long it waits to be taken.")  # fmt: skip
@store_options
def send(*, name: str, key: str, data: str | None, expires_in: float) -> None:
    """Send an event; the run that waits for this NAME and KEY, now or later, takes it. Each is taken once."""
    try:
        event = NewEvent(name, key, expires_in=expires_in)
    except OptionError as error:
        raise click.UsageError(str(error)) from None
    text = None if data is None else _json(data)
    settings = given().settings()
    with Operator(settings.need_database_url(), settings.schema) as operator:
        number = operator.send_event(event, text)
    with_key = f" with key {key!r}" if key else ""
    click.echo(f"event {number} sent: {name!r}{with_key}; it waits for {age(expires_in)} to be taken")


@events.command(
    "list",
    epilog="""\b
Examples:
  redisjobs events list
  redisjobs events list --name approved --key 1207
  redisjobs events list --free --limit 500 --json

\b
The youngest come first. What is in an event is not shown.""",
)
@click.option("--name", help="Only events of this name.")
@click.option("--key", help="Only events with this key.")
@click.option("--free", is_flag=True, help="Only those that nobody has taken, and that have not expired.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
@json_option
@store_options
def list_events(*, name: str | None, key: str | None, free: bool, limit: int, as_json: bool) -> None:
    """The events that are kept: sent when, and taken by whom."""
    settings = given().settings()
    with Operator(settings.need_database_url(), settings.schema) as operator:
        found = operator.events(name=name, key=key, free=free, limit=limit)
    if as_json:
        render.as_json({"events": found})
        return
    if not found:
        click.echo(
            "no event fits: it was not sent in this database or --schema, or it was taken or expired, and is gone"
        )
        return
    render.table(
        ["id", "name", "key", "sent", "state", "run", "step"],
        ([each.id, each.name, each.key, f"{render.age(each.age_s)} ago", _state(each), each.run or "", each.step or ""]
         for each in found),
    )  # fmt: skip


def _state(event: EventLine) -> str:
    if event.run is not None:
        return "taken"
    return f"free for {render.age(event.expires_in_s)}" if event.expires_in_s > 0 else "expired"


def _json(text: str) -> str:
    try:
        json.loads(text, parse_constant=_refuse)
        text.encode()
    except ValueError as error:
        raise click.BadParameter(
            f'is no JSON ({error}): pass such as \'{{"by": "ada"}}\'', param_hint="--data"
        ) from None
    return text


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
