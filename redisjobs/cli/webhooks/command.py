"""`redisjobs webhooks`: endpoints, and new lives for deliveries that failed."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import timedelta
from uuid import UUID

import click

from redisjobs.base.durations import many
from redisjobs.cli import bulk, exits, render
from redisjobs.cli.options import duration, given, job_id, json_option, store_options
from redisjobs.cli.webhooks.endpoints import endpoints
from redisjobs.cli.webhooks.options import JOB, QUEUE, admin, endpoint_name, unknown
from redisjobs.operator import AT_ONCE, Operator
from redisjobs.webhooks.admin import EndpointAdmin


@click.group(
    epilog="""\b
Examples:
  redisjobs webhooks endpoints list
  redisjobs webhooks redeliver --endpoint billing --since 2h"""
)
def webhooks() -> None:
    """Endpoints of webhooks, and deliveries that failed."""


webhooks.add_command(endpoints)


@webhooks.command(
    epilog="""\b
Examples:
  redisjobs webhooks redeliver 0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f
  redisjobs webhooks redeliver --endpoint billing
  redisjobs webhooks redeliver --endpoint billing --since 2h --dry-run
\b
A redelivery keeps its webhook-id, so that a receiver who has had it knows it again. Where arguments are encrypted
the endpoint of a dead letter cannot be seen: use redisjobs dead redrive --job webhook --error TEXT."""
)
@click.argument("wanted", metavar="[ID…]", type=job_id, nargs=-1)
@click.option("--endpoint", type=endpoint_name, metavar="NAME", help="All that died on their way to it.")
@click.option("--since", type=duration, metavar="DURATION", help="With --endpoint: that died within this time.")
@click.option("--dry-run", is_flag=True, help="Say how many there are, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JOB
@QUEUE
@json_option
@store_options
def redeliver(
    *, wanted: tuple[UUID, ...], endpoint: str | None, since: float | None, dry_run: bool, yes: bool, job: str,
    queue: str, as_json: bool,
) -> None:  # fmt: skip
    """Give dead deliveries a new life, with fresh attempts."""
    if bool(wanted) == (endpoint is not None) or (since is not None and endpoint is None):
        raise click.UsageError("Pass ids, or --endpoint NAME, with --since if you like.")
    settings = given().settings()
    with admin() as door, Operator(settings.need_database_url(), settings.schema) as operator:
        ids = list(operator.dead_among(wanted)) if endpoint is None else _dead_of(
            door, endpoint, since, job=job, queue=queue
        )  # fmt: skip
        found = bulk.count(ids)
        if dry_run:
            bulk.tell_sample(found, "dead letter", "would be redelivered", {"count": found.count} if as_json else None)
            return
        bulk.confirm(f"redeliver {many(found.count, 'delivery', 'deliveries')}?", found.count, yes=yes)
        until = door.now()
        told = bulk.carry_out(
            "redelivered", found.count, ids, lambda piece: Counter(done=operator.redrive(piece, until)), at_once=AT_ONCE
        )
    if as_json:
        render.as_json({"redelivered": told["done"]})
    else:
        click.echo(f"{many(told['done'], 'delivery', 'deliveries')} redelivered")
    missing = [each for each in wanted if each not in ids]
    for each in missing:
        click.echo(f"{each} is no dead letter", err=True)
    if missing:
        raise click.exceptions.Exit(exits.FAILED)


def _dead_of(door: EndpointAdmin, endpoint: str, since: float | None, *, job: str, queue: str) -> list[UUID]:
    now = door.now()
    after = None if since is None else now - timedelta(seconds=since)
    with bulk.looking():
        pieces = door.dead(endpoint, job=job, queue=queue, since=after, until=now)
        found = list(itertools.chain.from_iterable(pieces))
    line = door.endpoint(endpoint)
    if not found and line is None:
        raise unknown(endpoint)
    if line is not None and not line.state.is_enabled:
        click.echo(f"endpoint {endpoint} is disabled: redisjobs webhooks endpoints enable '{endpoint}' first", err=True)
    return found
