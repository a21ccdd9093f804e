"""The whole examination: what can be looked at is, and what cannot is said."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from redisjobs.broker.checkup import RedisFacts, check_up
from redisjobs.doctor import of_postgres, of_queues, of_redis, of_settings
from redisjobs.doctor.facts import PostgresFacts, QueueFacts
from redisjobs.doctor.finding import Finding, Verdict, fail, named, ok, unknown
from redisjobs.doctor.gather import look_at_postgres, look_at_queues
from redisjobs.doctor.of_settings import Given
from redisjobs.errors import RedisjobsError
from redisjobs.settings import Settings

REACHED = {"postgres": "postgres.reached", "redis": "redis.reached"}
LOOKED = "queues.looked"
CHECKS = (
    *of_settings.CHECKS, REACHED["postgres"], *of_postgres.CHECKS, REACHED["redis"], *of_redis.CHECKS, LOOKED,
    of_queues.SHOWN, *of_queues.CHECKS,
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
    return [*found, *_of_queues(settings, postgres, redis)]


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


def _of_redis(facts: RedisFacts) -> Generator[Finding]:
    yield named(REACHED["redis"], ok(f"at {facts.host or 'a socket'}, keys {facts.prefix}:*"))
    for name, check in of_redis.CHECKS.items():
        if not facts.info and name in of_redis.NEED_INFO:
            yield named(name, unknown("INFO is forbidden"))
        else:
            yield named(name, check(facts))


def _of_queues(settings: Settings, postgres: PostgresFacts | None, redis: RedisFacts | None) -> Generator[Finding]:
    database = (settings.need_database_url(), settings.schema) if postgres and postgres.has_tables else None
    keys = (settings.need_redis_url(), settings.prefix) if redis else None
    try:
        queues, refused = look_at_queues(database, keys)
    except RedisjobsError as error:
        yield named(LOOKED, unknown(" ".join(str(error).split())))
        return
    yield named(LOOKED, unknown(str(refused)) if refused else ok(f"{len(queues)} queues"))
    for queue in queues:
        yield from _of_queue(queue)


def _of_queue(queue: QueueFacts) -> Iterable[Finding]:
    made: list[tuple[str, Verdict | None]] = [(name, check(queue)) for name, check in of_queues.CHECKS.items()]
    wrong = [named(name, verdict, queue.name) for name, verdict in made if verdict is not None]
    return [named(of_queues.SHOWN, of_queues.shown(queue), queue.name), *wrong]
