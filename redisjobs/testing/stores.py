"""The stores of a world, which an app is given in the place of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from redisjobs.broker import Broker, Heart
from redisjobs.call import Call
from redisjobs.direct import publication_of
from redisjobs.settings import Settings
from redisjobs.steps import StepStore
from redisjobs.stores import Stores, Words
from redisjobs.testing.clock import TurnedClock
from redisjobs.testing.outbox import Tables
from redisjobs.testing.outbox.tables import QueueRow
from redisjobs.testing.steps import MemorySteps

if TYPE_CHECKING:
    from redisjobs.testing.fake import FakeRedis


class MemoryStores(Stores):
    """Staging goes over connections in memory, which run it themselves; Redis is the world's own."""

    in_place_s = 0.05  # every sleep of a run is the world's to pass over, save what rounding leaves of one

    def __init__(self, settings: Settings, clock: TurnedClock, tables: Tables, redis: FakeRedis) -> None:
        super().__init__(settings)
        self._clock = clock
        self._tables = tables
        self._redis = redis

    @property
    def database_url(self) -> str | None:
        """None: the world's rows are in memory, and those of the program's database are none of its business."""
        return None

    async def put(self, broker: Callable[[], Broker], queue: str, calls: Sequence[Call[Any]]) -> Words:
        now = self._clock.now()
        words = await broker().enqueue_direct(queue, [publication_of(call, now) for call in calls])
        self._tables.queues.setdefault(queue, QueueRow(queue))
        return words

    def broker(self) -> Broker:
        return self._redis.broker()

    def heart(self, timeout: float) -> Heart:
        return self._redis.heart()

    def monotonic(self) -> float:
        return self._clock.time()

    def steps(self) -> StepStore:
        return MemorySteps(self._tables)
