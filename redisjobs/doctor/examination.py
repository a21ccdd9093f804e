"""The whole examination: what can be looked at is, and what cannot is said."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from redisjobs.base.durations import many
from redisjobs.broker.checkup import Checkup, RedisFacts, check_up
from redisjobs.doctor import of_limits, of_postgres, of_queues, of_redis, of_schedules, of_settings, of_webhooks
from redisjobs.doctor.facts import PostgresFacts, QueueFacts
from redisjobs.doctor.finding import Finding, Verdict, fail, named, ok, unknown
from redisjobs.doctor.gather import look_at_postgres, look_at_queues
from redisjobs.doctor.of_settings import Given
from redisjobs.errors import RedisjobsError
from redisjobs.settings import Settings
from redisjobs.timetable import Line, Timetable
from redisjobs.webhooks.admin import EndpointAdmin, EndpointLine

F = TypeVar("F")

REACHED = {"postgres": "postgres.reached", "redis": "redis.reached"}
CLUSTER = "redis.cluster"
LOOKED = "queues.looked"
_WORST = ("fail", "warn", "unknown", "ok")
CHECKS = (
    *of_settings.CHECKS, REACHED["postgres"], *of_postgres.CHECKS, REACHED["redis"], CLUSTER, *of_redis.CHECKS, LOOKED,
    of_queues.SHOWN, *of_queues.CHECKS, *of_limits.CHECKS, *of_schedules.CHECKS, *of_webhooks.CHECKS,
)  # fmt: skip
"""The names of all checks, in the order in which they are made."""


def examine(settings: Settings, given: Given, meant_for: str | None = None) -> list[Finding]:
    """Look over everything; a check that cannot be made says so.

    Args:
        meant_for: the work that the database login shall do: relay, producer or operator; None: any of them.

    Raises:
        ConfigurationError: a URL is missing.
    """
    found = [named(name, check(given)) for name, check in of_settings.CHECKS.items()]
    postgres = redis = None
    try:
        postgres = look_at_postgres(settings.need_database_url(), settings.schema)
        found += _of_postgres(postgres, meant_for)
    except RedisjobsError as error:
        found.append(_unreached("postgres", error))
    if any(each.check == of_settings.NEEDS_REDIS_URL and each.level == "fail" for each in found):
        found.append(named(REACHED["redis"], unknown("not asked: its URL would make it misunderstood")))
        return found
    try:
        redis = check_up(settings.need_redis_url(), settings.prefix)
        found += _of_redis(redis)
    except RedisjobsError as error:
        found.append(_unreached("redis", error))
    queues, limits = _of_queues(settings, postgres, redis), _of_limits(settings, redis)
    return [*found, *queues, *limits, *_of_tables(settings, postgres)]


def _unreached(store: str, error: RedisjobsError) -> Finding:
    text = " ".join(str(error).split())
    why = "nothing is published or settled" if store == "postgres" else "nothing is published or run"
    remedy = f"start it, or correct REDISJOBS_{'DATABASE' if store == 'postgres' else 'REDIS'}_URL"
    return named(REACHED[store], fail(text, why, remedy))


def _of_postgres(facts: PostgresFacts, meant_for: str | None) -> Generator[Finding]:
    yield named(REACHED["postgres"], ok(f"as {facts.server.login}, database {facts.server.database}"))
    for name, check in of_postgres.CHECKS.items():
        made = of_postgres.rights(facts, meant_for) if check is of_postgres.rights else check(facts)
        yield named(name, made)


def _of_redis(checkup: Checkup) -> Generator[Finding]:
    first, *others = checkup.nodes
    where = ", ".join(each.node for each in checkup.nodes) if others else first.host or "a socket"
    yield named(REACHED["redis"], ok(f"at {where}, keys {first.prefix}:*"))
    unsure = not first.info and checkup.coverage is None
    yield named(CLUSTER, unknown("INFO is forbidden") if unsure else of_redis.cluster(checkup))
    for name, check in of_redis.CHECKS.items():
        made = [_on_node(facts, name, check) for facts in checkup.nodes]
        yield named(name, min(made, key=lambda verdict: _WORST.index(verdict.level)))


def _on_node(facts: RedisFacts, name: str, check: of_redis.Check) -> Verdict:
    """What a check finds on one server; of a cluster, where that is, unless all is well."""
    forbidden = not facts.info and name in of_redis.NEED_INFO
    verdict = unknown("INFO is forbidden") if forbidden else check(facts)
    return (
        verdict if verdict.level == "ok" or not facts.node else replace(verdict, value=f"{facts.node}: {verdict.value}")
    )


def _of_queues(settings: Settings, postgres: PostgresFacts | None, redis: Checkup | None) -> Generator[Finding]:
    database = (settings.need_database_url(), settings.schema) if postgres and postgres.has_tables else None
    keys = (settings.need_redis_url(), settings.prefix) if redis else None
    try:
        queues, refused = look_at_queues(database, keys)
    except RedisjobsError as error:
        yield named(LOOKED, unknown(" ".join(str(error).split())))
        return
    yield named(LOOKED, unknown(str(refused)) if refused else ok(many(len(queues), "queue")))
    for queue in queues:
        yield from _of_queue(queue)


def _of_limits(settings: Settings, redis: Checkup | None) -> Generator[Finding]:
    if redis is not None:
        look = partial(of_limits.look_at_limits, settings.need_redis_url(), settings.prefix)
        yield from _looked(of_limits.CHECKS, look)


def _of_tables(settings: Settings, postgres: PostgresFacts | None) -> Generator[Finding]:
    """Schedules and endpoints."""
    if postgres is None or not postgres.has_tables:
        return
    url, schema = settings.need_database_url(), settings.schema

    def schedules() -> Sequence[Line]:
        with Timetable(url, schema) as timetable:
            return timetable.lines()

    def endpoints() -> Sequence[EndpointLine]:
        with EndpointAdmin(url, schema) as admin:
            return admin.endpoints()

    yield from _looked(of_schedules.CHECKS, schedules)
    yield from _looked(of_webhooks.CHECKS, endpoints)


def _looked(checks: Mapping[str, Callable[[F], Verdict]], look: Callable[[], F]) -> Generator[Finding]:
    """What these checks find in what a look tells, or that it told nothing."""
    try:
        facts = look()
    except RedisjobsError as error:
        for name in checks:
            yield named(name, unknown(" ".join(str(error).split())))
        return
    for name, check in checks.items():
        yield named(name, check(facts))


def _of_queue(queue: QueueFacts) -> Iterable[Finding]:
    made: list[tuple[str, Verdict | None]] = [(name, check(queue)) for name, check in of_queues.CHECKS.items()]
    wrong = [named(name, verdict, queue.name) for name, verdict in made if verdict is not None]
    return [named(of_queues.SHOWN, of_queues.shown(queue), queue.name), *wrong]
