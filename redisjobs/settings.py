"""Every setting with its default and its range, checked once, where it is given."""

from __future__ import annotations

import fnmatch
import os
import re
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar, cast

from redisjobs.base.durations import positive, seconds, whole
from redisjobs.base.urls import POSTGRES, REDIS, check_url, redact, with_password
from redisjobs.errors import ConfigurationError, OptionError

N = TypeVar("N", int, float)

SLOTS = 10
LEASE_S = 30.0

_SCHEMA = re.compile(r"(?!pg_)[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")
_PATTERN = re.compile(r"[A-Za-z0-9_*?\[][A-Za-z0-9_.:*?!\[\]-]{0,127}\Z")


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the stores are, and under which names.

    A URL that is not given is looked up in `REDISJOBS_DATABASE_URL` and `REDISJOBS_REDIS_URL`, then in
    `DATABASE_URL` and `REDIS_URL`. A password may be given apart, as it is, or in `REDISJOBS_DATABASE_PASSWORD`
    and `REDISJOBS_REDIS_PASSWORD`; inside a URL it is percent-encoded.

    Args:
        database_url: Postgres.
        redis_url: Redis.
        schema: the Postgres schema of the tables.
        prefix: what every Redis key begins with.

    Raises:
        ConfigurationError: a URL or name that cannot work. No text ever shows a password.
    """

    database_url: str | None = field(default=None, repr=False)
    redis_url: str | None = field(default=None, repr=False)
    schema: str = "redisjobs"
    prefix: str = "rj"

    def __post_init__(self) -> None:
        if self.database_url is not None:
            check_url("database_url", self.database_url, POSTGRES)
        if self.redis_url is not None:
            check_url("redis_url", self.redis_url, REDIS)
        if not _matches(_SCHEMA, self.schema):
            raise OptionError("schema", self.schema, "is no schema name: pass letters, digits and _, no pg_ in front")
        if not _matches(_PREFIX, self.prefix):
            raise OptionError("prefix", self.prefix, "is no key prefix: pass 1 to 64 of A-Z, a-z, 0-9 and _.:-")

    @classmethod
    def load(
        cls,
        *,
        database_url: str | None = None,
        redis_url: str | None = None,
        database_password: str | None = None,
        redis_password: str | None = None,
        schema: str = "redisjobs",
        prefix: str = "rj",
        environ: Mapping[str, str] = os.environ,
    ) -> Settings:
        """The settings from what was given, and from the environment for what was not."""
        return cls(
            database_url=_find("DATABASE", POSTGRES, database_url, database_password, environ),
            redis_url=_find("REDIS", REDIS, redis_url, redis_password, environ),
            schema=schema,
            prefix=prefix,
        )

    def need_database_url(self) -> str:
        """The Postgres URL.

        Raises:
            ConfigurationError: none was given.
        """
        return _needed("database_url", self.database_url)

    def need_redis_url(self) -> str:
        """The Redis URL.

        Raises:
            ConfigurationError: none was given.
        """
        return _needed("redis_url", self.redis_url)

    def shown(self) -> dict[str, str | None]:
        """The settings as they may be printed: without passwords."""
        return {
            "database_url": self.database_url and redact(self.database_url),
            "redis_url": self.redis_url and redact(self.redis_url),
            "schema": self.schema,
            "prefix": self.prefix,
        }


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker works. Durations are seconds or timedeltas; after the checks they are seconds.

    Args:
        queues: names, or globs such as `mail.*`.
        concurrency: slots for each queue, or a mapping from its name or glob to its slots.
        visibility_timeout: how long a lease lasts without a renewal, for all queues or a mapping from name or glob.
        heartbeat_interval: between renewals; a third of the shortest lease, and below half of it.
        drain_grace: how long running bodies may go on after the first signal.
        max_losses: lost leases while running after which a job is a dead letter.
        worker_id: host, process id and a random tail.
    """

    queues: Sequence[str] = ("default",)
    concurrency: int | Mapping[str, int] = SLOTS
    visibility_timeout: float | timedelta | Mapping[str, float | timedelta] = LEASE_S
    heartbeat_interval: float | timedelta | None = None
    drain_grace: float | timedelta = 25.0
    max_losses: int = 3
    worker_id: str = ""

    def __post_init__(self) -> None:
        _put(self, "queues", _queues(self.queues))
        _put(self, "concurrency", _concurrency(self.concurrency))
        _put(self, "visibility_timeout", _leases(self.visibility_timeout))
        _put(self, "heartbeat_interval", _heartbeat(self.heartbeat_interval, self.lease))
        _put(self, "drain_grace", seconds("drain_grace", self.drain_grace))
        whole("max_losses", self.max_losses)
        _put(self, "worker_id", _worker_id(self.worker_id))

    @property
    def lease(self) -> float:
        """The shortest visibility timeout in seconds."""
        given = cast("float | dict[str, float]", self.visibility_timeout)
        return min(given.values()) if isinstance(given, dict) else given

    def lease_of(self, queue: str) -> float:
        """The visibility timeout of a queue in seconds."""
        return _of_queue(cast("float | dict[str, float]", self.visibility_timeout), queue, LEASE_S)

    def slots_of(self, queue: str) -> int:
        """The slots of a queue."""
        return _of_queue(cast("int | dict[str, int]", self.concurrency), queue, SLOTS)

    @property
    def heartbeat(self) -> float:
        """The heartbeat's interval in seconds."""
        return cast(float, self.heartbeat_interval)

    @property
    def grace(self) -> float:
        """The drain's grace in seconds."""
        return cast(float, self.drain_grace)


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """How a relay works. Durations are seconds or timedeltas; after the checks they are seconds.

    Args:
        batch_size: rows of one queue in a pass.
        interval: between looks when nothing wakes it.
        lease: how long a queue stays its own without a renewal.
        horizon: what is due later than this waits in Postgres.
        memory_budget: the share of Redis' `maxmemory` past which nothing more is published.
        retention: how long a finished job stays visible; 0: not at all.
    """

    batch_size: int = 500
    interval: float | timedelta = 0.2
    lease: float | timedelta = 15.0
    horizon: float | timedelta = 3600.0
    memory_budget: float = 0.8
    retention: float | timedelta = 3600.0

    def __post_init__(self) -> None:
        whole("batch_size", self.batch_size, most=1_000)
        _put(self, "interval", seconds("interval", self.interval, most=3600))
        _put(self, "lease", positive("lease", self.lease, most=3600))
        _put(self, "horizon", seconds("horizon", self.horizon))
        _put(self, "memory_budget", _share("memory_budget", self.memory_budget))
        _put(self, "retention", seconds("retention", self.retention))

    @property
    def every(self) -> float:
        """The interval in seconds."""
        return cast(float, self.interval)

    @property
    def lease_s(self) -> float:
        """The lease of a queue in seconds."""
        return cast(float, self.lease)

    @property
    def horizon_s(self) -> float:
        """The horizon in seconds."""
        return cast(float, self.horizon)

    @property
    def retention_s(self) -> float:
        """The retention in seconds."""
        return cast(float, self.retention)


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """How a scheduler works. Durations are seconds or timedeltas; after the checks they are seconds.

    Args:
        batch_size: schedules that one round dispatches at most.
        interval: between looks when nothing is due and nothing wakes it.
    """

    batch_size: int = 200
    interval: float | timedelta = 5.0

    def __post_init__(self) -> None:
        whole("batch_size", self.batch_size, most=1_000)
        _put(self, "interval", positive("interval", self.interval, most=3600))

    @property
    def every(self) -> float:
        """The interval in seconds."""
        return cast(float, self.interval)


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.match(value) is not None


def _put(settings: object, name: str, value: object) -> None:
    object.__setattr__(settings, name, value)


def _find(
    store: str, schemes: Sequence[str], url: str | None, password: str | None, environ: Mapping[str, str]
) -> str | None:
    names = (f"REDISJOBS_{store}_URL", f"{store}_URL")
    if url is None:
        source, url = next(((name, environ[name]) for name in names if environ.get(name)), (names[0], None))
    else:
        source = f"{store.lower()}_url"
    password = password if password is not None else environ.get(f"REDISJOBS_{store}_PASSWORD")
    if url is None:
        return None
    checked = check_url(source, url, schemes)
    return with_password(checked, password) if password else checked


def _needed(name: str, url: str | None) -> str:
    if url is None:
        raise ConfigurationError(f"{name} is not set: pass it, or set REDISJOBS_{name.upper()}")
    return url


def _queues(names: object) -> tuple[str, ...]:
    given = names
    if not isinstance(names, (list, tuple)) or not names:
        raise OptionError("queues", given, 'is no list of queue names: pass for example ["default"]')
    listed = cast(Sequence[str], names)
    for name in listed:
        if not _matches(_PATTERN, name):
            raise OptionError("queues", name, "is no queue name: pass letters, digits and _.:-, or a glob of them")
    return tuple(dict.fromkeys(listed))


def _concurrency(slots: object) -> int | dict[str, int]:
    if isinstance(slots, Mapping):
        named = cast(Mapping[str, object], slots)
        if not named:
            raise OptionError("concurrency", named, 'names no queue: pass a number, or for example {"default": 10}')
        return {queue: whole(f"concurrency[{queue!r}]", number, most=100_000) for queue, number in named.items()}
    return whole("concurrency", slots, most=100_000)


def _leases(given: float | timedelta | Mapping[str, float | timedelta]) -> float | dict[str, float]:
    if not isinstance(given, Mapping):
        return positive("visibility_timeout", given, most=86_400)
    if not given:
        raise OptionError("visibility_timeout", given, 'names no queue: pass a number, or for example {"default": 30}')
    return {queue: positive(f"visibility_timeout[{queue!r}]", each, most=86_400) for queue, each in given.items()}


def _of_queue(given: N | dict[str, N], queue: str, default: N) -> N:
    """What was given for a queue: by its name, by the first glob that fits, or for all."""
    if not isinstance(given, dict):
        return given
    if queue in given:
        return given[queue]
    return next((each for name, each in given.items() if fnmatch.fnmatchcase(queue, name)), default)


def _heartbeat(interval: float | timedelta | None, lease: float) -> float:
    if interval is None:
        return lease / 3
    given = positive("heartbeat_interval", interval)
    if given >= lease / 2:
        why = f"must be below half of visibility_timeout ({lease:g} s), or one slow beat loses every lease"
        raise OptionError("heartbeat_interval", interval, f"{why}: pass {lease / 3:g} s, or a longer lease")
    return given


def _share(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise OptionError(name, value, "is no share: pass a number above 0 and at most 1, such as 0.8")
    return float(value)


def _worker_id(name: object) -> str:
    if name == "":
        return f"{socket.gethostname()[:64]}-{os.getpid()}-{secrets.token_hex(4)}"
    if not isinstance(name, str) or not name.isprintable() or " " in name or len(name) > 200:
        raise OptionError("worker_id", name, "is no name: pass 1 to 200 printable characters without a space")
    return name
