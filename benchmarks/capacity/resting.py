"""What relays with many queues, and many workers, cost while nothing goes on."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks import programs
from benchmarks.bench import Bench
from benchmarks.capacity.meters import Counters, Meter, postgres_connections, redis_connections, spent
from benchmarks.machine import resident_mb
from benchmarks.stores import Stores

LONGEST_S = 1_800.0
COOLED_S, WINDOW_S = 6.0, 5.0
PROCESSES = 4
"""In which the stand-ins of a crowd live."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing goes on for a while.

    Args:
        count: of queues, or of workers.
        each: queues that each worker serves.
        second: what was used, by the second: CPU in seconds, and numbers.
        opening: CPU seconds of relay, postgres and redis until all queues were open and quiet.
    """

    count: int
    each: int
    second: Counters
    redis_connections: int
    postgres_connections: int
    redis_bytes: float
    resident_mb: float
    opening: Counters

    @property
    def starved(self) -> bool:
        """The machine was too busy for its workers: each asks for each of its queues once a second, and could not."""
        return self.second["scripts"] < 0.95 * self.count * self.each


def relays(bench: Bench, queues: int, seconds: float) -> Rest:
    """A pair of relays, one of which holds all queues."""
    stores = bench.stores
    stores.clear()
    stores.sql("INSERT INTO redisjobs.queues (queue) SELECT 'q' || n FROM generate_series(0, %s) n", queues - 1)
    stores.sql("ANALYZE redisjobs.queues")
    empty = stores.used_memory()
    with programs.relay() as first:
        meter = Meter(stores, {"relay": [first]})
        before = meter.look()
        opened = lambda: stores.redis.scard("rj:queues") >= queues  # noqa: E731 - asked in a loop
        programs.wait_for(opened, f"{queues} queues to be opened", LONGEST_S, step=0.1)
        _until_quiet(meter)
        opening = spent(before, meter.look())
        with programs.relay() as second:
            meter = Meter(stores, {"relay": [first, second]})
            _until_quiet(meter)
            used = _measured(meter, seconds)
            return Rest(
                queues, 0, used, *_connections(stores), (stores.used_memory() - empty) / queues,
                resident_mb(first), opening,
            )  # fmt: skip


def workers(bench: Bench, count: int, queues: int, seconds: float) -> Rest:
    """So many workers with so many queues each, all stand-ins of one machine."""
    stores = bench.stores
    stores.clear()
    empty = stores.used_memory()
    with crowd(stores, count, queues) as pids:
        meter = Meter(stores, {"worker": pids})
        _until_quiet(meter)
        used = _measured(meter, seconds)
        held, sessions = _connections(stores)
        memory = sum(map(resident_mb, pids)) / count
        return Rest(count, queues, used, held, sessions, (stores.used_memory() - empty) / count, memory, {})


@contextmanager
def crowd(stores: Stores, count: int, queues: int) -> Iterator[Sequence[int]]:
    """Stand-ins that run inside of the block; the ids of their processes."""
    share = math.ceil(count / PROCESSES)
    firsts = range(0, count, share)
    with ExitStack() as running:
        words = [(min(share, count - first), queues, first * queues) for first in firsts]
        pids = [
            running.enter_context(programs.running(sys.executable, "-m", "benchmarks.capacity.crowd", *map(str, each)))
            for each in words
        ]
        programs.wait_for(lambda: stores.redis.zcard("rj:{-}:seen") >= count, f"{count} workers", LONGEST_S, step=0.1)
        yield pids


def _until_quiet(meter: Meter) -> None:
    """Until what began has ended: queues are no longer looked at in every round, and no less is asked for than before.

    Renewals come in bursts, so that windows are never alike; but what ends costs less from one window to the next.
    """
    time.sleep(COOLED_S)
    last, used = math.inf, _measured(meter, WINDOW_S)["commands"]
    ends_at = time.monotonic() + LONGEST_S
    while used < 0.7 * last and time.monotonic() < ends_at:
        last, used = used, _measured(meter, WINDOW_S)["commands"]


def _measured(meter: Meter, seconds: float) -> Counters:
    before = meter.look()
    time.sleep(seconds)
    used = spent(before, meter.look())
    return {name: value / used["seconds"] for name, value in used.items()}


def _connections(stores: Stores) -> tuple[int, int]:
    with stores.connect(autocommit=True) as connection:
        return redis_connections(stores.redis), postgres_connections(connection)
