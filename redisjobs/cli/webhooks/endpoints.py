"""`redisjobs webhooks endpoints`: which there are, how they behave, and what can be done with them."""

from __future__ import annotations

import time
from uuid import UUID

import click

from redisjobs.cli import exits, render
from redisjobs.cli.options import duration, given, json_option, store_options
from redisjobs.cli.webhooks.options import (
    ED25519,
    JOB,
    QUEUE,
    SECRET_STDIN,
    admin,
    endpoint_name,
    for_receiver,
    header,
    new_secret,
    unknown,
)
from redisjobs.cli.webhooks.shown import show_table
from redisjobs.operator import JobRow, Operator

LOOK_S = 0.2
NAME = click.argument("name", type=endpoint_name)


@click.group(
    epilog="""\b
Examples:
  redisjobs webhooks endpoints list
  redisjobs webhooks endpoints add billing https://hooks.example/billing
  redisjobs webhooks endpoints test billing
  redisjobs webhooks endpoints rotate billing --grace 24h
  redisjobs webhooks endpoints disable billing --why "they asked for it"
  redisjobs webhooks endpoints enable billing"""
)
def endpoints() -> None:
    """List, show, add, rotate, enable, disable, delete and test endpoints."""


@endpoints.command("list")
@json_option
@store_options
def list_endpoints(*, as_json: bool) -> None:
    """Every endpoint: ok, failing since when, or disabled and why."""
    with admin() as door:
        found = door.endpoints()
    if as_json:
        render.as_json({"endpoints": [each.document() for each in found]})
    elif not found:
        click.echo("no endpoint yet: store one with `redisjobs webhooks endpoints add NAME URL`; one that a program "
                   "declares is there from its first delivery on")  # fmt: skip
    else:
        show_table(found)


@endpoints.command()
@NAME
@json_option
@store_options
def show(*, name: str, as_json: bool) -> None:
    """One endpoint, with when its secrets were made and end; their values are never shown."""
    with admin() as door:
        line = door.endpoint(name)
        keys = door.keys(name) if line else []
    if line is None:
        raise unknown(name)
    if as_json:
        render.as_json(line.document() | {"keys": keys})
        return
    render.facts({key.replace("_", " "): value for key, value in line.document().items() if key != "stored"})
    if keys:
        click.echo()
        render.table(
            ["", "made", "signs until"],
            ([each.header or "secret", each.created_at, each.expires_at] for each in keys),
        )


@endpoints.command(
    epilog="""\b
Examples:
  redisjobs webhooks endpoints add billing https://hooks.example/billing
  redisjobs webhooks endpoints add billing https://hooks.example/billing --header 'authorization: Bearer abc'
  redisjobs webhooks endpoints add billing https://hooks.example/billing --secret-stdin < secret.txt
\b
The secret is shown once. With REDISJOBS_WEBHOOK_KEYS it is stored encrypted; workers then need the same keys."""
)
@NAME
@click.argument("url")
@ED25519
@SECRET_STDIN
@click.option("--header", "headers", type=header, multiple=True, metavar="NAME: VALUE", help="Each delivery bears it.")
@json_option
@store_options
def add(
    *, name: str, url: str, ed25519: bool, secret_stdin: bool, headers: tuple[tuple[str, str], ...], as_json: bool
) -> None:
    """Store an endpoint, with a new secret."""
    secret = new_secret(ed25519=ed25519, from_stdin=secret_stdin)
    with admin() as door:
        if not door.add(name, url, secret, dict(headers)):
            raise exits.Fault(f"endpoint {name!r} is stored: delete it first, or rotate its secret")
    _tell(name, "is stored", {} if secret_stdin else for_receiver(secret), as_json=as_json)


@endpoints.command()
@NAME
@click.option(
    "--grace", type=duration, default="24h", show_default=True, help="How long the secrets until now sign beside it."
)
@ED25519
@SECRET_STDIN
@json_option
@store_options
def rotate(*, name: str, grace: float, ed25519: bool, secret_stdin: bool, as_json: bool) -> None:
    """Give an endpoint a new secret. Until the grace is over a receiver may verify with the old one or the new."""
    secret = new_secret(ed25519=ed25519, from_stdin=secret_stdin)
    with admin() as door:
        if not door.rotate(name, secret, grace):
            raise unknown(name)
    _tell(name, "has a new secret", {} if secret_stdin else for_receiver(secret), as_json=as_json)


def _tell(name: str, what: str, told: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        render.as_json({"endpoint": name} | told)
        return
    click.echo(f"endpoint {name} {what}")
    for value in told.values():
        click.echo(f"give its receiver, for it is not shown again:\n{value}")


@endpoints.command()
@NAME
@store_options
def enable(*, name: str) -> None:
    """Send to an endpoint again, with its failures forgotten. What died meanwhile: `redisjobs webhooks redeliver`."""
    with admin() as door:
        if not door.enable(name):
            raise unknown(name)
    click.echo(f"endpoint {name} is enabled\nwhat died meanwhile: redisjobs webhooks redeliver --endpoint '{name}'")


@endpoints.command()
@NAME
@click.option("--why", default="by an operator", show_default=True, metavar="TEXT", help="For whoever looks at it.")
@store_options
def disable(*, name: str, why: str) -> None:
    """Send nothing to an endpoint. Its deliveries become dead letters, which can be redelivered."""
    with admin() as door:
        if not door.disable(name, why):
            raise unknown(name)
    click.echo(f"endpoint {name} is disabled")


@endpoints.command()
@NAME
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_options
def delete(*, name: str, yes: bool) -> None:
    """Forget an endpoint with its secrets. Deliveries that are under way will find none, and become dead letters."""
    with admin() as door:
        if door.endpoint(name) is None:
            raise unknown(name)
        if not yes:
            click.confirm(f"forget endpoint {name} and its secrets?", abort=True, err=True)
        door.delete(name)
    click.echo(f"endpoint {name} is deleted")


@endpoints.command()
@NAME
@click.option("--wait", type=duration, default="30s", show_default=True, help="For the answer.")
@JOB
@QUEUE
@json_option
@store_options
def test(*, name: str, wait: float, job: str, queue: str, as_json: bool) -> None:
    """Send an event of the type redisjobs.test the way every delivery goes, once; a disabled endpoint gets it too."""
    settings = given().settings()
    with admin() as door:
        job_id = door.test(name, job=job, queue=queue)
    with Operator(settings.need_database_url(), settings.schema) as operator:
        row = _ended(operator, job_id, wait)
    state = "delivered" if row is None or row.state == "done" else row.state
    error = None if row is None or state == "delivered" else row.failures[-1]["message"] if row.failures else row.error
    if as_json:
        render.as_json({"endpoint": name, "id": job_id, "state": state, "error": error})
    else:
        click.echo(f"{state}: {error}" if error else state)
    if state != "delivered":
        if state != "dead":
            click.echo(f"it has not ended after {wait:g} s; redisjobs explain {job_id} says why", err=True)
        raise click.exceptions.Exit(exits.FAILED)


def _ended(operator: Operator, job_id: UUID, wait: float) -> JobRow | None:
    """The job once it has ended, or as it stands when the time is over; None: it ended well, and nothing is kept."""
    until = time.monotonic() + wait
    while True:
        row = operator.job(job_id)
        if row is None or row.ended_at is not None or time.monotonic() >= until:
            return row
        time.sleep(LOOK_S)
