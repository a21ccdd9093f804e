"""The whole road, on real servers and in memory, as one thing: it moves only when a test says so."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Protocol
from uuid import UUID

import psycopg
import redis

from redisjobs.app import App
from redisjobs.call import Call, Handle
from redisjobs.testing import World, in_memory
from redisjobs.worker import Worker
from tests.support.builders import states
from tests.support.relays import RelayByHand, relay_by_hand

QUIET_ROUNDS = 2


class AnyRoad(Protocol):
    """A road for the jobs of an app."""

    def connect(self) -> contextlib.AbstractAsyncContextManager[Any]:
        """An async connection, committed at the end of the block."""
        ...

    async def settle(self) -> None:
        """Everything runs that can run now."""
        ...

    def state(self, job: Handle[Any]) -> str: ...

    async def flushall(self) -> None: ...


class RealRoad:
    """A relay whose rounds are asked for, and a worker that is ticked."""

    def __init__(self, database_url: str, redis_url: str, relay: RelayByHand, worker: Worker) -> None:
        self.database_url, self.redis_url = database_url, redis_url
        self.relay, self.worker = relay, worker

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with await psycopg.AsyncConnection.connect(self.database_url) as connection:
            yield connection

    async def settle(self) -> None:
        quiet = 0
        while quiet < QUIET_ROUNDS:
            did = await self.relay.renewed() + await self.worker.tick()
            quiet = 0 if did else quiet + 1

    def state(self, job: Handle[Any]) -> str:
        with psycopg.connect(self.database_url) as connection:
            return states(connection)[UUID(job.id)]

    async def flushall(self) -> None:
        with redis.Redis.from_url(self.redis_url) as client:
            client.flushall()


class MemoryRoad:
    """The world of the test kit."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.connect = world.connect
        self.settle, self.flushall = world.settle, world.flushall

    def state(self, job: Handle[Any]) -> str:
        return self.world.state(job).state


@contextlib.asynccontextmanager
async def real_road(app: App, database_url: str, redis_url: str) -> AsyncIterator[AnyRoad]:
    """On these servers; the app must know them too."""
    worker = Worker(app, queues=["*"], drain_on_shutdown=False)
    async with relay_by_hand(database_url, redis_url) as relay:
        yield RealRoad(database_url, redis_url, relay, worker)
    await worker.stop(1)
    await app.close()


@contextlib.asynccontextmanager
async def memory_road(app: App) -> AsyncIterator[AnyRoad]:
    """Without a server."""
    async with in_memory(app) as world:
        yield MemoryRoad(world)


async def enqueued(road: AnyRoad, app: App, *calls: Call[Any]) -> list[Handle[Any]]:
    """The handles of calls that were committed in one transaction."""
    async with road.connect() as connection:
        handles: list[Handle[Any]] = await app.enqueue(connection, *calls)
    return handles
