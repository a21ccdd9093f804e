"""The whole road with a relay and a worker as processes: throughput, latency, due times, and an idle system."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg

from benchmarks import filling, programs
from benchmarks.bench import Bench
from benchmarks.figures import Figure, Target, quantile, ratio
from benchmarks.jobs import app, body, noop
from benchmarks.machine import cpu_seconds, resident_mb
from benchmarks.probe import Probe, probing

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
    ours, prototypes = list[_Latency](), list[_Latency]()
    for _ in bench.rounds:
        bench.stores.clear()
        count = bench.scale.samples // bench.scale.rounds
        with probing(bench.folder, count) as probe, programs.relay(), programs.worker(10):
            filling.until_all_run(bench.stores)
            ours.append(_Latency.of(probe, asyncio.run(_paced(bench, count, _enqueue)), beside=1))
        bench.stores.clear()
        with (
            probing(bench.folder, count) as probe,
            programs.prototype("listen"),
            programs.prototype("serve"),
            bench.stores.connect() as connection,
        ):
            programs.wait_for(lambda: _hears(connection), "the prototype to listen", 30)
            asyncio.run(_paced(bench, 1, _insert))  # the first of each is not counted
            probe.wait_for(1)
            prototypes.append(_Latency.of(probe, asyncio.run(_paced(bench, count, _insert)), beside=1))
    every = [ms for each in ours for ms in each.whole]
    notes: dict[str, float | str] = {"longest": max(every)}
    notes["from the commit alone"] = statistics.median(quantile(each.after, 0.5) for each in ours)
    notes["ms: samples"] = " ".join(f"{ms}: {n}" for ms, n in sorted(Counter(map(int, every)).items()))
    for share, value, loose in ((0.5, 3.5, 50), (0.99, 10, 300)):
        name, limit = f"latency from before BEGIN to the start, p{share * 100:g}", Target(value, loose, at_least=False)
        found, theirs = [[quantile(each.whole, share) for each in them] for them in (ours, prototypes)]
        yield Figure(name, "ms", found, limit, notes if share == 0.5 else {})
        yield Figure(f"… the prototype: listen, select, add, mark; p{share * 100:g}", "ms", theirs)
        yield ratio(f"… against the prototype, p{share * 100:g}", found, theirs)


@dataclass(frozen=True, slots=True)
class _Latency:
    """One round: ms from before BEGIN, and from the commit, to the first line."""

    whole: list[float]
    after: list[float]

    @classmethod
    def of(cls, probe: Probe, sent: tuple[list[float], list[float]], beside: int = 0) -> _Latency:
        """Of the jobs that were sent, once all of them have run, `beside` others among them."""
        probe.wait_for(len(sent[0]) + beside)
        starts = probe.starts()
        begun, committed = ([(at - before) * 1000 for at, before in zip(starts, them, strict=True)] for them in sent)
        return cls(begun, committed)


def _hears(connection: psycopg.Connection[Any]) -> bool:
    """Whether somebody listens, and the worker has made its group: told by a session that waits for a notice."""
    found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN proto%'").fetchone()
    connection.commit()
    return bool(found and found[0])


async def _paced(
    bench: Bench, count: int, send: Callable[[psycopg.Connection[Any], int], None]
) -> tuple[list[float], list[float]]:
    begun, committed = [], []
    with bench.stores.connect() as connection:
        for number in range(count):
            await asyncio.sleep(random.uniform(*GAPS_S))
            begun.append(time.time())
            send(connection, number)
            connection.commit()
            committed.append(time.time())
    return begun, committed


def _enqueue(connection: psycopg.Connection[Any], number: int) -> None:
    noop.enqueue(connection, body=body(number))


def _insert(connection: psycopg.Connection[Any], number: int) -> None:
    connection.execute("INSERT INTO proto_outbox (body) VALUES (%s)", [json.dumps(body(number)).encode()])
    connection.execute("NOTIFY proto")


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
