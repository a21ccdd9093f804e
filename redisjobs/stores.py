"""How an app reaches its two stores: the seam at which the test kit puts others in their place."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from redisjobs import drivers, outbox
from redisjobs.base import connections
from redisjobs.broker import Broker, Heart
from redisjobs.call import Call
from redisjobs.direct import publication_of
from redisjobs.settings import Settings
from redisjobs.steps import StepStore

Words = list[tuple[str, bytes | None]]


class Stores:
    """Postgres on the caller's connection, and the Redis of the settings. Nothing connects before it is needed.

    Attributes:
        in_place_s: a durable run that has to wait no longer than this waits in its slot.
    """

    in_place_s = 3.0

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def database_url(self) -> str | None:
        """Where a worker finds rows of ours beside a caller's connection; None: nowhere."""
        return self.settings.database_url

    def stage(self, connection: connections.Sync, calls: Sequence[Call[Any]]) -> None:
        """Write the rows of these calls, one at least, in the caller's transaction; `SyncDriver` says what fails."""
        drivers.send(connection, outbox.stage(calls, self.settings.schema))

    async def stage_async(self, connection: connections.Async, calls: Sequence[Call[Any]]) -> None:
        """As `stage`, on an async connection."""
        await drivers.send_async(connection, outbox.stage(calls, self.settings.schema))

    async def put(self, broker: Callable[[], Broker], queue: str, calls: Sequence[Call[Any]]) -> Words:
        """Put calls of one queue straight into Redis; `Broker.enqueue_direct` says what is answered for each.

        Args:
            broker: that of the event loop that runs here.
        """
        return await broker().enqueue_direct(queue, [publication_of(call) for call in calls])

    def broker(self) -> Broker:
        """A broker for the event loop that runs here.

        Raises:
            ConfigurationError: no Redis URL was given.
        """
        return Broker.connect(self.settings.need_redis_url(), self.settings.prefix)

    def heart(self, timeout: float) -> Heart:
        """What renews leases from a thread of its own.

        Args:
            timeout: seconds after which an answer is no longer waited for.

        Raises:
            ConfigurationError: no Redis URL was given.
        """
        return Heart(self.settings.need_redis_url(), self.settings.prefix, timeout=timeout)

    def monotonic(self) -> float:
        """Seconds of a clock that goes as that of the stores, from anywhere."""
        return time.monotonic()

    def steps(self) -> StepStore:
        """The step store, for the event loop that runs here. It connects at its first question.

        Raises:
            ConfigurationError: no Postgres URL was given.
        """
        url = self.settings.need_database_url()
        # its pools are nothing that a producer should have to import
        store: StepStore = import_module("redisjobs.steps.postgres").PostgresSteps(url, self.settings.schema)
        return store
