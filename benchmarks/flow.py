"""What flow control costs those whom it lets pass."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import programs
from benchmarks.bench import Bench
from benchmarks.figures import Figure, Target, ratio
from benchmarks.filling import put_into_redis
from benchmarks.jobs import held, limited, noop, shared
from benchmarks.working import drained
from redisjobs import Job

SLOTS = 100
LONGEST_S = 600.0
WITHOUT_GRACE = ("--shutdown-grace", "0.1")


def shares(bench: Bench) -> Iterator[Figure]:
    """No-op jobs of twenty tenants, which take turns, against no-op jobs that are taken as they came."""
    fair, plain = list[float](), list[float]()
    for _ in bench.rounds:
        fair.append(_drain(bench, shared))
        plain.append(_drain(bench, noop))
    yield Figure("drain, 20 shares in turn", "jobs/s", fair)
    yield Figure("… without shares", "jobs/s", plain)
    yield ratio("… with shares against without", fair, plain, Target(0.9, loose=0.5))


def limits(bench: Bench) -> Iterator[Figure]:
    """No-op jobs beside very many that wait behind a limit, and no-op jobs under a limit that has room for all."""
    plain, under, beside = list[float](), list[float](), list[float]()
    for _ in bench.rounds:
        plain.append(_drain(bench, noop))
        under.append(_drain(bench, limited))
        bench.stores.clear()
        put_into_redis(bench.scale.waiting, held)
        _let_them_line_up(bench)
        beside.append(_drain(bench, noop, clear=False))
    yield Figure("drain without limits", "jobs/s", plain)
    yield Figure(f"… beside {bench.scale.waiting:,} jobs behind a limit of 2", "jobs/s", beside)
    yield ratio("… against nothing beside it", beside, plain, Target(0.97, loose=0.6))
    yield Figure("… under a limit that has room for all", "jobs/s", under)
    yield ratio("… against no limit", under, plain, Target(0.5, loose=0.2))


def _drain(bench: Bench, job: Job[..., None], *, clear: bool = True) -> float:
    if clear:
        bench.stores.clear()
    put_into_redis(bench.scale.jobs, job)
    return drained(bench, bench.scale.jobs, SLOTS)["rate"]


def _let_them_line_up(bench: Bench) -> None:
    """A worker looks at each of them, and then they wait in their line."""
    redis = bench.stores.redis
    with programs.worker(SLOTS, *WITHOUT_GRACE):
        programs.wait_for(lambda: redis.xlen("rj:{default}:ready:1") == 0, "all to stand in line", LONGEST_S, step=0.05)
