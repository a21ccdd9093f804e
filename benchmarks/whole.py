"""The whole road with a relay and a worker as processes: throughput, latency, due times, and an idle system."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from benchmarks import filling, programs
from benchmarks.bench import Bench
from benchmarks.figures import Figure, Target, quantile
from benchmarks.jobs import app, body, noop
from benchmarks.machine import cpu_seconds, resident_mb
from benchmarks.probe import probing

LEAD_S = 4.0
"""How far ahead of their time due jobs are committed."""
GAPS_S = (0.005, 0.5)
"""Between two samples of the latency; beyond the relay's poll interval, so that a step of it would show."""


def road(bench: Bench) -> Iterator[Figure]:
    """From rows that are committed to rows that are settled, one relay and one worker."""
    settled, started, notes = [], [], dict[str, float | str]()
    for _ in bench.rounds:
        count = bench.scale.jobs
        bench.stores.clear()
        filling.stage(bench.stores, count)
        with probing(bench.folder, count) as probe, programs.relay() as relay, programs.worker(100) as worker:
            probe.wait_for(1)
            before = bench.stores.cpu() | {"relay": cpu_seconds(relay), "worker": cpu_seconds(worker)}
            probe.wait_for(count, 300)
            end = programs.wait_for(lambda: filling.is_settled(bench.stores), "all rows to be settled", 60)
            after = bench.stores.cpu() | {"relay": cpu_seconds(relay), "worker": cpu_seconds(worker)}
            starts = probe.starts()
        settled.append(count / (end - min(starts)))
        started.append(count / (max(starts) - min(starts)))
        notes = {f"{name} µs": (seconds - before[name]) / count * 1e6 for name, seconds in after.items()}
    yield Figure("road, committed to settled", "jobs/s", settled, notes=notes)
    yield Figure("road, committed to started", "jobs/s", started)


def latency(bench: Bench) -> Iterator[Figure]:
    """One job now and then on an idle system, from before BEGIN, and from the commit, to its first line."""
    bench.stores.clear()
    count = bench.scale.samples
    with probing(bench.folder, count) as probe, programs.relay(), programs.worker(10):
        filling.until_all_run(bench.stores)
        begun, committed = asyncio.run(_paced(bench, count))
        probe.wait_for(count + 1)
        starts = probe.starts()
    whole = [(at - before) * 1000 for at, before in zip(starts, begun, strict=True)]
    after = [(at - before) * 1000 for at, before in zip(starts, committed, strict=True)]
    notes: dict[str, float | str] = {"longest": max(whole), "from the commit alone": quantile(after, 0.5)}
    notes["ms: samples"] = " ".join(f"{ms}: {n}" for ms, n in sorted(Counter(map(int, whole)).items()))
    limit = Target(3.5, loose=50, at_least=False)
    yield Figure("latency from before BEGIN to the start, p50", "ms", [quantile(whole, 0.5)], limit, notes)
    limit = Target(10, loose=300, at_least=False)
    yield Figure("latency from before BEGIN to the start, p99", "ms", [quantile(whole, 0.99)], limit)


async def _paced(bench: Bench, count: int) -> tuple[list[float], list[float]]:
    begun, committed = [], []
    with bench.stores.connect() as connection:
        for number in range(count):
            await asyncio.sleep(random.uniform(*GAPS_S))
            call = noop.call(body=body(number))
            begun.append(time.time())
            app.enqueue_one(connection, call)
            connection.commit()
            committed.append(time.time())
    return begun, committed


def due_at_once(bench: Bench) -> Iterator[Figure]:
    """Many jobs that are due in one and the same second: how late the last one starts."""
    late = []
    for _ in bench.rounds:
        bench.stores.clear()
        count = bench.scale.due
        with probing(bench.folder, count) as probe, programs.relay(), programs.worker(100):
            filling.until_all_run(bench.stores)
            when = float(int(time.time() + LEAD_S) + 1)
            moment = datetime.fromtimestamp(when, UTC)
            with bench.stores.connect() as connection:
                later = noop.using(run_at=moment)
                app.enqueue(connection, [later.call(body=body(number)) for number in range(count)])
            probe.wait_for(count + 1)
            late.append(max(probe.starts()) - when)
    limit = Target(0.5, loose=5, at_least=False)
    yield Figure(f"{bench.scale.due:,} due in one second, the last start", "s late", late, limit)


def idle(bench: Bench) -> Iterator[Figure]:
    """What a worker and a relay cost that have nothing to do."""
    bench.stores.clear()
    with programs.relay() as relay, programs.worker(10) as worker:
        filling.until_all_run(bench.stores)
        time.sleep(3)
        commands = bench.stores.commands(bench.scale.seconds)
        before, began = cpu_seconds(relay) + cpu_seconds(worker), time.monotonic()
        time.sleep(2 * bench.scale.seconds)
        cpu = (cpu_seconds(relay) + cpu_seconds(worker) - before) / (time.monotonic() - began) * 100
        size = {"worker": resident_mb(worker), "relay": resident_mb(relay)}
    limit = Target(1, loose=10, at_least=False)
    yield Figure("idle: CPU of worker and relay", "% of a core", [cpu], limit)
    notes: dict[str, float | str] = {"called by scripts": commands["by scripts"]}
    limit = Target(20, loose=100, at_least=False)
    yield Figure("idle: commands that Redis is sent", "/s", [commands["sent"]], limit, notes)
    limit = Target(60, loose=120, at_least=False)
    yield Figure("idle: memory of the worker", "MB", [size["worker"]], limit, {"relay MB": size["relay"]})
