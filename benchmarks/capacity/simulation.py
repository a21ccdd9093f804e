"""Simulates a fleet from what its stations cost: rows that become ready, run, and settle, event by event.

Redis and every process have one thread; Postgres works side by side for as many as ask. Where cores are shared, a
thread that wants to go on waits for one. Bodies draw their length from a generator with a seed, so that the same fleet
always comes to the same end.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle, islice

from benchmarks.capacity.costs import Costs
from benchmarks.capacity.engine import Engine, Hear, Process, Signal, Station, Use, Wait
from benchmarks.capacity.fleet_model import Fleet, Lane, Prediction, Queue, stations

BATCH = 500
"""Rows of a queue in a pass of the relay; twice as many where the last one was full of small rows."""
ENTRIES = 50
"""Entries of outcomes that one settling reads."""
SIDE_BY_SIDE = 3
COOLING_S = 5.0
DOZE_S = 0.3
POLL_S, INTERVAL_S = 0.005, 0.2
LOOKS_S = 1.0
READ_SHARE, SMALLEST_READ = 3, 16
MOST_IN_FINISH = 500
LONGEST_WAIT_S = 5.0
LONGEST_S = 3_600.0
"""As in the relay, the reader and the batcher of the product, but for the last, which ends what never would."""


class Simulation:
    """One run of a fleet.

    Args:
        costs: of the stations.
    """

    def __init__(self, fleet: Fleet, costs: Costs) -> None:
        self.fleet = fleet
        self.costs = costs
        self.engine = Engine()
        self.random = random.Random(fleet.seed)
        self.queues = [Queue(number) for number in range(fleet.queues)]
        self.redis = Station("redis")
        self.postgres = Station("postgres", places=1_000)
        self.relays = stations("relay", fleet.relays)
        self.workers = stations("worker", fleet.workers)
        processes = fleet.relays + fleet.workers + 2
        self.rest = {"worker": fleet.lanes * costs.worker_rest, "redis": fleet.lanes * costs.redis_rest}
        left = max(0.2 * fleet.cores, fleet.cores - sum(self.rest.values()))  # looks go first, and leave this much
        whole = max(1, round(fleet.cores))
        self.cores = Station("cores", places=whole if fleet.cores else processes * 1_000)
        self.slowness = whole / left if fleet.cores else 1.0
        self.called = Signal()
        self.pace = {"redis": _left(self.rest["redis"]), "worker": _left(self.rest["worker"] / fleet.workers)}
        self.scripts = self.turns = self.settled = 0
        self.first: float | None = None
        self.last = 0.0

    def run(self) -> Prediction:
        """From the first row to the last outcome."""
        self._stage()
        for number, relay in enumerate(self.relays):
            held = self.queues[number :: len(self.relays)]
            self.engine.start(self._relay(relay, held))
            self.engine.start(self._looks(relay, len(held)))
        most = min(self.fleet.serves, self.fleet.queues) or self.fleet.queues
        for number, worker in enumerate(self.workers):
            served = islice(cycle(self.queues), number * most % len(self.queues), None)
            for queue in islice(served, most):
                self.engine.start(self._reader(worker, Lane(queue, self.fleet.slots)))
        self.engine.run(LONGEST_S)
        return self._prediction()

    def _prediction(self) -> Prediction:
        jobs, whole = max(1, self.settled), max(1e-9, self.last)
        groups = {"relay": self.relays, "worker": self.workers, "redis": [self.redis], "postgres": [self.postgres]}
        load = {each.name: each.busy / whole for each in (*self.relays, *self.workers, self.redis)}
        busiest = max(load, key=lambda name: load[name])
        looks = whole / LOOKS_S * self.fleet.lanes if self.costs.redis_rest else 0.0
        return Prediction(
            rate=jobs / max(1e-9, self.last - (self.first or 0.0)),
            cpu={role: self._cpu(role, them) / jobs for role, them in groups.items()},
            scripts=(self.scripts + looks) / jobs,
            turns=self.turns,
            busiest=(busiest, load[busiest]),
        )

    def _cpu(self, role: str, processes: list[Station]) -> float:
        """Seconds of CPU: of their work, and of their looks for what is due."""
        work = sum(each.busy for each in processes) / self.slowness * self.pace.get(role, 1.0)
        return work + self.rest.get(role, 0.0) * self.last

    @property
    def _over(self) -> bool:
        return self.settled >= self.fleet.jobs

    def _use(self, station: Station, seconds: float) -> Use:
        return Use((station, self.cores), seconds * self.slowness)

    def _ask_redis(self, seconds: float) -> Use:
        self.scripts += 1
        return self._use(self.redis, seconds / self.pace["redis"])

    def _work(self, worker: Station, seconds: float) -> Use:
        return self._use(worker, seconds / self.pace["worker"])

    # -- producers
    def _stage(self) -> None:
        if self.fleet.arriving:
            self.engine.start(self._producer())
            return
        for number in range(self.fleet.jobs):
            self.queues[number % len(self.queues)].staged += 1

    def _producer(self) -> Process:
        for number in range(self.fleet.jobs):
            self.queues[number % len(self.queues)].staged += 1
            self.engine.send(self.called)
            yield Wait(self.random.expovariate(self.fleet.arriving))

    # -- relays
    def _relay(self, relay: Station, held: list[Queue]) -> Process:
        while not self._over:
            now = self.engine.now
            asking = [queue for queue in held if queue.staged or queue.outcomes or now < queue.active_until]
            if not asking:
                yield Hear(self.called, INTERVAL_S)
                continue
            ended, left = Signal(), iter(asking)
            running = min(SIDE_BY_SIDE, len(asking))

            def one_less(ended: Signal = ended) -> None:
                nonlocal running
                running -= 1
                if not running:
                    self.engine.send(ended)

            for _ in range(running):
                self.engine.start(self._turns(relay, left), one_less)
            while running:
                yield Hear(ended, LONGEST_S)
            if not any(queue.staged or queue.outcomes for queue in asking):
                polled = any(self.engine.now < queue.polled_until for queue in asking)
                yield Hear(self.called, POLL_S if polled else INTERVAL_S)

    def _looks(self, relay: Station, queues: int) -> Process:
        while not self._over:
            yield self._use(self.postgres, queues * self.costs.postgres_look)
            yield self._use(relay, queues * self.costs.relay_look)
            yield Wait(INTERVAL_S)

    def _turns(self, relay: Station, queues: Iterator[Queue]) -> Process:
        for queue in queues:
            yield from self._turn(relay, queue)

    def _turn(self, relay: Station, queue: Queue) -> Process:
        costs = self.costs
        self.turns += 1
        yield self._use(self.postgres, costs.postgres_row.of(0))
        yield self._use(self.redis, costs.redis_row.of(0))
        yield self._use(relay, costs.relay_row.of(0))
        rows = min(queue.staged, BATCH * 2 if queue.large else BATCH)
        queue.large = rows >= BATCH
        if rows:
            queue.staged -= rows
            for piece in _pieces(rows, BATCH):
                yield self._use(relay, costs.relay_row.of(piece, 0) / 2)
                yield self._ask_redis(costs.redis_row.of(piece))
                queue.ready += piece
                self.engine.send(queue.news)
                yield self._use(relay, costs.relay_row.of(piece, 0) / 2)
            yield self._use(self.postgres, costs.postgres_row.of(rows, 0))
            yield Wait(costs.commit)
        count = sum(queue.outcomes.popleft() for _ in range(min(ENTRIES, len(queue.outcomes))))
        if count:
            yield self._use(relay, count * costs.relay_outcome)
            yield self._use(self.postgres, count * costs.postgres_outcome)
            yield Wait(costs.commit)
            yield self._ask_redis(count * costs.redis_outcome)
            self.settled += count
            self.last = self.engine.now
        if rows or count:
            now = self.engine.now
            queue.active_until = now + COOLING_S
            if rows >= BATCH or now < queue.polled_until:
                queue.polled_until = now + DOZE_S

    # -- workers
    def _reader(self, worker: Station, lane: Lane) -> Process:
        queue, most, hears = lane.queue, max(SMALLEST_READ, -(-lane.slots // READ_SHARE)), True
        while not self._over:
            if lane.free <= 0:
                yield Hear(lane.freed, LONGEST_WAIT_S)
                continue
            if not queue.ready:
                hears = True
                yield Hear(queue.news, LONGEST_WAIT_S)
                continue
            # what a waiting read brings is one job, and the reads behind it bring the others
            count = min(lane.free, 1 if hears else most, queue.ready)
            hears = False
            queue.ready -= count
            lane.running += count
            yield self._ask_redis(self.costs.redis_work.of(count / 2))
            self.first = self.engine.now if self.first is None else self.first
            self._run_bodies(worker, lane, count)

    def _run_bodies(self, worker: Station, lane: Lane, count: int) -> None:
        if not self.fleet.body_s:
            self.engine.start(self._bodies(worker, lane, count, 0.0))
            return
        for number in range(count):
            length = self.random.expovariate(1 / self.fleet.body_s)
            self.engine.start(self._bodies(worker, lane, 1, length, first=not number))

    def _bodies(self, worker: Station, lane: Lane, count: int, length: float, *, first: bool = True) -> Process:
        yield self._work(worker, self.costs.worker_work.of(count, 1.0 if first else 0.0))
        yield Wait(length)
        lane.running -= count
        lane.ended += count
        self.engine.send(lane.freed)
        if not lane.flying:
            lane.flying = True
            self.engine.start(self._finishes(worker, lane))

    def _finishes(self, worker: Station, lane: Lane) -> Process:
        while lane.ended:
            count = min(lane.ended, MOST_IN_FINISH)
            yield self._work(worker, self.costs.worker_work.of(0))
            yield self._ask_redis(self.costs.redis_work.of(count / 2))
            lane.ended -= count
            lane.queue.outcomes.append(count)
            self.engine.send(lane.freed)
        lane.flying = False


def _left(rest: float) -> float:
    """What looks for due jobs leave of a thread, which they slow down by their part."""
    if rest >= 1:
        raise ValueError(f"looks for due jobs alone need {rest:.1f} threads: serve fewer queues, by more processes")
    return 1 - rest


def _pieces(count: int, most: int) -> Iterator[int]:
    for first in range(0, count, most):
        yield min(most, count - first)


def predict(fleet: Fleet, costs: Costs) -> Prediction:
    """What a fleet comes to."""
    return Simulation(fleet, costs).run()
