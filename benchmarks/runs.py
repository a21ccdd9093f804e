"""Durable runs: five steps, each recorded before the next begins, and the replay of a long one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from uuid import UUID

from benchmarks import filling, jobs, programs
from benchmarks.bench import Bench
from benchmarks.figures import Figure, Target
from benchmarks.machine import cpu_seconds, resident_mb
from benchmarks.probe import probing
from redisjobs.steps import StepRecord, StepStore, Token

SLOTS = (1, 10, 100)
RECORDS = 1_000
CLAIMS = 20
EVENTS_AT_ONCE = 1_000
_SEND = "SELECT count(redisjobs.send_event('go', n::text, '1')) FROM generate_series(%s::integer, %s::integer) AS n"


def five_steps(bench: Bench) -> Iterator[Figure]:
    """One relay and one worker, in turn with each number of slots."""
    found: dict[int, list[float]] = {slots: [] for slots in SLOTS}
    notes: dict[int, dict[str, float | str]] = {}
    for _ in bench.rounds:
        for slots, rates in found.items():
            rate, notes[slots] = _run(bench, bench.scale.runs if slots > 1 else max(50, bench.scale.runs // 10), slots)
            rates.append(rate)
    for slots, rates in found.items():
        yield Figure(f"runs of {jobs.STEPS} steps, {slots} slots", "runs/s", rates, notes=notes[slots])
    many = [a / b for a, b in zip(found[SLOTS[-1]], found[1], strict=True)]
    yield Figure(f"… {SLOTS[-1]} slots against 1", "×", many, Target(4, loose=1.2))


def _run(bench: Bench, count: int, slots: int) -> tuple[float, dict[str, float | str]]:
    bench.stores.clear()
    filling.stage(bench.stores, count, job=jobs.five_steps)
    with probing(bench.folder, count) as probe, programs.relay():
        programs.wait_for(lambda: filling.is_published(bench.stores), "all rows to be published", 60)
        with programs.worker(slots) as worker:
            probe.wait_for(1)
            before = bench.stores.cpu() | {"worker": cpu_seconds(worker)}
            probe.wait_for(count, 300)
            after = bench.stores.cpu() | {"worker": cpu_seconds(worker)}
        ends = probe.starts()
    notes: dict[str, float | str] = {f"{name} µs": (after[name] - before[name]) / count * 1e6 for name in after}
    return (count - 1) / (max(ends) - min(ends)), notes


def waking(bench: Bench) -> Iterator[Figure]:
    """Runs that wait for an event each, and the events, sent in batches: all of them go on, none twice."""
    count = bench.scale.waiting
    bench.stores.clear()
    filling.stage(bench.stores, count, job=jobs.waits)
    with probing(bench.folder, count) as probe, programs.relay(), programs.worker(SLOTS[-1]) as worker:
        began, sizes = time.time(), list[float]()
        suspended = programs.wait_for(lambda: _is_suspended(bench, count, worker, sizes), "all to wait", 1_800, step=1)
        sent = time.time()
        with bench.stores.connect(autocommit=True) as connection:
            for first in range(0, count, EVENTS_AT_ONCE):
                connection.execute(_SEND, (first, min(count, first + EVENTS_AT_ONCE) - 1))
        woken = programs.wait_for(lambda: _is_over(bench, probe.hits, worker, sizes), "all to end", 1_800, step=1)
        hits, starts = probe.hits, probe.starts()
    assert hits == count, f"{count} runs went on {hits} times"
    assert all(starts), "a run did not go on"
    yield Figure(f"{count:,} runs are suspended", "runs/s", [count / (suspended - began)])
    notes: dict[str, float | str] = {"went on twice": 0.0}
    yield Figure("… and woken by as many events, to their ends", "runs/s", [count / (woken - sent)], notes=notes)
    quarter = len(sizes) // 4
    grown = max(sizes[-quarter:]) - max(sizes[quarter : 2 * quarter])
    yield Figure("… while the worker grew", "MB", [grown], Target(10, loose=50, at_least=False))


def _is_suspended(bench: Bench, count: int, worker: int, sizes: list[float]) -> bool:
    sizes.append(resident_mb(worker))
    return bool(bench.stores.sql("SELECT count(*) FROM redisjobs.outbox WHERE state = 'suspended'")[0][0] == count)


def _is_over(bench: Bench, hits: int, worker: int, sizes: list[float]) -> bool:
    sizes.append(resident_mb(worker))
    return bool(hits) and filling.is_settled(bench.stores)


def replay(bench: Bench) -> Iterator[Figure]:
    """How long a worker waits for all records of a run, in one statement."""
    bench.stores.clear()
    filling.stage(bench.stores, 1, job=jobs.five_steps)
    run: UUID = bench.stores.sql("SELECT id FROM redisjobs.outbox")[0][0]
    taken = asyncio.run(_claims(run))
    yield Figure(f"replay of {RECORDS} records", "ms", taken, Target(50, loose=1_000, at_least=False))


async def _claims(run: UUID) -> list[float]:
    store: StepStore = jobs.app.stores.steps()
    token = Token(run, 0, 1, 1, "bench")
    await store.claim(token)
    records = [StepRecord(run, f"step {n}", codec="json", value=b'{"i": 1, "k": %d}' % n) for n in range(RECORDS)]
    await asyncio.gather(*(store.put(token, record) for record in records))
    taken: list[float] = []
    for start in range(CLAIMS):
        began = time.perf_counter()
        claim = await store.claim(Token(run, 0, 2, start + 1, "bench"))
        taken.append((time.perf_counter() - began) * 1_000)
        assert len(claim.records) == RECORDS
    await store.close()
    return taken
