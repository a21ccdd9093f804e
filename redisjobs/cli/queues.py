"""`redisjobs queues`: which there are, pausing one or one share of it, and how its jobs are shared out."""

from __future__ import annotations

from typing import Any

import click

from redisjobs.broker.share_lines import ShareLine
from redisjobs.broker.view import View
from redisjobs.call import check_queue
from redisjobs.cli import exits, render
from redisjobs.cli.options import given, json_option, store_options
from redisjobs.cli.status import collect, queue_document
from redisjobs.errors import OptionError
from redisjobs.operator import Operator, QueueLine
from redisjobs.share_rules import check_weight, share_rules

share_option = click.option("--share", "--tenant", "share", metavar="KEY", help="Only the jobs with this share key.")


@click.group(
    epilog="""\b
Examples:
  redisjobs queues list
  redisjobs queues show mail                 its shares: who waits, weights, pauses
  redisjobs queues pause mail                nothing of it starts any more; producers go on committing
  redisjobs queues pause mail --tenant 42    nothing of tenant 42 does; all others go on
  redisjobs queues resume mail
  redisjobs queues share mail tenant         tenants have their turns, whatever a producer says
  redisjobs queues weight mail 3 --share 42  three of its jobs for one of each other's"""
)
def queues() -> None:
    """List queues, pause or resume one, and share one out."""


@queues.command("list")
@json_option
@store_options
def list_queues(*, as_json: bool) -> None:
    """Every queue that either store knows."""
    report = collect(given().settings())
    for error in report.errors.values():
        raise error
    found = [queue_document(name, report) for name in report.queues]
    if as_json:
        render.as_json({"queues": found})
        return
    if not found:
        click.echo("no queue yet: enqueue a job, and have a relay running")
        return
    render.table(
        ["queue", "paused", "waiting", "running", "due", "limited", "behind", "dead", "workers", "shares"],
        ([each["queue"], "PAUSED" if each["paused"] else "", each["waiting"], each["running"], each["due"],
          each["limited"], each["behind"], each["dead"], len(each["workers"] or []), _share_words(each)]
         for each in found),
    )  # fmt: skip


def _share_words(queue: dict[str, Any]) -> str:
    """Such as: by tenant, 12 wait, 1 PAUSED."""
    words = ["by tenant"] if queue["share_by"] else []
    if queue["shared"]:
        words.append(f"{queue['shared']} wait")
    rules: dict[str, dict[str, Any]] = queue["shares"] or {}
    if paused := sum(1 for rule in rules.values() if rule.get("paused")):
        words.append(f"{paused} PAUSED")
    return ", ".join(words)


@queues.command()
@click.argument("queue")
@json_option
@store_options
def show(*, queue: str, as_json: bool) -> None:
    """The shares of a queue in which jobs wait, or for which something is set."""
    check_queue(queue)
    settings = given().settings()
    with Operator(settings.need_database_url(), settings.schema) as operator:
        line = next((each for each in operator.queues() if each.queue == queue), None)
    with View(settings.need_redis_url(), settings.prefix) as view:
        lines = {each.share: each for each in view.shares(queue)}
    if line is None and not lines:
        raise exits.Fault(f"no queue {queue!r} has had a job: `redisjobs queues list` names those that have")
    rules = {each.share: each for each in share_rules(line.shares if line else "{}")}
    found = [
        {
            "share": share,
            "weight": rules[share].weight if share in rules else 1.0,
            "paused": share in rules and rules[share].paused,
            "waiting": lines.get(share, ShareLine(share)).waiting,
        }
        for share in sorted({*rules, *lines})
    ]
    if as_json:
        render.as_json({"queue": queue, "share_by": line and line.share_by, "shares": found})
        return
    by = " and, without one, by tenant" if line and line.share_by else ""
    click.echo(f"queue {queue}: jobs are taken in turn by their share key{by}")
    if found:
        click.echo()
        render.table(
            ["share", "weight", "paused", "waiting"],
            ([each["share"], f"{each['weight']:g}", "PAUSED" if each["paused"] else "", each["waiting"]]
             for each in found),
        )  # fmt: skip


@queues.command()
@click.argument("queue")
@share_option
@store_options
def pause(*, queue: str, share: str | None) -> None:
    """Start no more jobs of a queue, or of one share of it. What runs goes on, and producers go on committing."""
    _pause(queue, share, paused=True)


@queues.command()
@click.argument("queue")
@share_option
@store_options
def resume(*, queue: str, share: str | None) -> None:
    """Start jobs of a queue, or of one share of it, again."""
    _pause(queue, share, paused=False)


@queues.command()
@click.argument("queue")
@click.argument("weight", type=float)
@click.option("--share", "--tenant", "share", metavar="KEY", required=True, help="Whose weight it is.")
@store_options
def weight(*, queue: str, weight: float, share: str) -> None:
    """Give a share so many jobs for each one of a share of weight 1, from 0.01 to 100."""
    weight, share = check_weight(weight), _checked(share)
    with _operator(queue) as operator:
        known = _lines(operator)
        operator.set_share(queue, share, weight=weight)
    _say(known, queue, f"share {share} of queue {queue} has weight {weight:g}")


@queues.command("share")
@click.argument("queue")
@click.argument("by", type=click.Choice(["tenant", "key"]))
@store_options
def share_by(*, queue: str, by: str) -> None:
    """Take jobs without a share key in turn by their tenant; or only those with a key.

    It counts for what is published from now on.
    """
    what = "by their share key, and without one by tenant" if by == "tenant" else "by their share key only"
    with _operator(queue) as operator:
        known = _lines(operator)
        operator.share_by(queue, "tenant" if by == "tenant" else None)
    _say(known, queue, f"jobs of queue {queue} are taken in turn {what}")


def _pause(queue: str, share: str | None, *, paused: bool) -> None:
    what = f"queue {queue}" if share is None else f"share {_checked(share)} of queue {queue}"
    with _operator(queue) as operator:
        known = _lines(operator)
        if not paused and queue not in known:
            raise exits.Fault(f"no queue {queue!r} has had a job: `redisjobs queues list` names those that have")
        if share is None:
            operator.pause(queue, paused=paused)
        else:
            operator.set_share(queue, share, paused=paused)
    _say(known, queue, f"{what} is {'paused' if paused else 'resumed'}", "; it will begin paused")


def _operator(queue: str) -> Operator:
    check_queue(queue)
    settings = given().settings()
    return Operator(settings.need_database_url(), settings.schema)


def _lines(operator: Operator) -> dict[str, QueueLine]:
    return {line.queue: line for line in operator.queues()}


def _say(known: dict[str, QueueLine], queue: str, words: str, later: str = "") -> None:
    click.echo(words)
    if queue not in known:
        click.echo(f"queue {queue} has had no job yet{later}", err=True)
    elif not known[queue].is_held:
        click.echo("no relay holds it now: this reaches the workers once a relay runs", err=True)


def _checked(share: str) -> str:
    if not 1 <= len(share) <= 200 or "\0" in share:
        raise OptionError("--share", share, "is no share key: pass 1 to 200 characters, such as a tenant's id")
    return share
