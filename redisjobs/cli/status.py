"""`redisjobs status`: one screen on both stores and every queue."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import click

from redisjobs import migrations
from redisjobs.base.durations import many
from redisjobs.base.urls import redact
from redisjobs.broker.presence import Presence
from redisjobs.broker.view import QueueView, ServerView, View
from redisjobs.cli import exits, render
from redisjobs.cli.hints import hint
from redisjobs.cli.options import given, json_option, store_options
from redisjobs.cli.webhooks import shown
from redisjobs.errors import RedisjobsError, StoreRefused
from redisjobs.operator import Operator, QueueLine
from redisjobs.served import serving, why_nobody
from redisjobs.settings import RelaySettings, Settings
from redisjobs.webhooks.admin import EndpointAdmin, EndpointLine

WAITING = ("staged", "deferred")
BUDGET = RelaySettings().memory_budget


@dataclass(slots=True)
class Report:
    """What was found out. A store that cannot be asked leaves its error, and the rest is there."""

    settings: Settings
    postgres: str | None = None
    standby: bool = False
    missing: list[str] = field(default_factory=list[str])
    lines: dict[str, QueueLine] = field(default_factory=dict[str, QueueLine])
    endpoints: list[EndpointLine] = field(default_factory=list[EndpointLine])
    redis: ServerView | None = None
    views: dict[str, QueueView] = field(default_factory=dict[str, QueueView])
    workers: list[Presence] = field(default_factory=list[Presence])
    errors: dict[str, RedisjobsError] = field(default_factory=dict[str, RedisjobsError])

    @property
    def queues(self) -> list[str]:
        """Every queue that either store knows."""
        return sorted({*self.lines, *self.views})


@click.command(
    epilog="""\b
Examples:
  redisjobs status
  redisjobs status --json | jq '.queues[] | select(.dead > 0)'

\b
Live jobs and dead letters are counted one by one: seconds where they are millions, while `redisjobs top --once` counts
each state up to 10000. Those that ended well are counted while their table is below 256 MiB; else it is `-`, or null.

\b
Exit codes: 0 both stores answer, 69 one does not (what the other says is shown), 78 the tables are missing or a
login is refused."""
)
@json_option
@store_options
def status(*, as_json: bool) -> None:
    """One screen: stores, queues, who holds them, what lags."""
    report = collect(given().settings())
    if as_json:
        render.as_json(document(report))
    else:
        show(report)
    for error in report.errors.values():
        raise click.exceptions.Exit(exits.code_of(error))
    if report.missing:
        raise click.exceptions.Exit(exits.CONFIGURATION)


def collect(settings: Settings) -> Report:
    """Ask both stores."""
    report = Report(settings)
    settings.need_database_url()
    settings.need_redis_url()
    for name, ask in (("postgres", _ask_postgres), ("redis", _ask_redis)):
        try:
            ask(report)
        except RedisjobsError as error:
            report.errors[name] = error
    return report


def _ask_postgres(report: Report) -> None:
    url, schema = report.settings.need_database_url(), report.settings.schema
    with Operator(url, schema) as operator:
        report.postgres, report.standby = operator.server()
        report.missing = migrations.missing(url, schema)
        if not report.missing:
            report.lines = {line.queue: line for line in operator.queues()}
    if not report.missing:
        with EndpointAdmin(url, schema) as admin:
            report.endpoints = admin.endpoints()


def _ask_redis(report: Report) -> None:
    with View(report.settings.need_redis_url(), report.settings.prefix) as view:
        names = sorted({*report.lines, *view.queues()})
        report.views, report.workers = view.look(names), view.workers()
        with suppress(StoreRefused):  # INFO is no right that jobs need
            report.redis = view.server()


def document(report: Report) -> dict[str, Any]:
    """The report as one JSON document."""
    settings, redis = report.settings, report.redis
    errors = {name: str(error) for name, error in report.errors.items()}
    return {
        "postgres": {
            "reachable": "postgres" not in errors, "url": redact(settings.need_database_url()),
            "version": report.postgres, "standby": report.standby, "schema": settings.schema,
            "missing_migrations": report.missing, "error": errors.get("postgres"),
        },
        "redis": {
            "reachable": "redis" not in errors, "url": redact(settings.need_redis_url()), "prefix": settings.prefix,
            "version": redis and redis.version, "used_memory": redis and redis.used_memory,
            "maxmemory": redis and redis.maxmemory, "policy": redis and redis.policy,
            "full": redis and redis.is_full(BUDGET), "error": errors.get("redis"),
        },
        "queues": [queue_document(name, report) for name in report.queues],
        "webhooks": [each.document() for each in report.endpoints],
    }  # fmt: skip


def queue_document(name: str, report: Report) -> dict[str, Any]:
    """One queue as JSON; null is what could not be asked."""
    line, view = report.lines.get(name), report.views.get(name)
    return {
        "queue": name,
        "paused": line.paused if line else view.paused if view else None,
        "relay": line and {"holder": line.holder if line.is_held else None, "lease_left_s": line.lease_left_s},
        "states": line and line.states,
        "dead": line and line.dead,
        "finished": line and line.finished,
        "oldest_s": line and line.oldest_s,
        "oldest_parked_s": line and line.oldest_parked_s,
        "oldest_dead_s": line and line.oldest_dead_s,
        "publish_lag_s": line and (line.oldest_staged_s or 0.0),
        "failing": line and line.failing,
        "waiting": view and view.waiting,
        "running": view and view.running,
        "due": view and view.due,
        "limited": view and view.limited,
        "shared": view and view.shared,
        "share_by": line and line.share_by,
        "shares": line and json.loads(line.shares),
        "behind": view and view.behind,
        "settle_lag_s": view and view.settle_lag_s,
        "consumers": view and view.consumers,
        "workers": view and [each.worker_id for each in serving(report.workers, name)],
    }


def show(report: Report) -> None:
    """The report as tables."""
    render.facts({"Postgres": hint(_postgres_words(report)), "Redis": _redis_words(report)})
    click.echo()
    _show_queues(report)
    if report.endpoints:
        click.echo()
        shown.show_table(report.endpoints)
    for words in shown.wrong(report.endpoints):
        click.echo()
        render.heading(hint(words))


def _show_queues(report: Report) -> None:
    if not report.queues:
        if not report.errors and not report.missing:
            click.echo("no queue yet: enqueue a job, and have a relay running")
        return
    headers = [
        "queue",
        "staged",
        "published",
        "waiting",
        "running",
        "due",
        "dead",
        "finished",
        "oldest",
        "publish lag",
        "settle lag",
        "relay",
        "",
    ]
    render.table(headers, [_row(name, report.lines.get(name), report.views.get(name)) for name in report.queues])
    if report.workers:
        click.echo()
        render.table(["worker", "queues", "running", "slots", "seen"], map(_worker, report.workers))
    for name in report.queues:
        for words in wrong(name, report):
            click.echo()
            render.heading(hint(words))


def _row(name: str, line: QueueLine | None, view: QueueView | None) -> list[object]:
    states = line.states if line else {}
    in_redis = sum(number for state, number in states.items() if state not in (*WAITING, "set_aside", "suspended"))
    notes = [f"{number} {state.replace('_', ' ')}" for state, number in states.items()
             if state not in ("staged", "published")]  # fmt: skip
    if view and view.limited:
        notes.append(f"{view.limited} wait for a limit")
    if view and view.behind:
        notes.append(f"{view.behind} wait behind their lanes")
    paused = (line and line.paused) or (view and view.paused)
    relay = (line.holder if line.is_held else "nobody") if line else None
    return [
        name,
        line and states.get("staged", 0),
        line and in_redis,
        view and view.waiting,
        view and view.running,
        view and view.due,
        line and line.dead,
        line and line.finished,
        render.age(line.oldest_s) if line else None,
        render.age(line.oldest_staged_s or 0.0) if line else None,
        render.age(view.settle_lag_s) if view else None,
        relay,
        ", ".join((["PAUSED"] if paused else []) + (["FAILING"] if line and line.failing else []) + notes + _old(line)),
    ]


def _old(line: QueueLine | None) -> list[str]:
    """How long the oldest of those has been there that nothing moves by itself."""
    ages = {"parked": line.oldest_parked_s, "dead": line.oldest_dead_s} if line else {}
    return [f"oldest {what} {render.age(age_s)}" for what, age_s in ages.items() if age_s is not None]


def _worker(each: Presence) -> list[object]:
    state = "GONE " if not each.is_there else f"{each.state} " if each.state != "running" else ""
    return [each.worker_id, state + ",".join(each.queues), sum(each.running.values()), sum(each.slots.values()),
            f"{render.age(each.seen_s)} ago"]  # fmt: skip


def wrong(name: str, report: Report) -> Generator[str]:
    """What keeps the jobs of a queue from running, and what to do about each."""
    line, view = report.lines.get(name), report.views.get(name)
    states = line.states if line else {}
    paused = (line and line.paused) or (view and view.paused)
    if line and line.failing:
        yield failing_words(line)
    if line and states.get("staged") and not line.is_held:
        yield f"queue {name}: no relay holds it, so nothing is published\n  start one with: redisjobs relay"
    if paused and (states or (view and view.waiting)):
        yield f"queue {name} is paused\n  start its jobs again with: redisjobs queues resume {name}"
    elif view and (view.waiting or view.running) and (why := why_nobody(report.workers, name)):
        remedy = f"redisjobs worker MODULE:APP --queues {name}"
        yield f"queue {name}: no worker serves it{why}\n  start one with: {remedy}"
    if parked := states.get("parked"):
        yield (
            f"queue {name}: no worker that looked knows the name of {many(parked, 'parked job')}\n"
            f"  deploy the app that declares them; which they are: redisjobs jobs list --queue {name} --state parked"
        )


def failing_words(line: QueueLine) -> str:
    """Which row stops a queue, and what to do."""
    row = line.failing or {}
    return (
        f"queue {line.queue} stands still: row {row.get('id')} ({row.get('job')}): {row.get('error')}\n"
        f"  take it out of the line with: redisjobs outbox set-aside {row.get('id')}"
    )


def _postgres_words(report: Report) -> str:
    if error := report.errors.get("postgres"):
        return f"DOWN: {error}"
    url = redact(report.settings.need_database_url())
    words = f"{report.postgres} at {url}, schema {report.settings.schema}"
    if report.standby:
        words += ", a STANDBY that takes no writes: name its primary"
    return f"{words}, LACKS {', '.join(report.missing)}: run `redisjobs migrate`" if report.missing else words


def _redis_words(report: Report) -> str:
    redis, url = report.redis, redact(report.settings.need_redis_url())
    if error := report.errors.get("redis"):
        return f"DOWN: {error}"
    if redis is None:
        return f"at {url}, whose user may not ask for INFO"
    limit = f" of {redis.maxmemory / 2**20:.0f}" if redis.maxmemory else ""
    words = f"{redis.version} at {url}, {redis.used_memory / 2**20:.1f}{limit} MiB used"
    return (
        f"{words}, FULL: relays publish nothing until there is room; raise maxmemory or add workers"
        if redis.is_full(BUDGET)
        else words
    )
