"""The worker: takes jobs from its queues, runs them, and ends without losing one."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import Any

from redisjobs import tracing
from redisjobs.admission import Admission
from redisjobs.announcer import Announcer
from redisjobs.app import App
from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.service import Part
from redisjobs.base.signals import Signals
from redisjobs.base.threads import Threads
from redisjobs.broker import Limiter
from redisjobs.drain import HARD_S, Drain, Receipt
from redisjobs.errors import RedisjobsError
from redisjobs.heartbeat import Heartbeat
from redisjobs.lane import Lane, Observer, Observers
from redisjobs.lifespan import Lifespan
from redisjobs.limiting import Share
from redisjobs.logs import event
from redisjobs.middleware import chain
from redisjobs.reader import BLOCK_MS
from redisjobs.returns import Returns, Sweep
from redisjobs.runner import Runner
from redisjobs.runs import Runs
from redisjobs.serving import Serving
from redisjobs.settings import LEASE_S, SLOTS, WorkerSettings
from redisjobs.upkeep import QueueFinder

LEAVE_S = 1.0
BURST_LOOK_S = 0.05
BURST_BLOCK_MS = 200

log = logging.getLogger("redisjobs.worker")


class Worker(Part):
    """Serves queues until it is stopped.

    `run` is a process's whole life: start, wait for a signal, drain. `stop` called by code waits without a
    limit and cancels nothing; with a deadline it hands back what still runs when that has passed.

    Args:
        app: whose jobs are run. A job that it does not know is parked.
        burst: end when nothing waits, runs, or is due by now in its queues.
        drain_on_shutdown: False leaves SIGTERM and SIGINT to the caller.
        observer: hears what becomes of each attempt, such as metrics.

    The other options are those of `WorkerSettings`.

    Raises:
        OptionError: an option out of its range.
    """

    def __init__(
        self,
        app: App,
        *,
        queues: Sequence[str] = ("default",),
        concurrency: int | Mapping[str, int] = SLOTS,
        visibility_timeout: float | timedelta | Mapping[str, float | timedelta] = LEASE_S,
        heartbeat_interval: float | timedelta | None = None,
        drain_grace: float | timedelta = 25.0,
        max_losses: int = 3,
        worker_id: str = "",
        burst: bool = False,
        drain_on_shutdown: bool = True,
        observer: Observer | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__("worker", clock)
        self.settings = WorkerSettings(
            queues=queues,
            concurrency=concurrency,
            visibility_timeout=visibility_timeout,
            heartbeat_interval=heartbeat_interval,
            drain_grace=drain_grace,
            max_losses=max_losses,
            worker_id=worker_id,
        )
        self.app = app
        self.burst = burst
        self.drain_on_shutdown = drain_on_shutdown
        self.observer = observer
        self.receipt = Receipt()
        self._servings: dict[str, Serving] = {}
        self._made = False
        self._lifespan = Lifespan(None)
        self._counts: Counter[str] = Counter()
        self._draining, self._hand_back, self._stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._ends_process = self._quiet = False
        self._burst: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()

    @property
    def worker_id(self) -> str:
        """Its name in Redis."""
        return self.settings.worker_id

    async def run(self) -> Receipt:
        """Work until a signal, `stop`, or the end of a burst; answers what became of the jobs that ran then.

        The first signal stops the reading at once and lets bodies go on within the grace; the second hands back
        at once; further ones change nothing. SIGTSTP is `quiet`.
        """
        signals = Signals(self._signalled, self.quiet)
        self._ends_process = True
        if self.drain_on_shutdown:
            signals.take_over()
        try:
            await self.start()
            await self._stopped.wait()
        except asyncio.CancelledError:
            self._hand_back.set()
            await self.stop()
            raise
        finally:
            self._ends_process = False
            signals.give_back()
        return self.receipt

    async def start(self) -> None:
        """Enter the app's lifespan, and begin to work. A second call changes nothing.

        Raises:
            RedisjobsError: while it is draining.
            ConfigurationError: the lifespan raised, or something is set up wrongly.
        """
        if self.state in ("idle", "stopped") and not await self._enter():
            self._stopped.set()  # a signal came before it was through
            return
        try:
            await super().start()
        except BaseException:
            if self.state == "stopped":
                await self._lifespan.stop(HARD_S)
            raise

    async def _enter(self) -> bool:
        if not self._made:
            lifespan = self.app.lifespan
            self._lifespan = Lifespan(None if lifespan is None else lambda: lifespan(self.app))
        return await self._lifespan.start()

    def quiet(self) -> None:
        """Take nothing more, and go on with what runs: the first half of a stop, as long before it as you like."""
        if self.state == "running" and not self._quiet:
            self._quiet = True
            event(log, logging.INFO, "worker.quiet", worker_id=self.worker_id)
            self._in_background(self._stop_taking())

    async def _stop_taking(self) -> None:
        if self._finder is not None:
            await self._finder.stop()
        await asyncio.gather(*(serving.stop_taking() for serving in self._servings.values()))

    async def stop(self, deadline: float | None = None) -> None:
        """Take nothing more, and return when what runs has ended.

        Args:
            deadline: seconds after which what still runs is cancelled and handed back, uncounted; None: it is
                waited for, and nothing is cancelled.
        """
        if self._made and self.state in ("idle", "stopped"):  # it was only ticked
            self.state = "running"
        if deadline is None or self.state in ("idle", "stopped"):
            await super().stop()
            return
        timer = asyncio.get_running_loop().call_later(deadline, self._hand_back.set)
        try:
            await super().stop(deadline + 3 * HARD_S)
        finally:
            timer.cancel()

    async def tick(self) -> int:
        """One bounded round of every queue: take what fits, run it to its end; answers how many attempts ended."""
        if not self._made:
            await self._enter()
            await self._make()
        if self._finder is not None:
            await self._finder.tick()
        if self.app.limited:
            await self._returns.sweep(0)
        before = sum(self._totals().values())
        for serving in list(self._servings.values()):
            await serving.look()
            await serving.quiet()
        await self._returns.drained()
        return sum(self._totals().values()) - before

    @property
    def works(self) -> bool:
        """It runs, and its last look at each queue succeeded."""
        if self._quiet:
            return self.state == "running"
        servings = list(self._servings.values())
        reads = all(each.reader.works or (each.reader.dry and not each.reader.failures) for each in servings)
        return self.state == "running" and reads and not any(each.promoter.failures for each in servings)

    @property
    def last_turn(self) -> float | None:
        """When a round ended last in the queue for which that is longest ago: that of its promoter, who never waits."""
        turns = [each.promoter.last_turn for each in list(self._servings.values())]
        return min((turn for turn in turns if turn is not None), default=None)

    @property
    def last_heartbeat_s(self) -> float | None:
        """How long ago everything held was renewed; None: it has not been yet."""
        beat = self._heartbeat.last_beat if self._made else None
        return None if beat is None else self.clock.monotonic() - beat

    def stats(self) -> dict[str, Any]:
        """What it has done since it was made, and what it does now."""
        totals = self._totals()
        return {
            "worker_id": self.worker_id,
            "queues": sorted(self._servings) or list(self.settings.queues),
            "state": self.state,
            "in_flight": sum(serving.lane.running for serving in self._servings.values()),
            "processed": sum(totals.values())
            - totals["released"]
            - totals["lost"]
            - totals["parked"]
            - totals["limited"],
            "failed": totals["retry"] + totals["dead"],
            "suspended": totals["suspended"] + totals["snooze"],
            "dead_lettered": totals["dead"],
            "interrupted": totals["released"],
            "parked": totals["parked"],
            "limited": totals["limited"],
            "lost": totals["lost"],
            "last_heartbeat_s": self.last_heartbeat_s,
            "queue_depth": {name: each.promoter.waiting for name, each in self._servings.items()},
            "failing": sorted(name for name, each in self._servings.items() if each.reader.failures),
        }

    def _totals(self) -> Counter[str]:
        totals = Counter(self._counts)
        for serving in self._servings.values():
            totals.update(serving.lane.counts)
        return totals

    # -- start
    async def _open(self) -> None:
        await self._make()
        for serving in self._servings.values():
            await serving.start()
        await self._sweep.start()
        if self._finder is not None:
            await self._finder.start()
        if self.burst:
            self._burst = asyncio.create_task(self._until_nothing_is_left(), name="burst")
        event(
            log, logging.INFO, "worker.started", worker_id=self.worker_id, queues=",".join(self.settings.queues),
            lease_s=self.settings.lease, burst=self.burst or None,
        )  # fmt: skip

    async def _make(self) -> None:
        stores = self.app.stores
        broker, heart = stores.broker(), stores.heart(min(5.0, self.settings.lease / 3))
        self.receipt = Receipt()
        self._draining.clear()
        self._quiet = False
        self._hand_back.clear()
        self._stopped.clear()
        self._broker = broker
        self._observer = self._observing()
        around = chain(self.app.middlewares)
        limiter = Limiter(broker.redis, broker.keys.prefix)
        self._admission = Admission(limiter, self.worker_id, self.clock)
        self._returns = Returns(limiter, broker, self.worker_id, self.clock, self._soon)
        self._sweep = Sweep(self._returns, lambda: self.app.limited, self.clock)
        self._runner = Runner(
            self.app.jobs.get, self._draining, self.clock, state=self._lifespan.state, around=around, runs=self._runs,
            admission=self._admission,
        )  # fmt: skip
        globs = [name for name in self.settings.queues if re.search(r"[*?\[]", name)]
        for name in self.settings.queues:
            if name not in globs:
                self._serve(name)
        self._finder = QueueFinder(self._broker, globs, self._found, self.clock) if globs else None
        announcer = Announcer(heart, self.settings, self._told_state, self.lanes)
        self._heartbeat = Heartbeat(heart, self.settings.heartbeat, self.lanes, self._runner.cancel, announcer)
        self._heartbeat.start()
        self._made = True

    def _runs(self, threads: Threads) -> Runs:
        stores = self.app.stores
        return Runs(
            stores.steps,
            threads,
            self.app.jobs.get,
            broker=self._broker,
            now=self.clock.now,
            monotonic=stores.monotonic,
            in_place_s=stores.in_place_s,
        )

    def _observing(self) -> Observer | None:
        """Who hears of attempts: whom the caller gave, and where the program has set up OpenTelemetry, its spans."""
        tracer = tracing.tracer()
        if tracer is None:
            return self.observer
        spans: Observer = import_module("redisjobs.spans").Spans(tracer, self.worker_id)
        return spans if self.observer is None else Observers(self.observer, spans)

    def _told_state(self) -> str:
        return "quiet" if self._quiet and self.state == "running" else self.state

    def lanes(self) -> list[Lane]:
        """Its queues as it serves them now; any thread may ask."""
        return [serving.lane for serving in list(self._servings.values())]

    def _serve(self, queue: str) -> Serving:
        lane = Lane(queue, self.worker_id, self.settings.slots_of(queue), self.settings.lease_of(queue))
        lane.observer = self._observer
        lane.give_back = self._returns.add
        lane.limits = tuple(Share(limit) for limit in self.app.queue_limits.get(queue, ()))
        serving = Serving(
            self._broker,
            self._runner,
            lane,
            max_losses=self.settings.max_losses,
            clock=self.clock,
            block_ms=BURST_BLOCK_MS if self.burst else BLOCK_MS,
        )
        self._servings[queue] = serving
        return serving

    def _soon(self, queue: str, delay: float) -> None:
        """A job of some queue comes in so many seconds."""
        if queue in self._servings:
            self._servings[queue].promoter.expect(delay)

    def _found(self, queue: str) -> None:
        if queue in self._servings or self._quiet or self.state == "draining":
            return
        serving = self._serve(queue)
        event(log, logging.INFO, "worker.queue_found", queue=queue)
        if self.state == "running":
            self._in_background(serving.start())

    async def _until_nothing_is_left(self) -> None:
        while self.state == "running":
            await self.clock.sleep(BURST_LOOK_S)
            try:
                if self._finder is not None and self._finder.last_round is None:
                    continue
                if await self._nothing_is_left():
                    break
            except RedisjobsError as error:
                event(log, logging.WARNING, "worker.burst_look_failed", error=str(error))
        self._in_background(self.stop())

    async def _nothing_is_left(self) -> bool:
        returns = self._returns
        told, waking = returns.told, returns.busy  # nor is anybody woken by what has just ended
        done = all([await serving.is_done() for serving in list(self._servings.values())])
        return done and not waking and not returns.busy and returns.told == told

    # -- end
    def _signalled(self) -> None:
        if self.state == "running" and not self._draining.is_set():
            self._draining.set()
            self._in_background(self.stop(self.settings.grace))
        elif self.state in ("idle", "stopped"):
            self._in_background(self._lifespan.stop(HARD_S))
        else:
            self._hand_back.set()

    async def _close(self) -> None:
        self._draining.set()
        if self._finder is not None:
            await self._finder.stop(HARD_S)
        servings = list(self._servings.values())
        drain = Drain(self._runner, servings, self._hand_back, ends_process=self._ends_process)
        done = await drain.run()
        await self._give_back()
        await self._runner.leave()
        stats = self.stats()
        self.receipt = replace(done, processed=stats["processed"], failed=stats["failed"])
        for serving in servings:
            await serving.close()
            await self._leave(serving.lane.queue)
        await self._lifespan.stop(HARD_S)
        await self._heartbeat.stopped(self.clock)
        await self._broker.close()
        event(
            log, logging.INFO, "worker.stopped", worker_id=self.worker_id, processed=self.receipt.processed,
            failed=self.receipt.failed, finished=self.receipt.count("finished"),
            handed_back=self.receipt.count("handed back"), abandoned=self.receipt.count("abandoned"),
        )  # fmt: skip

    async def _give_back(self) -> None:
        """What was held of limits goes back; what Redis does not hear of lapses with its lease."""
        await self._sweep.stop(HARD_S)
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._returns.drained()
        except TimeoutError:
            self._returns.abandon()

    async def _leave(self, queue: str) -> None:
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._broker.leave(queue, self.worker_id)
        except (RedisjobsError, TimeoutError) as error:  # others remove a consumer that has been silent for long
            event(log, logging.DEBUG, "worker.leave_failed", queue=queue, error=str(error))

    def _abandon(self) -> None:
        self._in_background(self._broker.close())

    def _release(self) -> None:
        if self._burst is not None:
            self._burst.cancel()
            self._burst = None
        if self._made:
            self._heartbeat.stop()
            self._admission.abandon()
            self._returns.abandon()
            self._runner.close()
        self._made = False
        for serving in self._servings.values():
            self._counts.update(serving.lane.counts)
        self._servings = {}
        self._stopped.set()

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
