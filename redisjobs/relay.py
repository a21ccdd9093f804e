"""The relay: the one process that speaks Postgres and Redis, and carries between them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from redisjobs.audit import Audit
from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.postgres import Database, was_locked
from redisjobs.base.service import Service
from redisjobs.broker import Carrier, OtherLife, Stale
from redisjobs.carried import Carried
from redisjobs.deliverer import Deliverer
from redisjobs.dozing import Activity, doze
from redisjobs.errors import BrokerUnavailable, RedisjobsError, StoreUnavailable
from redisjobs.leases import Hold, Leases
from redisjobs.logs import event
from redisjobs.memory import Memory
from redisjobs.mover import Mover
from redisjobs.outages import Outages
from redisjobs.publisher import Publisher
from redisjobs.recovery import Recovery
from redisjobs.settings import RelaySettings
from redisjobs.settler import Settler
from redisjobs.wakeup import EVENTS, Ear

log = logging.getLogger("redisjobs.relay")

SIDE_BY_SIDE = 3
"""Queues worked on at the same time."""
POLL_S = 0.005
"""Between looks at a queue that is polled."""
QUIET_S = 1.0
"""Between looks at the whole of both stores while nothing goes on and producers are heard."""
LEFT_S = 0.05
"""Until events are handed out once more whose runs were locked just now."""
SIDE_S = 0.1
"""Between two looks for cancels, moves and what comes due, however often queues are called."""
CLEAN_S = AUDIT_PAUSE_S = 60.0
AUDIT_S = 1.0


class Relay(Service):
    """Publishes and settles the queues that it holds. Any number of relays may run; each queue is held by one.

    `tick` is one bounded round over everything that asks for work.

    Args:
        name: unlike that of any other relay.
        carrier: its client is closed by the caller, and so is the database.
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
        self.memory = Memory(carrier, settings.memory_budget, clock)
        self.leases = Leases(database, name, settings.lease_s, schema, clock)
        self.publisher = Publisher(
            database, carrier, batch_size=settings.batch_size, horizon=settings.horizon_s,
            retention=settings.retention_s, admits=self._admits, schema=schema, clock=clock,
        )  # fmt: skip
        self.mover = Mover(database, carrier, schema)
        self.settler = Settler(
            database, carrier, retention=settings.retention_s, horizon=settings.horizon_s, schema=schema, clock=clock
        )
        self.deliverer = Deliverer(database, self.leases, retention=settings.retention_s, schema=schema, clock=clock)
        self.recovery = Recovery(database, carrier, settings.lease_s, schema, clock)
        self.audit = Audit(database, carrier, schema)
        self.ear = Ear(database, schema, self._heard, self._called)
        self.activity: dict[str, Activity] = {}
        self.carried: dict[str, Carried] = {}
        self._named: set[str] = set()
        self._strangers: set[str] = set()
        self._due: dict[str, float] = {}
        self._sides_from = 0.0
        self._outages = Outages()

    @property
    def published(self) -> int:
        """Rows that it brought out of their lines since it was made."""
        return sum(each.published for each in self.carried.values())

    @property
    def settled(self) -> int:
        """Outcomes that it took to Postgres since it was made."""
        return sum(each.settled for each in self.carried.values())

    # -- rounds
    async def _round(self) -> int:
        if self._is_due("renew", self.settings.lease_s / 3):
            await self._or_soon("renew", self._renew)
        await self._find_work()
        did = await self._each(self._asking(), self._work)
        did += await self._work_aside()
        did += await self._deliver()
        if self._is_due("clean", CLEAN_S):
            await self.settler.clean()
            await self.deliverer.clean()
        if self._is_due("audit", AUDIT_S):
            did += await self._audit()
        return did

    def _is_due(self, what: str, pause: float) -> bool:
        now = self.clock.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + pause
        return True

    async def _or_soon(self, what: str, do: Callable[[], Awaitable[None]]) -> None:
        """What fails is due again in the next round."""
        try:
            await do()
        except BaseException:
            self._due[what] = 0.0
            raise

    def _pause(self, did: int) -> float:
        if did or self._named or self._strangers or (self.deliverer.asks and not self.deliverer.polled):
            return 0.0
        now = self.clock.monotonic()
        polled = self.deliverer.hurries or any(each.hurries for each in self.activity.values())
        until = min(self._due.get(what, 0.0) for what in ("renew", "look", "side", "dirty", "events")) - now
        until = min(until, self._outages.next_in(now))
        longest = POLL_S if polled else self._look_pause()
        return max(0.001, min(longest, until))

    def _is_quiet(self, now: float) -> bool:
        """Nothing goes on, and what begins will be heard of."""
        hears = self.ear.hears and self.settings.horizon_s > 10 * QUIET_S
        return hears and not self.deliverer.polled and not any(each.asks(now) for each in self.activity.values())

    def _look_pause(self) -> float:
        return max(self.interval, QUIET_S) if self._is_quiet(self.clock.monotonic()) else self.interval

    async def _open(self) -> None:
        await self.database.open()
        self._due.clear()
        await self.ear.start()
        event(log, logging.INFO, "relay.started", part=self.name)
        await super()._open()

    async def _close(self) -> None:
        await super()._close()
        await self.ear.stop()
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            await asyncio.wait_for(self.leases.let_go(), 5.0)
        event(log, logging.INFO, "relay.stopped", part=self.name, published=self.published, settled=self.settled)

    # -- what asks for work
    def _heard(self, queue: str) -> None:
        """A producer's commit named this queue, or one that sent events."""
        if queue == EVENTS:
            self.deliverer.call()
        elif queue in self.leases.held:
            self._named.add(queue)
            self._active(queue).wakes += 1
        else:
            self._strangers.add(queue)
        # it may have been a cancel or a move
        self._due["side"] = min(self._due.get("side", 0.0), self._sides_from)
        self.wake()

    def _called(self) -> None:
        """An operator changed something, or commits may have gone unheard: look at everything."""
        self._due.update(renew=0.0, look=0.0, side=0.0)
        self.deliverer.call()
        self.wake()

    def _active(self, queue: str) -> Activity:
        return self.activity.setdefault(queue, Activity())

    async def _renew(self) -> None:
        """Renew leases and look at Redis' lives; both are due long before either ends."""
        self._strangers.update(self._named - set(self.leases.held))
        self._took(await self.leases.renew())
        self._due["keep"] = self.clock.monotonic() + self.settings.lease_s / 3
        for queue in set(self.activity) - set(self.leases.held):
            del self.activity[queue]
        if await self.memory.has_restarted():
            self.audit.begin(age_s=0.0)
            self._due["audit"] = 0.0
        holds = list(self.leases.held.values())
        if not holds:
            return
        marks = await self.carrier.lives([hold.queue for hold in holds])
        for hold, mark in zip(holds, marks, strict=True):
            if mark is not None and (mark.epoch, mark.fence) != (hold.epoch, hold.token):
                hold.opened = False
        # a worker that died before it named its queue, and the end of a job that nobody holds, are found here
        unsettled = await self.carrier.unsettled({hold.queue: hold.settled for hold in holds if hold.opened})
        self._named |= unsettled
        with contextlib.suppress(BrokerUnavailable):  # so full that not even a name fits
            await self.carrier.announce([hold.queue for hold in holds])

    async def _keep(self) -> None:
        """A long round, or a long pass in it, renews the leases on its way."""
        if self._is_due("keep", self.settings.lease_s / 3) and not await self.leases.keep():
            self._due["keep"] = 0.0

    async def _admits(self, size: int) -> bool:
        await self._keep()
        return await self.memory.admits(size)

    def _took(self, holds: Iterable[Hold]) -> None:
        """A queue whose last holder polled it is polled on: its producers do not notify."""
        for hold in holds:
            self.activity[hold.queue] = Activity(polled=not hold.asleep)

    async def _find_work(self) -> None:
        """Queues that Postgres or Redis name, beside those that were heard of."""
        pause = self._look_pause()
        if self._is_due("dirty", pause):
            await self._find_outcomes()
        if self._strangers or self._is_due("look", pause):
            began = self.clock.monotonic()
            found = self._strangers | await self.leases.with_staged()
            self._strangers.clear()
            await self._take(found)
            # a look costs little, unless an old snapshot keeps dead rows in the index: then it is taken less often
            self._due["look"] = began + max(pause, 20 * (self.clock.monotonic() - began))

    async def _deliver(self) -> int:
        """Events, where some were sent, are to be handed out again, or may have been missed."""
        if self.settler.told:
            self.settler.told = False
            self.deliverer.call()
        if not (self._is_due("events", self._look_pause()) or self.deliverer.asks):
            return 0
        looked = await self.deliverer.deliver()
        if self.deliverer.left:
            self._due["events"] = self.clock.monotonic() + LEFT_S
        return looked

    async def _find_outcomes(self) -> None:
        try:
            dirty = await self.carrier.dirty()
        except BrokerUnavailable:
            if not self.carrier.is_spread:
                raise
            return  # its node is away: outcomes are looked for with every renewal too
        mine = dirty & set(self.leases.held)
        if mine:
            await self.carrier.clean(sorted(mine))
        for queue in mine:
            self._active(queue).touch(self.clock.monotonic())
        if dirty - mine:
            await self._take(dirty)

    async def _take(self, queues: set[str]) -> None:
        """Take those that are free; those that are held then get a turn."""
        await self._take_free(queues - set(self.leases.held))
        self._named |= queues & set(self.leases.held)

    async def _take_free(self, strangers: set[str]) -> None:
        taken = await self.leases.take(strangers)
        self._took(taken)
        with contextlib.suppress(*([BrokerUnavailable] if self.carrier.is_spread else [])):  # every renewal says it too
            await self.carrier.announce([hold.queue for hold in taken])

    def _asking(self) -> list[Hold]:
        now = self.clock.monotonic()
        named, self._named = self._named | self._outages.due(now), set()
        asking = named | {queue for queue, active in self.activity.items() if active.asks(now)}
        return [hold for queue, hold in self.leases.held.items() if queue in asking or not hold.opened]

    # -- the work on one queue
    async def _each(self, holds: Sequence[Hold], do: Callable[[Hold], Awaitable[int]]) -> int:
        """Do something with several queues, a few side by side; the trouble of one does not stop the others.

        Raises:
            StoreUnavailable: of the first that met it, where so many did that the store is away.
        """
        room, errors, did = asyncio.Semaphore(SIDE_BY_SIDE), dict[str, StoreUnavailable](), 0
        spread, now = self.carrier.is_spread, self.clock.monotonic()
        holds = [hold for hold in holds if not self._outages.rests(hold.queue, now)]
        enough = len(self.leases.held) if spread else min(SIDE_BY_SIDE, len(holds))

        async def one(hold: Hold) -> None:
            nonlocal did
            async with room:
                if len(errors) < enough:
                    try:
                        much = await do(hold)
                        did += much
                        self._outages.over(hold.queue)
                    except StoreUnavailable as error:
                        if was_locked(error):  # somebody holds a row of this queue: the store is there
                            self._failed(hold, error)
                        else:
                            errors[hold.queue] = error
                    except Exception as error:  # noqa: BLE001 - one queue's trouble must not stop the others
                        self._failed(hold, error)

        await asyncio.gather(*(one(hold) for hold in holds))
        if not spread:
            self._named.update(errors)
        if len(errors) >= enough and errors:
            raise next(iter(errors.values()))
        for queue, error in errors.items():
            if not spread or self._outages.met(queue, self.clock.monotonic()):
                event(log, logging.WARNING, "relay.queue_waits", queue=queue, error=error)
        return did

    def _failed(self, hold: Hold, error: Exception) -> None:
        if isinstance(error, OtherLife):
            hold.opened = False
            self._named.add(hold.queue)
        elif isinstance(error, Stale):
            self._carried(hold).relay_lease_lost += 1
            event(log, logging.WARNING, "relay.queue_lost", queue=hold.queue, reason=error)
            self.leases.drop(hold)
        elif was_locked(error):
            self._active(hold.queue).touch(self.clock.monotonic())
            event(log, logging.WARNING, "relay.queue_waits", queue=hold.queue, error=error)
        else:
            trace = None if isinstance(error, RedisjobsError) else error
            event(log, logging.ERROR, "relay.queue_failed", queue=hold.queue,
                  error=f"{type(error).__name__}: {error}", exc_info=trace)  # fmt: skip

    async def _work(self, hold: Hold) -> int:
        """One turn on a queue: publish and settle, in this order and never side by side."""
        active = self._active(hold.queue)
        await self._keep()
        async with hold.in_turn():
            if not await self._may_work(hold):
                return 0
            published, settled = await self._carry(hold)
        now = self.clock.monotonic()
        if published or settled:
            active.worked(now)
        elif hold.held_up.outcomes:
            active.touch(now)
        full = published >= self.settings.batch_size
        if await doze(self.leases, hold, active, full_batch=full, now=now):
            self._named.add(hold.queue)
        return published + settled

    def _carried(self, hold: Hold) -> Carried:
        return self.carried.setdefault(hold.queue, Carried())

    async def _may_work(self, hold: Hold) -> bool:
        if not self.leases.trusts(hold):
            self.leases.drop(hold)
            self._due["renew"] = 0.0
            return False
        if hold.unsure and not await self.leases.take_fresh_token(hold):
            return False
        if hold.opened:
            return True
        life = hold.epoch
        try:
            opened = await self.recovery.open(hold)
        except Stale as error:
            # Postgres says that the queue is ours: it went back to an older state, and Redis did not
            if not error.fence or not await self.leases.take_fresh_token(hold, above=error.fence):
                raise
            opened = await self.recovery.open(hold)
        self._carried(hold).recoveries += bool(life) and hold.epoch != life
        self._active(hold.queue).touch(self.clock.monotonic())
        return opened

    async def _carry(self, hold: Hold) -> tuple[int, int]:
        """Publish and settle. Where Redis is too full to publish, what has ended still settles: that makes room.

        So it does where somebody holds a row that is to be published.
        """
        published, trouble, carried = 0, None, self._carried(hold)
        if not hold.paused and await self.memory.has_room():
            try:
                published = await self.publisher.publish(hold)
            except StoreUnavailable as error:
                carried.publish_failures += 1
                if not isinstance(error, BrokerUnavailable) and not was_locked(error):
                    raise
                trouble = error
        carried.published += published
        carried.publish_failures += bool(hold.failing)
        settled = await self.settler.settle(hold)
        carried.settled += settled
        await self.memory.catch_up()
        if trouble:
            raise trouble
        return published, settled

    # -- the work beside the lines
    async def _work_aside(self) -> int:
        """Cancels, moves and rows that come due, of all queues: behind the turns, so that what was just committed waits
        for none of it.
        """
        if not self._is_due("side", self._look_pause()):
            return 0
        self._sides_from = self.clock.monotonic() + SIDE_S
        found = await self.leases.with_side_work(self.settings.horizon_s)
        await self._take_free(set(found) - set(self.leases.held))
        holds = [self.leases.held[queue] for queue in found if queue in self.leases.held]
        did = await self._each(holds, lambda hold: self._beside(hold, found[hold.queue]))
        if did:
            self._due["side"] = 0.0  # there may be more
        return did

    async def _beside(self, hold: Hold, kinds: Iterable[str]) -> int:
        do = {"cancel": self.publisher.cancel, "move": self.mover.move, "due": self.publisher.come_due}
        await self._keep()
        async with hold.in_turn():
            if not await self._may_work(hold):
                return 0
            did = sum([await do[kind](hold) for kind in kinds])
        if did:
            self._active(hold.queue).worked(self.clock.monotonic())
        return did

    async def _audit(self) -> int:
        try:
            mended = await self.audit.step(self.leases.held)
        except (Stale, OtherLife):
            self._due["renew"] = 0.0  # looks at every queue's life
            return 0
        if mended:
            self._due["look"] = 0.0
        if self.audit.through:
            self.audit.begin()
            self._due["audit"] = self.clock.monotonic() + AUDIT_PAUSE_S
        return mended

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
