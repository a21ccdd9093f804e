"""`redisjobs limits`: who holds them, who waits, and changing them at run time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

import click

from redisjobs.base.durations import many
from redisjobs.broker import Rate
from redisjobs.broker.limit_values import LimitKey, Permit, Rule, by_name, name_of
from redisjobs.broker.limit_view import MOST_KEYS, LimitView
from redisjobs.cli import exits, render
from redisjobs.cli.options import duration, given, json_option, store_options
from redisjobs.limits import check_limit_name

_RATE = re.compile(r"(\d+)/(\d+(?:\.\d+)?)?([a-z]+)")
_SHOWN = 20
"""Holders and waiting jobs of a limit key are shown up to here."""


@click.group(
    epilog="""\b
Examples:
  redisjobs limits list
  redisjobs limits show api
  redisjobs limits show api:acme                one key of it: who holds, until when, who waits
  redisjobs limits set api --max 20             from now on, for all its keys, whatever the code says
  redisjobs limits set mail --rate 100/m --burst 10
  redisjobs limits set api --pause              nothing of it begins any more; what runs goes on
  redisjobs limits unset api                    what the code says counts again

\b
What is set stands in Redis: where that loses its data, what the code says counts again.
Exit codes: 0 done, 1 refused or not found, 2 wrong usage, 69 Redis is down."""
)
def limits() -> None:
    """List limits, show who holds and waits, and change them at run time."""


@limits.command("list")
@json_option
@store_options
def list_limits(*, as_json: bool) -> None:
    """Every limit that is in use, waited for, or set at run time."""
    with _view() as view:
        rules, keys = view.rules(), view.keys()
    named = by_name(keys, rules)
    if as_json:
        render.as_json({"limits": [_summary(name, theirs, rules.get(name)) for name, theirs in named.items()]})
        return
    if not named:
        click.echo("no limit is in use, waited for, or set at run time")
        return
    render.table(
        ["limit", "allows", "in use", "waiting", "keys", "set at run time"],
        ([name, _allows(theirs), sum(each.used for each in theirs), sum(each.waiting for each in theirs),
          len(theirs), rules.get(name) or ""] for name, theirs in named.items()),
    )  # fmt: skip
    if len(keys) >= MOST_KEYS:
        click.echo(f"only {MOST_KEYS} keys are told, those with the longest lines first", err=True)


@limits.command("show")
@click.argument("limit", metavar="NAME[:KEY]")
@json_option
@store_options
def show_limit(*, limit: str, as_json: bool) -> None:
    """One limit, or one key of it: who holds, until when, who waits."""
    name = check_limit_name(name_of(limit))
    with _view() as view:
        rule = view.rules().get(name)
        keys = view.keys(name, heads=_SHOWN, only=None if limit == name else limit)
    if as_json:
        render.as_json(_summary(name, keys, rule) | {"keys": [_document(each) for each in keys]})
        return
    render.facts({"limit": limit, "set at run time": rule or "nothing: what the code says counts"})
    if not any(each.used or each.waiting or each.held or each.closed_s for each in keys):
        click.echo("nobody holds it, and nobody waits for it")
        return
    for each in keys[:_SHOWN]:
        _show(each)
    if len(keys) > _SHOWN:
        click.echo(f"\n… and {many(len(keys) - _SHOWN, 'more key', 'more keys')}; --json has them")


@limits.command("set")
@click.argument("name")
@click.option("--max", "most", type=click.IntRange(0), metavar="N", help="So many at once; 0: nothing begins.")
@click.option("--rate", metavar="N/TIME", help="So many starts in a time: 100/m, 5/s, 1000/6h.")
@click.option("--burst", type=click.IntRange(0), metavar="N", help="With --rate: so many may come early.  [default: 0]")
@click.option("--pause", is_flag=True, help="Nothing begins, as with --max 0.")
@store_options
def set_limit(*, name: str, most: int | None, rate: str | None, burst: int | None, pause: bool) -> None:
    """Set a limit for the whole fleet from now on, for all keys of this name. What runs goes on."""
    check_limit_name(name)
    if [most is not None, rate is not None, pause].count(True) != 1:
        raise click.UsageError("Say what it shall be, by one of --max N, --rate N/TIME and --pause.")
    if burst is not None and rate is None:
        raise click.UsageError("--burst goes with --rate: so many starts may come early.")
    wanted = None if rate is None else _rate(rate, burst or 0)
    with _view() as view:
        view.adjust(name, 0 if pause else most, wanted)
        rule, keys = view.rules().get(name), view.keys(name)
    click.echo(f"limit {name}: {rule}" if rule else f"limit {name} is set")
    _warn(name, keys, wanted)


@limits.command("unset")
@click.argument("name")
@store_options
def unset_limit(*, name: str) -> None:
    """What the code says counts again."""
    check_limit_name(name)
    with _view() as view:
        if name not in view.rules():
            raise exits.Fault(
                f"nothing was set for limit {name!r}: `redisjobs limits list` names those with something set"
            )
        view.adjust(name)
    click.echo(f"limit {name}: what the code says counts again")


def _view() -> LimitView:
    settings = given().settings()
    return LimitView(settings.need_redis_url(), settings.prefix)


def _rate(text: str, burst: int) -> Rate:
    found = _RATE.fullmatch(text.strip().lower())
    period = duration(f"{found[2] or 1}{found[3]}") if found else 0.0
    if not found or period <= 0 or not int(found[1]):
        raise click.BadParameter(f"{text!r} is no rate: pass such as 100/m, 5/s or 1000/6h.", param_hint="--rate")
    return Rate(int(found[1]), max(1, round(period * 1000)), burst)


def _warn(name: str, keys: Sequence[LimitKey], rate: Rate | None) -> None:
    """What was set is of another kind than what the code has, or nothing of this name is known now."""
    if not any(each.held or each.waiting for each in keys):
        click.echo(f"nothing holds or waits for limit {name} now: look whether the name is right", err=True)
    elif rate is not None and any(each.rate is None for each in keys):
        click.echo(f"the code has limit {name} as so many at once: a rate does not count for it", err=True)


def _allows(keys: Sequence[LimitKey]) -> str | None:
    """What the fullest key allows."""
    words = [
        f"{each.most} at once" if each.rate is None else each.rate
        for each in keys
        if each.most is not None or each.rate
    ]
    return next(iter(words), None)


def _summary(name: str, keys: Sequence[LimitKey], rule: Rule | None) -> dict[str, Any]:
    return {
        "limit": name,
        "set": None if rule is None else asdict(rule) | {"paused": rule.is_paused},
        "used": sum(each.used for each in keys),
        "waiting": sum(each.waiting for each in keys),
        "keys": len(keys),
    }


def _document(limit: LimitKey) -> dict[str, Any]:
    return {
        "key": limit.key, "most": limit.most, "rate": limit.rate, "used": limit.used, "waiting": limit.waiting,
        "closed_s": limit.closed_s, "passed_over": limit.passed_over,
        "holders": [_holder(limit, each) for each in limit.held],
        "first_in_line": [{"id": UUID(bytes=each.job_id), "queue": each.queue} for each in limit.heads],
    }  # fmt: skip


def _holder(limit: LimitKey, permit: Permit) -> dict[str, Any]:
    weight = next((want.weight for want in permit.wants if want.key == limit.key), 1)
    return {
        "id": UUID(bytes=permit.job_id), "queue": permit.queue, "state": permit.state, "worker": permit.consumer,
        "weight": weight, "since_s": permit.since_s, "left_s": permit.left_s,
    }  # fmt: skip


def _show(limit: LimitKey) -> None:
    click.echo()
    of = f" of {limit.most}" if limit.most is not None and limit.rate is None else ""
    allows = f"{limit.rate}; " if limit.rate else ""
    what = "starts reserved" if limit.rate else "in use"
    render.heading(f"{limit.key}: {allows}{limit.used}{of} {what}, {many(limit.waiting, 'job waits', 'jobs wait')}")
    if limit.closed_s > 0:
        click.echo(f"  nothing of it starts for {render.age(limit.closed_s)} more: a body asked for that")
    for queue in limit.passed_over:
        click.echo(
            f"  queue {queue} is passed over: nobody came for what was kept for its jobs; does a worker serve it?"
        )
    if limit.held:
        shown = [_holder(limit, each) for each in limit.held[:_SHOWN]]
        render.table(
            ["id", "queue", "holder", "takes", "since", "until"],
            ([each["id"], each["queue"], _who(each), each["weight"], f"{render.age(each['since_s'])} ago", _until(each)]
             for each in shown),
        )  # fmt: skip
    if limit.heads:
        rest = limit.waiting - len(limit.heads)
        render.table(["line", "id", "queue"], ([n, UUID(bytes=each.job_id), each.queue]
                                               for n, each in enumerate(limit.heads, 1)))  # fmt: skip
        if rest > 0:
            click.echo(f"… and {rest} more")


def _who(holder: dict[str, Any]) -> str:
    if holder["state"] == "reserved":
        return "kept for it"
    return str(holder["worker"]) + (" (its lease LAPSED)" if holder["state"] == "lapsed" else "")


def _until(holder: dict[str, Any]) -> str | None:
    left_s = holder["left_s"]
    if left_s is None:
        return None
    if holder["state"] == "held":
        return f"in {render.age(max(0.0, left_s))}, unless renewed"
    return f"in {render.age(max(0.0, left_s))}"
