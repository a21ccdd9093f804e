"""Relays whose rounds a test asks for one by one, and a worker's hand for what they publish."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import redis

from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.envelope import Envelope
from redisjobs.base.postgres import Database
from redisjobs.broker import Broker, Carrier, Delivery, Finish
from redisjobs.broker.client import connect
from redisjobs.leases import Hold
from redisjobs.relay import Relay
from redisjobs.settings import RelaySettings
from tests.support.builders import finish

LEASE_MS = 30_000


@dataclass
class RelayByHand:
    """A relay on stores of a test's choice; `round` is one of its rounds."""

    relay: Relay

    async def round(self) -> int:
        """Everything that is asked for in intervals is due now."""
        self.relay._due.update(look=0.0, side=0.0, dirty=0.0, events=0.0)
        return await self.relay.tick()

    async def rounds(self, most: int = 50) -> int:
        """Rounds until one finds nothing to do; answers how much they did."""
        done = 0
        for _ in range(most):
            did = await self.round()
            done += did
            if not did and not self.relay._named:
                return done
        raise AssertionError(f"after {most} rounds the relay still finds something to do")

    async def renewed(self) -> int:
        """A round in which leases are renewed and the lives of Redis looked at."""
        self.relay._due["renew"] = 0.0
        return await self.round()

    def hold(self, queue: str = "default") -> Hold:
        return self.relay.leases.held[queue]

    def holds(self, queue: str = "default") -> bool:
        return queue in self.relay.leases.held


@contextlib.asynccontextmanager
async def relay_by_hand(
    database_url: str,
    redis_url: str,
    *,
    name: str = "",
    schema: str = "redisjobs",
    clock: Clock = SYSTEM_CLOCK,
    timeout: float = 10.0,
    **settings: Any,
) -> AsyncIterator[RelayByHand]:
    """A relay with its own connections; stopped at the end if the test has started it."""
    database, client = Database(database_url), connect(redis_url, timeout=timeout)
    await database.open()
    relay = Relay(
        database,
        Carrier(client),
        RelaySettings(**settings),
        name=name or f"relay-{secrets.token_hex(4)}",
        schema=schema,
        clock=clock,
    )
    try:
        yield RelayByHand(relay)
    finally:
        if relay.state == "running":
            await relay.stop(5)
        await database.close()
        await client.aclose()


class Hand:
    """A worker that does what a test says, for one queue at a time."""

    def __init__(self, broker: Broker, consumer: str = "hand") -> None:
        self.broker = broker
        self.consumer = consumer

    async def take(self, count: int = 100, queue: str = "default") -> list[Delivery]:
        return (await self.broker.take(queue, self.consumer, count, lease_ms=LEASE_MS)).deliveries

    async def one(self, queue: str = "default") -> Delivery:
        taken = await self.take(1, queue)
        assert taken, f"nothing waits in {queue}"
        return taken[0]

    async def end(self, *ends: Finish) -> list[str]:
        """End attempts of one queue, and tell the relay."""
        queue = ends[0].delivery.queue
        answers = await self.broker.finish(queue, self.consumer, ends)
        await self.broker.mark_dirty([queue])
        return list(answers)

    async def run(self, word: Any = "done", queue: str = "default", count: int = 100, **given: Any) -> list[UUID]:
        """Take what waits and end all of it with this word."""
        taken = await self.take(count, queue)
        if taken:
            await self.end(*[finish(each, word, **given) for each in taken])
        return [job_of(each) for each in taken]

    async def promote(self, queue: str = "default") -> int:
        return (await self.broker.promote(queue)).moved


@contextlib.asynccontextmanager
async def hand(redis_url: str, consumer: str = "hand") -> AsyncIterator[Hand]:
    broker = Broker.connect(redis_url)
    try:
        yield Hand(broker, consumer)
    finally:
        await broker.close()


def job_of(delivery: Delivery) -> UUID:
    return UUID(bytes=delivery.job_id)


def envelope_of(delivery: Delivery) -> Envelope:
    return Envelope.unpack(delivery.body)


def in_line(client: redis.Redis, queue: str = "default", band: int = 1) -> list[UUID]:
    """The jobs of a band's stream, in their order."""
    entries: Any = client.xrange(f"rj:{{{queue}}}:ready:{band}")
    return [UUID(bytes=fields[b"j"]) for _, fields in entries]
