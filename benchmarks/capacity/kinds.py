"""What one job costs both stores and every process, by the kind of job: plain, delayed, limited, durable."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks import filling, programs
from benchmarks.bench import Bench
from benchmarks.capacity.meters import Counters, Meter, spent
from benchmarks.jobs import app, body, five_steps, limited, noop
from benchmarks.machine import cpu_seconds
from benchmarks.stores import Stores

LONGEST_S = 300.0
FLUSH_S = 1.5
"""Sessions of Postgres tell what they wrote once a second."""
SLOTS = 100
DELAY_S = 3.0
_KEPT = """SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0)::float8 FROM pg_inherits
WHERE inhparent = 'redisjobs.finished'::regclass"""
_PROGRAM = Path(sys.executable).with_name("redisjobs")


@dataclass(frozen=True, slots=True)
class Kind:
    """What one job of a kind came to, in an average of many.

    Args:
        waiting_bytes: of Redis, while it waits there: for a worker, its time, or a limit.
        staged: what its enqueuing wrote.
        carried: what all that followed used, to the outcome in Postgres and the end of the relay.
        kept_bytes: of Postgres' disk, while what ended is kept.
    """

    name: str
    waiting_bytes: float
    staged: Counters
    carried: Counters
    kept_bytes: float


KINDS = {
    "plain": noop,
    "delayed": noop.using(delay=DELAY_S),
    "under a limit, passes": limited,
    "under a limit, waits once": limited,
    "durable, 5 steps": five_steps,
}


def share(name: str, jobs: int) -> int:
    """How many of this kind stand for so many plain ones."""
    return jobs // 5 if KINDS[name] is five_steps else jobs


def measure(bench: Bench, name: str, count: int) -> Kind:
    """So many jobs of a kind, from rows through a relay and a worker to their outcomes."""
    stores, waits = bench.stores, name.endswith("waits once")
    stores.clear()
    with programs.relay() as relay:
        stores.sql("INSERT INTO redisjobs.queues (queue, paused) VALUES ('default', true)")
        programs.wait_for(lambda: stores.redis.scard("rj:queues") >= 1, "the relay to open its queue", LONGEST_S)
        meter, empty = Meter(stores, {"relay": [relay]}), stores.used_memory()
        before = meter.look()
        _stage(stores, name, count)
        staged = spent(before, meter.look())
        first = meter.look()
        _pause(stores, paused=False)
        programs.wait_for(lambda: filling.is_published(stores), "all rows to be published", LONGEST_S, step=0.1)
        waiting = (stores.used_memory() - empty) / count
        _pause(stores, paused=True)
        if waits:
            _limit("set", "--pause")
        with programs.worker(SLOTS) as worker:  # its start is not counted
            programs.wait_for(lambda: stores.redis.zcard("rj:{-}:seen") > 0, "the worker to come", LONGEST_S, step=0.1)
            started = cpu_seconds(worker)
            _pause(stores, paused=False)
            if waits:
                waiting = _until_limited(stores, count, empty)
            programs.wait_for(lambda: filling.is_settled(stores), "all rows to be settled", LONGEST_S, step=0.1)
            time.sleep(FLUSH_S)
            used = spent(first, meter.look()) | {"cpu worker": cpu_seconds(worker) - started}
    kept = stores.sql(_KEPT)[0][0]
    return Kind(name, waiting, _each(staged, count), _each(used, count), kept / count)


def _pause(stores: Stores, *, paused: bool) -> None:
    """Pause the queue, or let it go on, and wait until Redis knows."""
    stores.sql("SELECT redisjobs.pause('default', %s)", paused)
    told = b"1" if paused else b"0"
    programs.wait_for(
        lambda: stores.redis.hget("rj:{default}:life", "paused") == told, "Redis to hear of the pause", LONGEST_S
    )


def _until_limited(stores: Stores, count: int, empty: int) -> float:
    """All of them wait for their limit; what each takes there. Then they may go on."""
    tickets = "rj:{-}:tickets"
    programs.wait_for(lambda: stores.redis.hlen(tickets) >= count, "all jobs to wait for the limit", LONGEST_S, 0.1)
    each = (stores.used_memory() - empty) / count
    _limit("unset")
    return each


def _stage(stores: Stores, name: str, count: int) -> None:
    """One transaction for each thousand, through the public call."""
    with stores.connect() as connection:
        for first in range(0, count, filling.AT_ONCE):
            numbers = range(first, min(count, first + filling.AT_ONCE))
            app.enqueue(connection, [KINDS[name].call(body=body(number)) for number in numbers])
            connection.commit()


def _limit(*words: str) -> None:
    subprocess.run([_PROGRAM, "limits", words[0], "capacity", *words[1:]], check=True, stdout=subprocess.DEVNULL)


def _each(used: Counters, count: int) -> Counters:
    return {name: value / count for name, value in used.items() if name not in ("seconds", "idle")}
