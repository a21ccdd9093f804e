"""Looks at both stores now and then, in a thread of its own, for the gauges of a relay."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg

from redisjobs.base import statements
from redisjobs.base.postgres import array, in_our_words, options
from redisjobs.broker.depths import Depth, Depths
from redisjobs.errors import RedisjobsError
from redisjobs.logs import event
from redisjobs.monitoring.family import MOST_QUEUES
from redisjobs.monitoring.webhook_figures import EndpointFigure
from redisjobs.settings import Settings

_NAMES = ("bound", "unpublished", "resting", "dead", "may_see_endpoints", "endpoints")
statements.load("monitoring").require(*_NAMES)

LOOK_S = 10.0
NEWS_S = 0.5
SHARE = 20
"""After a look comes a pause of so many times its length: no look may keep a store busy."""
STALE_S = 300.0
"""Figures that are older are told no more."""
MOST_ROWS = 20_000
"""Up to here rows are counted."""
SMALL_BYTES = 64 * 1024 * 1024
"""Up to this size the whole outbox is read, for what no index finds."""
MOST_KINDS = 2_000
MOST_ENDPOINTS = 500

log = logging.getLogger("redisjobs.monitoring")

Figure: TypeAlias = tuple[int, float]
"""How many, and for how many seconds the oldest."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What Postgres holds of each queue: rows of the outbox by state, and dead letters; and of webhooks' endpoints."""

    states: Mapping[tuple[str, str], Figure]
    dead: Mapping[str, Figure]
    endpoints: Sequence[EndpointFigure] = ()


class Stores:
    """The latest figures of the queues that `floors` names, as far as a store tells them.

    Args:
        floors: the queues that this relay holds, and below which place each has no staged row any more.
    """

    def __init__(self, settings: Settings, floors: Callable[[], Mapping[str, int]]) -> None:
        self._settings = settings
        self._floors = floors
        self._sql = statements.load("monitoring", settings.schema).require(*_NAMES)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="redisjobs-stores", daemon=True)
        self._found: dict[str, tuple[float, Any]] = {}
        self._down: set[str] = set()

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; a look that a store keeps waiting is not waited for."""
        self._stopping.set()
        self._thread.join(0.5)

    @property
    def rows(self) -> Rows | None:
        """What Postgres told last; None: it does not tell."""
        found: Rows | None = self._latest("postgres")
        return found

    @property
    def depths(self) -> Mapping[str, Depth] | None:
        """What Redis told last; None: it does not tell."""
        found: Mapping[str, Depth] | None = self._latest("redis")
        return found

    def look(self) -> None:
        """Ask both stores once. One that fails leaves no figures, and is told of once."""
        floors = dict(sorted(self._floors().items())[:MOST_QUEUES])
        for store, ask in (("postgres", self._ask_postgres), ("redis", self._ask_redis)):
            try:
                self._found[store] = (time.monotonic(), ask(floors))
                self._down.discard(store)
            except Exception as error:  # noqa: BLE001 - whatever a store does, the next look comes
                self._found.pop(store, None)
                level = logging.WARNING if isinstance(error, RedisjobsError) else logging.ERROR
                if store not in self._down:
                    event(log, level, "metrics.store_silent", store=store, error=str(error))
                self._down.add(store)

    def _latest(self, store: str) -> Any:
        at, found = self._found.get(store, (0.0, None))
        return found if time.monotonic() - at <= STALE_S else None

    def _run(self) -> None:
        while not self._stopping.is_set():
            began, held = time.monotonic(), bool(self._floors())
            self.look()
            ends_at = time.monotonic() + max(LOOK_S, SHARE * (time.monotonic() - began))
            while not self._stopping.wait(NEWS_S) and time.monotonic() < ends_at:
                if not held and self._floors():  # a relay that has just started has got its first queues
                    break

    def _ask_postgres(self, floors: Mapping[str, int]) -> Rows:
        parameters = {
            "queues": list(floors),
            "floors": array(str(floor) for floor in floors.values()),
            "limit": MOST_ROWS,
            "kinds": MOST_KINDS,
            "most_bytes": SMALL_BYTES,
        }
        url = self._settings.need_database_url()
        wanted = (self._sql.unpublished, self._sql.resting, self._sql.dead)
        with (
            in_our_words("look at the outbox"),
            psycopg.connect(url, **options()) as connection,
            connection.transaction(),
        ):
            connection.execute(self._sql.bound)
            unpublished, resting, dead = (connection.execute(each, parameters).fetchall() for each in wanted)
            endpoints = self._ask_endpoints(connection)
        states = {(queue, state): (n, age or 0.0) for queue, state, n, age in (*unpublished, *resting)}
        return Rows(
            {key: figure for key, figure in states.items() if key[0] in floors},
            dict.fromkeys(floors, (0, 0.0)) | {queue: (n, age) for queue, n, age in dead if queue in floors},
            endpoints,
        )

    def _ask_endpoints(self, connection: psycopg.Connection[tuple[Any, ...]]) -> list[EndpointFigure]:
        """None where this role may not see them: its rights may be older than they are."""
        row = connection.execute(self._sql.may_see_endpoints).fetchone()
        if row is None or not row[0]:
            return []
        return [
            (str(name), bool(enabled), failing_s)
            for name, enabled, failing_s in connection.execute(
                self._sql.endpoints, {"limit": MOST_ENDPOINTS}
            ).fetchall()
        ]

    def _ask_redis(self, floors: Mapping[str, int]) -> dict[str, Depth]:
        with Depths(self._settings.need_redis_url(), self._settings.prefix) as depths:
            return depths.look(list(floors))
