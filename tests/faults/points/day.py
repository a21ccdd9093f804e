"""A day at the market: each kind of job once or twice, with stores that have lost this and that the night before.

Somebody is hit at a point; at the end of the day every promise must hold all the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.faults.points import market
from tests.faults.points.arms import Arm, Visit, Visits
from tests.faults.points.point import SIGNALS, Part
from tests.faults.points.table import POINTS
from tests.faults.road import LEASE_S, Road, last
from tests.support.builders import finish
from tests.support.eventually import eventually
from tests.support.processes import Program
from tests.support.receiver import Receiver
from tests.support.relays import Hand, RelayByHand, hand, relay_by_hand
from tests.support.schedules import make

RELAY_LEASE_S = 2.0
WITHIN_S = 100.0
"""An audit that was disturbed begins anew after a minute."""
PLACE = "tests.faults.points.market:app"
QUEUES = "default,night,attic,webhooks"
STEPS = ("pack", "book")


class Day:
    """One day.

    Args:
        arms: what is to happen, all of it in the one program of its part that is started first.
    """

    def __init__(self, road: Road, visits: Visits, receiver: Receiver, *arms: Arm) -> None:
        self.road, self.visits, self.receiver = road, visits, receiver
        self.arms = arms
        self.ends: dict[str, str] = {}
        self.journeys: list[str] = []
        self.banked: list[str] = []
        self.delivered: list[str] = []
        self.victims: set[int] = set()
        self._first: dict[Part, Program] = {}
        self._trader: Program | None = None

    # -- programs
    def start(self, part: Part, *arms: Arm) -> Program:
        """Start a program of this kind; it notes the points to which it comes."""
        env = self.visits.env(*arms) | {market.HOOK: self.receiver.url}
        match part:
            case "relay":
                return self.road.relay(lease=RELAY_LEASE_S, env=env)
            case "worker":
                return self.road.worker("-q", QUEUES, place=PLACE, slots=4, env=env)
            case "scheduler":
                return self.road.processes.redisjobs("scheduler", "--interval", "200ms", env=self.road._env(env=env))
            case "producer":
                door = "from tests.faults.points.producer import main; main()"
                return self.road.processes.python("-c", door, env=self.road._env(env=env))

    def open(self) -> None:
        """Start one program of each kind, those that are to be hit among them."""
        self.road.processes.door = "from tests.faults.points.armed import main"
        parts: tuple[Part, ...] = ("relay", "worker", "scheduler")
        for part in parts:
            self._first[part] = self.start(part, *self._arms_of(part))

    def _arms_of(self, part: Part) -> list[Arm]:
        return [each for each in self.arms if POINTS[each.point].part == part]

    # -- what is done to them
    async def hit(self, arm: Arm) -> None:
        """Wait until it has happened; a program that is gone, or stands still, is replaced."""
        await self._when(lambda: self.visits.happened(arm), f"{arm.effect} at {arm.point}")
        visit = self.visits.happened(arm)
        if visit is None or arm.effect not in SIGNALS:
            return
        part = POINTS[arm.point].part
        victim = self._of(visit)
        self.victims.add(visit.pid)
        if arm.effect == "kill":
            assert await victim.ended() < 0
            if part != "producer":
                self.start(part)
            return
        if part != "producer":
            self.start(part)
        await last(1.6 * (RELAY_LEASE_S if part == "relay" else LEASE_S))
        victim.thaw()

    def _of(self, visit: Visit) -> Program:
        return next(each for each in self.road.processes.started if each.pid == visit.pid)

    # -- the night before
    async def eve(self) -> None:
        """What was published, and what Redis has lost of it; an orphan, a ghost, and a lane that stands still."""
        road = self.road
        road.query(market.TABLES)
        async with relay_by_hand(road.database_url, road.redis_url, lease=30) as relay, hand(road.redis_url) as worker:
            await self._leave_things(relay, worker)
            await relay.relay.leases.let_go()
        road.query("UPDATE redisjobs.outbox SET published_at = published_at - interval '1 hour'")

    async def _leave_things(self, relay: RelayByHand, worker: Hand) -> None:
        road, sell, serve = self.road, market.sell, market.serve
        [orphan] = road.enqueue(sell.call())
        await relay.rounds()
        [held] = (await worker.broker.take("default", "gone", 1, lease_ms=100)).deliveries
        assert held.job_id == UUID(orphan).bytes

        [head] = road.enqueue(serve.using(queue="attic").call("night"))
        await relay.rounds()
        await worker.end(finish(await worker.one("attic"), "suspended", delay_ms=60_000))
        road.enqueue(serve.using(queue="attic").call("night"))
        await relay.rounds()
        lost, ghost = road.enqueue(*(sell.using(queue="attic", delay=60).call() for _ in range(2)))
        road.enqueue(*(sell.using(queue="night", delay=1).call() for _ in range(2)))
        await relay.rounds()
        road.query("UPDATE redisjobs.outbox SET run_at = now() WHERE id = %s", lost)
        for key, remove in (("jobs", road.redis.hdel), ("due", road.redis.zrem)):
            remove(f"rj:{{attic}}:{key}", UUID(lost).bytes)
        for gone in (head, ghost):
            road.query("DELETE FROM redisjobs.outbox WHERE id = %s", gone)
            road.committed.remove(gone)
        road.redis.hdel("rj:{attic}:jobs", UUID(head).bytes)  # its tombstone goes after a minute
        road.redis.delete(*road.redis.scan_iter("rj:{night}:*"))

    # -- the day
    async def live(self) -> None:
        """All of it, and what somebody is hit with meanwhile."""
        await self.eve()
        self.open()
        hits = [asyncio.create_task(self.hit(each)) for each in self.arms]
        with self.road.connect() as conn:
            make(conn, "market", every=timedelta(seconds=1))
        self._enqueue()
        self._trader = self.start("producer", *self._arms_of("producer"))
        try:
            await self._go_on()
            await asyncio.gather(*hits)
            await self._close()
        finally:
            for each in hits:
                each.cancel()

    def _enqueue(self) -> None:
        road, sell = self.road, market.sell
        road.enqueue(sell.call(), market.weigh.call(5), market.stumble.call(), market.serve.call("fruit"))
        road.enqueue(market.queue_up.call(0.6 * LEASE_S), market.queue_up.call(0.0), market.serve.call("fruit"))
        self.journeys = road.enqueue(market.journey.call())
        self.banked = road.enqueue(market.bank.call())
        with road.connect() as conn:
            self.delivered = [market.hooks.enqueue(conn, endpoint="shop", type="sold").id]
        _, self.twin = road.enqueue(*(sell.using(idempotency_key="one of a kind").call() for _ in range(2)))
        road.committed.remove(self.twin)
        [self.old] = road.enqueue(market.change_price.call(60.0))
        [self.lost] = road.enqueue(market.trip.call())
        [self.later] = road.enqueue(sell.using(delay=60).call())
        self.far, never = road.enqueue(*(sell.using(delay=7200).call() for _ in range(2)))
        self.ends |= {self.old: "cancelled", self.lost: "dead", never: "cancelled"}
        self.never = never

    async def _go_on(self) -> None:
        """Times are changed, cancels asked for, and events sent, once it has come so far."""
        road = self.road
        await road.ran(self.old, within=WITHIN_S)
        road.enqueue(market.change_price.call(0.0))
        await self._when(lambda: road.states().get(self.later) == "published", "a later job is published")
        await self._when(lambda: road.states().get(self.far) == "deferred", "a far job is put off")
        with road.connect() as conn:
            market.app.reschedule(conn, self.later, delay=0.05)
            market.app.reschedule(conn, self.far, delay=0.05)
            market.app.cancel(conn, self.never)
        await self._when(self._waits_for_event, "the journey waits for its event")
        road.query("SELECT redisjobs.send_event('called', %s, '7')", self.journeys[0])

    def _waits_for_event(self) -> bool:
        [(count,)] = self.road.query("SELECT count(*) FROM redisjobs.steps WHERE kind = 'event'")
        return bool(count)

    async def _when(self, condition: Callable[[], object], what: str) -> None:
        await eventually(condition, what, WITHIN_S)

    async def _close(self) -> None:
        """Nothing is dispatched any more, and what the producer has done is counted in."""
        road = self.road
        counted = "SELECT dispatches FROM redisjobs.schedules WHERE name = 'market'"
        await self._when(lambda: road.query(counted)[0][0] >= 2, "two ticks")
        with road.connect() as conn:
            market.app.schedules.pause(conn, "market")
        trader = self._trader
        assert trader is not None
        code = await trader.ended()
        assert code == 0 or trader.pid in self.victims, trader.log()
        words: dict[str, list[str]] = {}
        for line in trader.log().splitlines():
            word, _, job = line.partition(" ")
            words.setdefault(word, []).append(job)
        committed = words.get("committed", [])
        road.committed += committed
        road.rolled_back += [each for each in words.get("staged", []) if each not in committed]
        self.sent = words.get("sent", [])
        for each in words.get("cancelled", []):
            self.ends[each] = "cancelled"
        if code:  # it did not come to its last cancel
            self._cancel_what_is_left(committed)

    def _cancel_what_is_left(self, committed: list[str]) -> None:
        with self.road.connect() as conn:
            for job, delay in self.road.query("SELECT id::text, run_at - now() FROM redisjobs.outbox"):
                if job in committed and delay is not None:
                    market.app.cancel(conn, job)
                    self.ends[job] = "cancelled"

    # -- its end
    async def holds(self) -> None:
        """Wait until nothing is under way, and hold the promises against what was written down."""
        road = self.road
        await road.at_rest(WITHIN_S, extra=road.journal.started(), ends=self.ends)
        ends = road.ends()
        assert {ends[each] for each in self.delivered} == {"done"}
        # the first of the two may have ended before anybody has looked at the second again
        assert ends[self.twin] in ("deduplicated", "done")
        assert (self.twin in road.journal.started()) == (ends[self.twin] == "done")
        assert self._noted("pack") >= set(self.journeys)
        assert self._noted("book") == self._noted("undo book") == {self.lost}
        assert set(self.sent) <= road.journal.started()
        self._no_start_without_a_reason()
        moves = road.query("SELECT job, what FROM market_moves ORDER BY 2")
        wanted = [(job, "paid") for job in self.journeys] + [(job, "stamped") for job in self.journeys]
        assert sorted(moves) == sorted([(job, market.BANKED) for job in self.banked] + wanted)
        came = Counter(each.headers["webhook-id"] for each in self.receiver.received)
        assert set(came) == set(self.delivered)
        assert came.total() == 1 or self._hits("worker"), "a delivery was sent twice"
        assert road.query("SELECT count(*) FROM redisjobs.steps s WHERE NOT EXISTS (SELECT FROM redisjobs.dead"
                          " WHERE id = s.run)") == [(0,)], "records go with their run"  # fmt: skip

    def _noted(self, note: str) -> set[str]:
        return {run.job for run in self.road.journal.runs() if run.note == note}

    def _hits(self, part: Part) -> bool:
        return any(POINTS[each.point].part == part for each in self.arms)

    def _no_start_without_a_reason(self) -> None:
        """What started twice had been started by who was killed or stood still; a retry is another attempt."""
        starts: dict[Any, list[int]] = {}
        for run in self.road.journal.runs():
            if run.note == market.BANKED:
                continue
            key = (run.job, run.note) if run.note in STEPS else (run.job, run.note, run.attempt)
            starts.setdefault(key, []).append(run.pid)
        odd = {key: pids for key, pids in starts.items() if not set(pids[:-1]) <= self.victims}
        assert not odd, f"extra starts without a reason: {odd}; hit were {self.victims}"
        ticks = [key[1] for key in starts if isinstance(key, tuple) and "T" in key[1]]
        assert len(ticks) == len(set(ticks)), "an occurrence was dispatched twice"
