"""A whole road in memory: outbox, relay, Redis and worker in the test's own loop, and one clock for all of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from redisjobs.app import App
from redisjobs.base.durations import many
from redisjobs.call import Handle
from redisjobs.errors import StoreUnavailable
from redisjobs.relay import Relay
from redisjobs.scheduler import Scheduler
from redisjobs.settings import RelaySettings
from redisjobs.stores import Stores
from redisjobs.testing.clock import RelayClock, TurnedClock, WorkerClock
from redisjobs.testing.faults import Faults
from redisjobs.testing.mortal import MortalWorker
from redisjobs.testing.outbox import AsyncMemoryConnection, MemoryConnection, MemoryDatabase, Tables
from redisjobs.testing.stores import MemoryStores

if TYPE_CHECKING:
    from redisjobs.testing.fake import FakeRedis

MOST = 1000
"""Attempts and rounds after which a world that finds no rest says so."""
STOPS = 20_000
"""Moments at which something may become due while the clock is turned; a day has 1440 minutes."""
REMEMBERED = timedelta(days=366)
"""How long ended jobs stay visible in a world, whatever the clock does."""
QUIET_ROUNDS = 2
"""One round in which nothing happens may have been a round in which the relay only noticed something."""
PATIENCE_S = 30.0
"""How long one round's bodies may take, in seconds of the machine."""


@dataclass(frozen=True, slots=True)
class JobState:
    """Where a job stands.

    Args:
        state: staged, deferred, published, retrying, snoozed, parked; or its end: done, dead, cancelled, expired,
            deduplicated.
        attempts: counted so far.
        reason: why it died, or comes back.
        due: when it comes back or starts, where that lies ahead.
    """

    state: str
    attempts: int = 0
    reason: str | None = None
    due: datetime | None = None


class World:
    """An app whose stores are in memory, for the time of a block.

        async with in_memory(app) as world:
            async with world.connect() as connection:
                handle = await send_mail.enqueue(connection, to="a@b.example")
            await world.settle()
            assert world.state(handle).state == "done"

    Relay, worker, scripts and codec are the real ones. Nothing runs by itself: `settle` and `advance` let it run, so
    settle before you await a result. A body must not wait for another job's result: that would have to run meanwhile.

    Args:
        app: its jobs are run, and its calls go in here, on connections that `connect` makes.
        worker: options of `Worker`, such as `visibility_timeout`.
        relay: how the relay works.
    """

    def __init__(self, app: App, *, relay: RelaySettings | None = None, **worker: Any) -> None:
        self.app = app
        self.clock = TurnedClock()
        self.faults = Faults(self.flushall)
        self.tables = Tables(self.clock.now)
        self.redis = _fake_redis(self.clock, self.faults, app.settings.prefix)
        self._stores: Stores = app.stores
        self._settings = relay or RelaySettings(retention=REMEMBERED)
        self._options: dict[str, Any] = {"queues": ["*"], "concurrency": 100} | worker
        self._worker = self._new_worker()
        self._relay_clock = RelayClock(self.clock, self._settings.lease_s / 3)
        self._carrier = self.redis.carrier()
        self._relay = Relay(
            MemoryDatabase(self.tables), self._carrier, self._settings, name="relay", clock=self._relay_clock,
            schema=app.settings.schema,
        )  # fmt: skip

        self._scheduler = Scheduler(
            MemoryDatabase(self.tables), name="scheduler", declared=app.schedules, knows=frozenset(app.jobs),
            schema=app.settings.schema,
        )  # fmt: skip

    async def __aenter__(self) -> Self:
        await self.app.close()
        self._stores = self.app.stores
        self.app.stores = MemoryStores(self.app.settings, self.clock, self.tables, self.redis)
        await self.redis.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._worker.die()
        await self.app.close()
        self.app.stores = self._stores
        await self._carrier.redis.aclose()
        await self.redis.close()
        if kind is None and self.faults.pending:
            planned = ", ".join(map(str, self.faults.pending))
            raise AssertionError(f"a fault was planned and did not happen, so this test has not shown much: {planned}")

    # -- calls
    def connect(self, *, autocommit: bool = False) -> AsyncMemoryConnection:
        """A connection for `await job.enqueue(connection, …)`: transactions are kept and rolled back as in Postgres."""
        return AsyncMemoryConnection(self.tables, autocommit=autocommit)

    def connect_sync(self, *, autocommit: bool = False) -> MemoryConnection:
        """Likewise for code that does not await."""
        return MemoryConnection(self.tables, autocommit=autocommit)

    def state(self, job: Handle[Any] | str) -> JobState:
        """Where a job stands, as the outbox knows it after `settle`.

        Raises:
            LookupError: no such job is committed here.
        """
        job_id = UUID(job if isinstance(job, str) else job.id)
        with self.tables.lock:
            if (row := self.tables.outbox.get(job_id)) is not None:
                return JobState(row.state, row.attempts, row.last_error, row.run_at)
            if (dead := self.tables.dead.get(job_id)) is not None:
                return JobState("dead", dead.row.attempts, dead.reason)
            if (ended := self.tables.ended(job_id)) is not None:
                return JobState(ended.state, ended.attempts, ended.last_error)
        raise LookupError(f"no job {job_id} is known: its transaction was rolled back, or has not committed yet")

    # -- time
    async def settle(self, *, most: int = MOST) -> None:
        """Let everything run that can run without the time moving: commits are published, jobs run, outcomes settle.

        Args:
            most: attempts, and rounds, after which it gives up.

        Raises:
            AssertionError: it finds no rest, because jobs bring forth jobs, or come back at once, without end.
        """
        ran = quiet = 0
        for _ in range(most):
            did = await self._scheduler.tick() + await self._relay_round()
            attempts = await self._worker_round()
            ran += attempts
            quiet = 0 if did or attempts else quiet + 1
            if quiet >= QUIET_ROUNDS:
                return
            if ran > most:
                break
        raise AssertionError(f"no rest after {many(ran, 'attempt')}: {self._restless()}")

    async def advance(
        self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0
    ) -> None:
        """Turn the clock forward and let run, at its own moment, whatever becomes due on the way.

        `world.clock.advance(…)` alone turns it in one leap: what was due meanwhile then runs late.
        """
        until = self.clock.now() + timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days)
        await self.settle()
        for _ in range(STOPS):
            moment = await self._next_moment()
            if moment is None or moment > until:
                break
            self.clock.set(moment)
            await self.settle()
        else:
            raise AssertionError(f"after {STOPS} stops it is only {self.clock.now()}: {self._restless()}")
        self.clock.set(until)
        await self.settle()

    async def flushall(self) -> None:
        """Redis loses all it has; the next `settle` finds that and recovers."""
        await self.redis.flushall()

    # -- rounds
    async def _relay_round(self) -> int:
        self._relay_clock.begin_round()
        try:
            return await self._relay.tick()
        except StoreUnavailable:
            return 1  # something went wrong as planned: the next round tries again

    async def _worker_round(self) -> int:
        self.faults.crashed.clear()
        tick = asyncio.create_task(self._worker.tick())
        crash = asyncio.create_task(self.faults.crashed.wait())
        try:
            done, _ = await asyncio.wait({tick, crash}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                jobs = ", ".join(self._worker.running()) or "a call to Redis"
                raise AssertionError(
                    f"after {PATIENCE_S:g} s this still runs: {jobs}; does a body wait for another job?"
                )
            return await self._end_of(tick)
        finally:
            await _ended(tick, crash)

    async def _end_of(self, tick: asyncio.Task[int]) -> int:
        if self.faults.crashed.is_set():
            dead, self._worker = self._worker, self._new_worker()
            await _ended(tick)
            await dead.die()
            return 1
        try:
            return tick.result()
        except StoreUnavailable:
            return 1

    def _new_worker(self) -> MortalWorker:
        return MortalWorker(self.app, clock=WorkerClock(self.clock), **self._options)

    async def _next_moment(self) -> datetime | None:
        """When something becomes due of itself; None: never."""
        queues = sorted(self.tables.queues)
        moments = [datetime.fromtimestamp(due, UTC) for due in await self.redis.next_due(queues)]
        if self.app.limited:
            moments += [datetime.fromtimestamp(look, UTC) for look in await self.redis.next_look()]
        horizon = timedelta(seconds=self._settings.horizon_s)
        waiting = [row.run_at for row in self.tables.outbox.values() if row.state == "deferred"]
        moments += [run_at - horizon + timedelta(milliseconds=1) for run_at in waiting if run_at is not None]
        moments += [row.run_at for row in self.tables.outbox.values() if row.state == "suspended" and row.run_at]
        moments += [row.next_run for row in self.tables.schedules.values() if row.enabled and row.next_run is not None]
        if await self.redis.held(queues):  # by a worker that died: its lease ends, and then somebody must look
            moments.append(self.clock.now() + timedelta(seconds=self._worker.settings.lease / 4))
        return min((moment for moment in moments if moment > self.clock.now()), default=None)

    def _restless(self) -> str:
        rows = [
            f"{row.job} is {row.state} after {many(row.attempts, 'attempt')}" for row in self.tables.outbox.values()
        ]
        return "; ".join(rows[:5]) or "jobs bring forth jobs"


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until they have ended: before Python 3.12, what redis-py awaits may swallow a cancellation."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=0.1)


def _fake_redis(clock: TurnedClock, faults: Faults, prefix: str) -> FakeRedis:
    from redisjobs.testing.fake import FakeRedis  # noqa: PLC0415 - needs the extra, and the rest of the kit does not

    return FakeRedis(clock, faults, prefix)


def in_memory(app: App, *, relay: RelaySettings | None = None, **worker: Any) -> World:
    """A world for the app; enter it with `async with`. `World` says what it does, and what the options are.

    Raises:
        ConfigurationError: fakeredis or lupa is not installed.
    """
    return World(app, relay=relay, **worker)
