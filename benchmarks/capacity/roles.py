"""How many connections each role holds, at rest and at work: the most that was seen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks import filling, programs
from benchmarks.bench import Bench
from benchmarks.capacity.meters import postgres_connections, redis_connections
from benchmarks.jobs import five_steps
from benchmarks.stores import Stores

EVERY_S = 0.05
JOBS = 2_000
QUEUES = 50
LONGEST_S = 120.0


@dataclass(frozen=True, slots=True)
class Connections:
    """The most that one process of a role held."""

    role: str
    postgres: int
    redis: int


class Peak:
    """The most connections that were open at a look."""

    def __init__(self) -> None:
        self.postgres = self.redis = 0

    def take(self, postgres: int, redis: int) -> None:
        """One more look."""
        self.postgres, self.redis = max(self.postgres, postgres), max(self.redis, redis)


def by_role(bench: Bench) -> Iterator[Connections]:
    """Each role alone, or beside what was counted before it."""
    stores = bench.stores
    stores.clear()
    with _watched(stores) as alone, programs.relay():
        filling.stage_in_sql(stores, JOBS, queues=QUEUES)
        programs.wait_for(lambda: filling.is_published(stores), "rows to be published", LONGEST_S, step=0.2)
    yield Connections(f"relay, {QUEUES} queues at work", alone.postgres, alone.redis)
    for role, queues in (("worker, 1 queue", 1), ("worker, 10 queues", 10)):
        yield Connections(role, *_worker(stores, queues))
    stores.clear()
    with _watched(stores) as both, programs.relay(), programs.worker(100):
        filling.stage(stores, JOBS // 10, job=five_steps)
        programs.wait_for(lambda: filling.is_settled(stores), "runs to end", LONGEST_S, step=0.2)
    yield Connections("relay and a worker of durable runs", both.postgres, both.redis)
    stores.clear()
    with _watched(stores) as scheduler, programs.running(*programs.command("scheduler", "benchmarks.jobs:app")):
        programs.wait_for(lambda: scheduler.postgres > 0, "the scheduler to connect", LONGEST_S)
        threading.Event().wait(20 * EVERY_S)
    yield Connections("scheduler", scheduler.postgres, scheduler.redis)


def _worker(stores: Stores, queues: int) -> tuple[int, int]:
    stores.clear()
    filling.put_into_redis(JOBS)
    names = ",".join(["default", *(f"q{number}" for number in range(queues - 1))])
    with _watched(stores) as peak, ExitStack() as running:
        running.enter_context(programs.worker(10, "--queues", names))
        programs.wait_for(lambda: stores.redis.xlen("rj:{default}:ready:1") == 0, "jobs to be run", LONGEST_S, step=0.2)
    return peak.postgres, peak.redis


@contextmanager
def _watched(stores: Stores) -> Iterator[Peak]:
    """The most that is seen until the block ends, above what is open before it."""
    peak, over = Peak(), threading.Event()
    with stores.connect(autocommit=True) as connection:
        before = redis_connections(stores.redis)

        def watch() -> None:
            while not over.wait(EVERY_S):
                peak.take(postgres_connections(connection), redis_connections(stores.redis) - before)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield peak
        finally:
            over.set()
            thread.join()
