"""What goes on now, in both stores: queues, relays and workers. Looks are cheap, and may be repeated every second."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psycopg

from redisjobs.base import statements
from redisjobs.base.postgres import array, check_database_url, in_our_words, options
from redisjobs.broker.depths import Depth, Depths
from redisjobs.broker.flow import Flow, Flows
from redisjobs.broker.presence import Presence
from redisjobs.errors import RedisjobsError
from redisjobs.served import serving
from redisjobs.settings import Settings

_FIGURES = ("bound", "unpublished", "resting", "dead")
_NAMES = ("holders", "staged")
statements.load("top").require(*_NAMES)
statements.load("monitoring").require(*_FIGURES)

MOST_QUEUES = 500
MOST_ROWS = 10_000
"""Up to here rows are counted; a queue that shows so many has so many or more."""
SMALL_BYTES = 64 * 1024 * 1024
MOST_KINDS = 2_000


@dataclass(slots=True)
class QueueNow:
    """A queue. None: the store that knows it did not tell.

    Args:
        holder: the relay that holds it; '' is nobody.
        staged: not published yet, up to 10 000. dead: likewise. parked: None also where counting would take long.
        ready: waits for a worker. ready_s: how long the first of them does. limited: waits for a limit.
        behind: waits for another job of its lane.
        unsettled_s: the age of the oldest outcome that is not in Postgres.
        in_per_s: jobs that began to wait, since the look before. out_per_s: attempts that ended.
        start_s: from commit or due time to start, the median of a few jobs that started last.
        run_s: how long an attempt takes on the average: those that run, by how many end in a second.
        slots: of the workers that serve it. workers: how many these are.
    """

    queue: str
    holder: str | None = None
    paused: bool | None = None
    failing: bool | None = None
    staged: int | None = None
    staged_s: float | None = None
    deferred: int | None = None
    set_aside: int | None = None
    parked: int | None = None
    dead: int | None = None
    ready: int | None = None
    ready_s: float | None = None
    running: int | None = None
    due: int | None = None
    limited: int | None = None
    behind: int | None = None
    unsettled_s: float | None = None
    in_per_s: float | None = None
    out_per_s: float | None = None
    start_s: float | None = None
    run_s: float | None = None
    slots: int | None = None
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class RelayNow:
    """A relay that holds queues.

    Args:
        pending: rows of its queues that it has not published. lag_s: the age of the oldest.
        unsettled_s: the age of the oldest outcome that it has not carried back.
    """

    relay: str
    queues: list[str]
    pending: int
    lag_s: float
    unsettled_s: float | None


@dataclass(slots=True)
class Snapshot:
    """One look. `errors` has what a store said that could not be asked, by its name."""

    at: datetime
    queues: list[QueueNow] = field(default_factory=list[QueueNow])
    relays: list[RelayNow] = field(default_factory=list[RelayNow])
    workers: list[Presence] | None = None
    errors: dict[str, RedisjobsError] = field(default_factory=dict[str, RedisjobsError])


class Snapshots:
    """Takes snapshots. A store that is down costs its figures and no more; the next look tries it anew.

    Args:
        timeout: seconds for which Redis may take.
    """

    def __init__(self, settings: Settings, *, timeout: float = 2.0) -> None:
        self._url, self._schema = check_database_url(settings.need_database_url()), settings.schema
        self._redis_url, self._prefix, self._timeout = settings.need_redis_url(), settings.prefix, timeout
        self._sql = statements.load("top", self._schema).require(*_NAMES)
        self._figures = statements.load("monitoring", self._schema).require(*_FIGURES)
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._flows: tuple[float, Mapping[str, Flow]] | None = None

    def look(self) -> Snapshot:
        """One look at both stores."""
        found, known = Snapshot(datetime.now(UTC)), dict[str, QueueNow]()
        for store, ask in (("postgres", self._ask_postgres), ("redis", self._ask_redis)):
            try:
                ask(found, known)
            except RedisjobsError as error:
                found.errors[store] = error
        found.queues = [known[name] for name in sorted(known)]
        found.relays = relays(found.queues)
        return found

    def close(self) -> None:
        """Give the connections back."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- Postgres
    def _ask_postgres(self, found: Snapshot, known: dict[str, QueueNow]) -> None:
        try:
            with in_our_words("look at Postgres"):
                if self._connection is None:
                    self._connection = psycopg.connect(self._url, **options())
                with self._connection.transaction():
                    self._connection.execute(self._figures.bound)
                    self._read(self._connection, known)
        except RedisjobsError:
            self.close()
            raise

    def _read(self, connection: psycopg.Connection[tuple[Any, ...]], known: dict[str, QueueNow]) -> None:
        limit = {"limit": MOST_QUEUES}
        for queue, holder, paused, failing in connection.execute(self._sql.holders, limit).fetchall():
            known[queue] = QueueNow(queue, holder=holder or "", paused=paused, failing=failing)
        for (queue,) in connection.execute(self._sql.staged, limit).fetchall():
            known.setdefault(queue, QueueNow(queue, holder="", paused=False, failing=False))
        names = list(known)
        parameters = {
            "queues": names, "floors": array("0" for _ in names), "limit": MOST_ROWS, "kinds": MOST_KINDS,
            "most_bytes": SMALL_BYTES,
        }  # fmt: skip
        for queue, state, number, age_s in (
            *connection.execute(self._figures.unpublished, parameters).fetchall(),
            *connection.execute(self._figures.resting, parameters).fetchall(),
        ):
            if state in ("staged", "deferred", "parked", "set_aside"):
                setattr(known[queue], state, number)
            if state == "staged":
                known[queue].staged_s = age_s or 0.0
        for each in known.values():
            each.dead = 0
        for queue, number, _ in connection.execute(self._figures.dead, parameters).fetchall():
            known.setdefault(queue, QueueNow(queue, holder="", paused=False)).dead = number

    # -- Redis
    def _ask_redis(self, found: Snapshot, known: dict[str, QueueNow]) -> None:
        flows = Flows(self._redis_url, self._prefix, timeout=self._timeout)
        try:
            for name in sorted(flows.queues())[:MOST_QUEUES]:
                known.setdefault(name, QueueNow(name))
            found.workers = flows.workers()
            asked_at, now = time.monotonic(), flows.look(list(known))
        finally:
            flows.close()
        with Depths(self._redis_url, self._prefix, timeout=self._timeout) as depths:
            deep = depths.look(list(known)) if known else {}
        before, self._flows = self._flows, (asked_at, now)
        for queue, each in known.items():
            _put_depth(each, deep[queue])
            if before is not None:
                _put_rates(each, before[1].get(queue), now.get(queue), asked_at - before[0])
            _put_workers(each, found.workers)


def relays(queues: Sequence[QueueNow]) -> list[RelayNow]:
    """Who holds which of these queues, and how far each lags behind."""
    held: dict[str, list[QueueNow]] = {}
    for each in queues:
        if each.holder:
            held.setdefault(each.holder, []).append(each)
    return [
        RelayNow(
            relay,
            [each.queue for each in theirs],
            sum(each.staged or 0 for each in theirs),
            max(each.staged_s or 0.0 for each in theirs),
            max((each.unsettled_s for each in theirs if each.unsettled_s is not None), default=None),
        )
        for relay, theirs in sorted(held.items())
    ]


def _put_depth(queue: QueueNow, depth: Depth) -> None:
    queue.ready, queue.ready_s = depth.ready, depth.ready_s
    queue.running, queue.due, queue.limited = depth.running, depth.due, depth.limited
    queue.behind, queue.unsettled_s = depth.behind, depth.unsettled_s


def _put_rates(queue: QueueNow, before: Flow | None, now: Flow | None, seconds: float) -> None:
    """Where Redis lost its data in between, nothing is known."""
    if now is None or before is None or seconds <= 0 or now.came < before.came or now.went < before.went:
        return
    queue.in_per_s = (now.came - before.came) / seconds
    queue.out_per_s = (now.went - before.went) / seconds
    if queue.out_per_s and queue.running is not None:
        queue.run_s = queue.running / queue.out_per_s


def _put_workers(queue: QueueNow, workers: Sequence[Presence]) -> None:
    takers = serving(workers, queue.queue)
    lags = [each.start_lag_s[queue.queue] for each in takers if queue.queue in each.start_lag_s]
    queue.workers = len(takers)
    queue.slots = sum(each.slots.get(queue.queue, 0) for each in takers)
    queue.start_s = statistics.median(lags) if lags else None
