"""The relay: the one process that speaks Postgres and Redis, and carries between them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.postgres import Database
from redisjobs.base.service import Service
from redisjobs.broker import Carrier, OtherLife, Stale
from redisjobs.errors import StoreUnavailable
from redisjobs.leases import Hold, Leases
from redisjobs.logs import event
from redisjobs.memory import Memory
from redisjobs.publisher import Publisher
from redisjobs.recovery import Recovery, Walk
from redisjobs.settings import RelaySettings
from redisjobs.settler import Settler
from redisjobs.wakeup import Ear

log = logging.getLogger("redisjobs.relay")

SIDE_BY_SIDE = 3
"""Queues worked on at the same time."""
COOLING_S = 5.0
"""How long a queue without work is still looked at in every round."""
BUSY_WAKES = 5
"""Wake-ups of one queue within a round's interval from which on it is polled instead."""
POLL_S = 0.005
"""Between looks at a queue that is polled."""
DOZE_S = 0.3
"""How long a polled queue may be empty before its producers are asked to notify again."""
CLEAN_S = 60.0
AUDIT_S = 1.0
AUDIT_PAUSE_S = 60.0


@dataclass(slots=True, eq=False)
class Activity:
    """What a relay remembers of a queue between rounds."""

    busy_until: float = 0.0
    polled: bool = False
    asleep_since_xid: int | None = None
    wakes: int = 0
    last_work: float = 0.0
    side_at: float = 0.0
    walk: Walk = field(default_factory=Walk)
    audit_at: float = 0.0


class Relay(Service):
    """Publishes and settles the queues that it holds. Any number of relays may run; each queue is held by one.

    `tick` is one bounded round over everything that asks for work.

    Args:
        name: unlike that of any other relay.
        redis: the carrier's client; closed by the caller.
    """

    def __init__(
        self,
        database: Database,
        carrier: Carrier,
        settings: RelaySettings | None = None,
        *,
        name: str,
        schema: str = "redisjobs",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.settings = settings = settings or RelaySettings()
        super().__init__(f"relay {name}", settings.every, clock)
        self.database = database
        self.carrier = carrier
        self.leases = Leases(database, name, settings.lease_s, schema, clock)
        self.publisher = Publisher(
            database, carrier, batch_size=settings.batch_size, horizon=settings.horizon_s,
            retention=settings.retention_s, schema=schema, clock=clock,
        )  # fmt: skip
        self.settler = Settler(database, carrier, retention=settings.retention_s, schema=schema)
        self.recovery = Recovery(database, carrier, settings.lease_s, schema)
        self.memory = Memory(carrier, settings.memory_budget)
        self.ear = Ear(database, schema, self._heard)
        self.activity: dict[str, Activity] = {}
        self.published = self.settled = 0
        self._named: set[str] = set()
        self._due = {"renew": 0.0, "look": 0.0, "clean": 0.0, "dirty": 0.0}
        self._look_pause = 0.0
        self._unknown: set[str] = set()

    # -- rounds
    async def _round(self) -> int:
        now = self.clock.monotonic()
        if now >= self._due["renew"]:
            await self._renew()
            self._due["renew"] = self.clock.monotonic() + self.settings.lease_s / 3
        await self._find_work(now)
        did = await self._each(self._asking(), self._work)
        if now >= self._due["clean"]:
            await self.settler.clean()
            self._due["clean"] = now + CLEAN_S
        return did

    def _pause(self, did: int) -> float:
        if did or self._named or self._unknown:
            return 0.0
        polled = any(each.polled for each in self.activity.values())
        return min(POLL_S, self.interval) if polled else self._until_next()

    def _until_next(self) -> float:
        now = self.clock.monotonic()
        return max(0.001, min(self.interval, self._due["renew"] - now))

    async def _open(self) -> None:
        await self.database.open()
        await self.ear.start()
        event(log, logging.INFO, "relay.started", part=self.name)
        await super()._open()

    async def _close(self) -> None:
        await super()._close()
        await self.ear.stop()
        with contextlib.suppress(StoreUnavailable):
            await asyncio.wait_for(self.leases.let_go(), 5.0)
        event(log, logging.INFO, "relay.stopped", part=self.name, published=self.published, settled=self.settled)

    # -- what asks for work
    def _heard(self, queue: str) -> None:
        """A producer's commit, or an operator, named this queue."""
        if queue in self.leases.held:
            self._named.add(queue)
            self._active(queue).wakes += 1
        else:
            self._unknown.add(queue)
        self.wake()

    def _active(self, queue: str) -> Activity:
        return self.activity.setdefault(queue, Activity())

    async def _renew(self) -> None:
        """Renew leases and look at Redis' life; both are due long before either ends."""
        self._unknown.update(set(self._named) - set(self.leases.held))
        await self.leases.renew()
        for queue in set(self.activity) - set(self.leases.held):
            del self.activity[queue]
        await self.memory.look(self.clock.monotonic())
        if self.memory.restarted:
            for each in self.activity.values():
                each.walk, each.audit_at = Walk(), 0.0
        await self._each(list(self.leases.held.values()), self._look)

    async def _look(self, hold: Hold) -> int:
        async with hold.turn:
            before = hold.epoch
            await self.recovery.look(hold)
            if hold.epoch != before:
                self._touch(hold)
        return 0

    async def _find_work(self, now: float) -> None:
        """Queues that Postgres or Redis name, beside those that were heard of."""
        if now >= self._due["dirty"]:
            for queue in await self.carrier.dirty(1000):
                if queue in self.leases.held:
                    self._touch(self.leases.held[queue])
            self._due["dirty"] = now + self.interval
        if now >= self._due["look"] or self._unknown:
            began = self.clock.monotonic()
            found = set(await self.leases.with_work(self.settings.horizon_s)) | self._unknown
            self._unknown.clear()
            new = found - set(self.leases.held)
            if new:
                await self._take(new)
            self._named |= found & set(self.leases.held)
            # a look costs little, unless an old snapshot keeps dead rows in the index: then it is taken less often
            took = self.clock.monotonic() - began
            self._due["look"] = began + max(self.interval, 20 * took)

    async def _take(self, queues: set[str]) -> None:
        await self.leases.meet(sorted(queues))
        await self.leases.renew()
        taken = [self.leases.held[queue] for queue in queues if queue in self.leases.held]
        if taken:
            await self.carrier.announce([hold.queue for hold in taken])

    def _touch(self, hold: Hold) -> None:
        self._active(hold.queue).busy_until = self.clock.monotonic() + COOLING_S

    def _asking(self) -> list[Hold]:
        now = self.clock.monotonic()
        named, self._named = self._named, set()
        return [
            hold
            for queue, hold in self.leases.held.items()
            if queue in named or not hold.opened or now < self._active(queue).busy_until or self._active(queue).polled
            or now >= self._active(queue).audit_at
        ]  # fmt: skip

    # -- the work on one queue
    async def _each(self, holds: Iterable[Hold], do: Callable[[Hold], Awaitable[int]]) -> int:
        """Do something with several queues, a few side by side; the trouble of one does not stop the others."""
        room, errors, did = asyncio.Semaphore(SIDE_BY_SIDE), list[StoreUnavailable](), 0

        async def one(hold: Hold) -> None:
            nonlocal did
            async with room:
                try:
                    did += await do(hold)
                except Stale as error:
                    event(log, logging.WARNING, "relay.queue_lost", queue=hold.queue, reason=error)
                    self.leases.drop(hold)
                except OtherLife:
                    hold.opened = False
                    self._named.add(hold.queue)
                except StoreUnavailable as error:
                    errors.append(error)
                except Exception as error:  # noqa: BLE001 - one queue's trouble must not stop the others
                    event(log, logging.ERROR, "relay.queue_failed", queue=hold.queue, exc_info=error,
                          error=f"{type(error).__name__}: {error}")  # fmt: skip

        await asyncio.gather(*(one(hold) for hold in holds))
        if errors:
            raise errors[0]
        return did

    async def _work(self, hold: Hold) -> int:
        """One turn on a queue: publish, settle, and what can wait; in this order and never side by side."""
        active = self._active(hold.queue)
        async with hold.turn:
            if not await self._may_work(hold):
                return 0
            published = await self._publish(hold)
            settled = await self.settler.settle(hold)
            await self._beside(hold, active)
        self.published += published
        self.settled += settled
        if published or settled:
            active.last_work = self.clock.monotonic()
            self._touch(hold)
        await self._doze(hold, active, published)
        return published + settled

    async def _may_work(self, hold: Hold) -> bool:
        if not self.leases.trusts(hold):
            self.leases.drop(hold)
            self._due["renew"] = 0.0
            return False
        if hold.unsure and not await self.leases.take_fresh_token(hold):
            return False
        if not hold.opened:
            await self.recovery.open(hold)
        return True

    async def _publish(self, hold: Hold) -> int:
        await self.memory.look(self.clock.monotonic())
        if hold.paused or self.memory.full:
            return 0
        return await self.publisher.publish(hold)

    async def _beside(self, hold: Hold, active: Activity) -> None:
        """Cancels, rows that come within the horizon, and a slice of the audit."""
        now = self.clock.monotonic()
        if now < active.side_at:
            return
        active.side_at = now + max(self.interval, 0.1)
        await self.publisher.cancel(hold)
        if not hold.paused and await self.publisher.come_due(hold):
            self._named.add(hold.queue)
        if now < active.audit_at:
            return
        await self.recovery.audit(hold, active.walk)
        active.audit_at = now + AUDIT_S
        if active.walk.through:
            active.walk, active.audit_at = Walk(), now + AUDIT_PAUSE_S

    async def _doze(self, hold: Hold, active: Activity, published: int) -> None:
        """Poll a busy queue, so that its producers pay no NOTIFY; ask them to notify again when it has gone quiet."""
        now = self.clock.monotonic()
        if not active.polled:
            if active.wakes >= BUSY_WAKES or published >= self.settings.batch_size:
                await self.leases.wake_up(hold)
                active.polled, active.asleep_since_xid = True, None
            active.wakes = 0
        elif active.asleep_since_xid is not None:
            # an older transaction may have looked before the flag was set: poll on until none is left
            if await self.leases.oldest_running() > active.asleep_since_xid:
                active.polled, active.asleep_since_xid = False, None
        elif now - active.last_work > DOZE_S:
            active.asleep_since_xid = await self.leases.fall_asleep(hold)

    def stats(self) -> dict[str, Any]:
        """What the relay does: the queues it holds, and what it has carried since it was made."""
        return {
            "name": self.name,
            "state": self.state,
            "queues": sorted(self.leases.held),
            "published": self.published,
            "settled": self.settled,
            "redis_full": self.memory.full,
            "listens": self.ear.hears,
        }
