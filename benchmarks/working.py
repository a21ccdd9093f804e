"""The worker by itself, on jobs that stand in Redis already."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks import programs
from benchmarks.bench import Bench
from benchmarks.figures import Figure, Target, ratio
from benchmarks.filling import put_into_redis
from benchmarks.machine import cpu_seconds, resident_mb
from benchmarks.probe import Probe, probing

MEMORY_JOBS = 20_000
LONGEST_S = 8.0
"""A drain is cut off after so long."""


def drain(bench: Bench) -> Iterator[Figure]:
    """No-op jobs in one process, with 10 and with 100 slots, beside a prototype of the same."""
    for slots, target in ((100, Target(0.5, loose=0.15)), (10, None)):
        ours: list[dict[str, float]] = []
        prototype: list[dict[str, float]] = []
        for _ in bench.rounds:
            bench.stores.clear()
            put_into_redis(bench.scale.jobs)
            ours.append(drained(bench, bench.scale.jobs, slots))
            bench.stores.clear()
            prototype.append(programs.answer_of("prototypes", "worker", bench.scale.jobs, slots))
        rates, bound = [each["rate"] for each in ours], [each["rate"] for each in prototype]
        notes: dict[str, float | str] = {
            name: value for name, value in ours[-1].items() if name not in ("rate", "jobs")
        }
        yield Figure(f"drain, {slots} slots", "jobs/s", rates, notes=notes)
        bare: dict[str, float | str] = {"worker µs": prototype[-1]["cpu_us"]}
        yield Figure("… the prototype: a task, a deadline and a context for each job", "jobs/s", bound, notes=bare)
        yield ratio("… against the prototype", rates, bound, target)


def backlogs(bench: Bench) -> Iterator[Figure]:
    """How fast a worker is however much waits."""
    rates: dict[int, list[float]] = {count: [] for count in bench.scale.backlogs}
    for _ in bench.rounds:
        for count, found in rates.items():
            bench.stores.clear()
            put_into_redis(count)
            found.append(drained(bench, count, 100)["rate"])
    for count, found in rates.items():
        yield Figure(f"drain with {count:,} waiting", "jobs/s", found)
    first, last = bench.scale.backlogs[0], bench.scale.backlogs[-1]
    name = f"… with {last:,} against {first:,}"
    yield ratio(name, rates[last], rates[first], Target(0.9, loose=0.2))


def memory(bench: Bench) -> Iterator[Figure]:
    """What a job with 200 bytes of arguments takes in Redis while it waits."""
    bench.stores.clear()
    before = bench.stores.used_memory()
    put_into_redis(MEMORY_JOBS)
    each = (bench.stores.used_memory() - before) / MEMORY_JOBS
    yield Figure("a waiting job in Redis", "bytes", [each], Target(450, loose=500, at_least=False))


def drained(bench: Bench, count: int, slots: int) -> dict[str, float]:
    """Have a worker run so many jobs that Redis holds: its rate, how many it came to, the CPU a job."""
    with probing(bench.folder, count) as probe, programs.worker(slots) as pid:
        probe.wait_for(1)
        redis, used, first = bench.stores.cpu().get("redis", 0.0), cpu_seconds(pid), probe.hits
        _wait_for_the_end(probe, count)
        ran = max(1, probe.hits - first)
        found = {
            "worker µs": (cpu_seconds(pid) - used) / ran * 1e6,
            "redis µs": (bench.stores.cpu().get("redis", 0.0) - redis) / ran * 1e6,
            "worker MB": resident_mb(pid),
        }
        starts = [moment for moment in probe.starts() if moment]
    return found | {"rate": (len(starts) - 1) / (max(starts) - min(starts)), "jobs": float(len(starts))}


def _wait_for_the_end(probe: Probe, count: int) -> None:
    ends_at = time.monotonic() + LONGEST_S
    while probe.hits < count and time.monotonic() < ends_at:
        time.sleep(0.005)
