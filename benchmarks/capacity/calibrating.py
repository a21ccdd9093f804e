"""Measures each station by itself, and makes of it what the simulation is told."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks import carrying, filling, programs, working
from benchmarks.bench import Bench
from benchmarks.capacity.costs import Costs, Fit, fit
from benchmarks.capacity.meters import commands, spent
from benchmarks.capacity.turning import Turning
from benchmarks.figures import quantile
from benchmarks.probe import probing

SLOTS = (2, 10, 100)
COMMITS = 60
FAST = 0.1
"""The share of commits that meet a quiet moment: waiting for a core is simulated apart."""


def calibrate(bench: Bench, turned: Turning, tell: Callable[[str], None]) -> Costs:
    """The costs of this machine, from the relay alone, the worker alone and a queue's turn.

    Args:
        turned: what queues with one job each cost a relay.
    """
    published = _published(bench)
    settled = _settled(bench)
    tell(f"a row: {published}; an outcome: {settled}")
    worked = [_worked(bench, slots) for slots in SLOTS]
    tell(f"calls a job, seconds of the worker and of Redis: {worked}")
    return Costs(
        relay_row=_with_turn(published["relay"], turned, "cpu relay"),
        postgres_row=_with_turn(published["postgres"], turned, "cpu postgres"),
        redis_row=_with_turn(published["redis"], turned, "cpu redis"),
        relay_outcome=settled["relay"],
        postgres_outcome=settled["postgres"],
        redis_outcome=settled["redis"],
        worker_work=fit([(calls, worker) for calls, worker, _ in worked]),
        redis_work=fit([(calls, redis) for calls, _, redis in worked]),
        commit=_commit_s(bench),
    )


def _with_turn(row: float, turned: Turning, name: str) -> Fit:
    """What is left of a queue with one job, without that job, belongs to the turns that were taken for it."""
    known = turned.known
    return Fit(row, max(0.0, known[name] - turned.queues * row) / known["turns"])


def _published(bench: Bench) -> dict[str, float]:
    bench.stores.clear()
    filling.stage_in_sql(bench.stores, bench.scale.jobs)
    bench.stores.sql("ANALYZE redisjobs.outbox")
    return _seconds(carrying.measured(bench, "publish"))


def _settled(bench: Bench) -> dict[str, float]:
    """Of the jobs that were just published."""
    with probing(bench.folder, bench.scale.jobs) as probe, programs.worker(100):
        probe.wait_for(bench.scale.jobs)
    return _seconds(carrying.measured(bench, "settle"))


def _seconds(answer: dict[str, float]) -> dict[str, float]:
    micros = {"relay": answer["cpu_us"], "postgres": answer["postgres µs"], "redis": answer["redis µs"]}
    return {role: value / 1e6 for role, value in micros.items()}


def _worked(bench: Bench, slots: int) -> tuple[float, float, float]:
    """Calls of scripts a job, and seconds of CPU a job of the worker and of Redis."""
    count = bench.scale.jobs if slots >= 100 else bench.scale.jobs // 2
    bench.stores.clear()
    filling.put_into_redis(count)
    before = commands(bench.stores.redis)
    drained = working.drained(bench, count, slots)
    calls = spent(before, commands(bench.stores.redis))["scripts"] / drained["jobs"]  # a slow drain is cut off
    return calls, drained["worker µs"] / 1e6, drained["redis µs"] / 1e6


def _commit_s(bench: Bench) -> float:
    taken: list[float] = []
    with bench.stores.connect(autocommit=True) as connection:
        for number in range(COMMITS):
            began = time.perf_counter()
            connection.execute("INSERT INTO business (customer) VALUES (%s)", (number,))
            taken.append(time.perf_counter() - began)
    return quantile(taken, FAST)
