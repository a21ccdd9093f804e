"""Producers: how fast calls go in, and what waking the relay costs those who commit."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import psycopg

from benchmarks import programs
from benchmarks.bench import Bench
from benchmarks.figures import Figure, Target, ratio
from benchmarks.filling import AT_ONCE, put_into_redis, until_all_run
from benchmarks.jobs import app, body, noop
from benchmarks.stores import pgbench_rate

WRITERS = 32
_BUSINESS = "INSERT INTO business (customer, address) VALUES (%s, %s)"
_PGBENCH = """BEGIN;
INSERT INTO business (customer, address) VALUES (1, 'somebody.with.a.name@example.com');
INSERT INTO redisjobs.outbox (job, input) VALUES ('noop', '{"body": {"i": 0}}');
COMMIT;
"""


def enqueue(bench: Bench) -> Iterator[Figure]:
    """One by one with a business row in one transaction; the same without the job; in batches; straight into Redis."""
    with_job, without, many, direct = [], [], [], []
    for _ in bench.rounds:
        bench.stores.clear()
        with bench.stores.connect() as connection:
            without.append(_commits(connection, bench.scale.seconds / 2, job=False))
            with_job.append(_commits(connection, bench.scale.seconds / 2, job=True))
            began = time.perf_counter()
            for first in range(0, bench.scale.jobs, AT_ONCE):
                app.enqueue(connection, [noop.call(body=body(n)) for n in range(first, first + AT_ONCE)])
                connection.commit()
            many.append(bench.scale.jobs / (time.perf_counter() - began))
        began = time.perf_counter()
        put_into_redis(bench.scale.jobs)
        direct.append(bench.scale.jobs / (time.perf_counter() - began))
    yield Figure("enqueue, one and a business row in a transaction", "commits/s", with_job)
    yield ratio("… against the business row alone", with_job, without)
    yield Figure(f"enqueue, {AT_ONCE} in a transaction", "jobs/s", many)
    yield Figure(f"enqueue_direct, {AT_ONCE} at once", "jobs/s", direct)


def _commits(connection: psycopg.Connection[object], seconds: float, *, job: bool) -> float:
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        connection.execute(_BUSINESS, (count, "somebody.with.a.name@example.com"))
        if job:
            noop.enqueue(connection, body=body(count))
        connection.commit()
        count += 1
    return count / (time.perf_counter() - began)


def wake_up(bench: Bench) -> Iterator[Figure]:
    """Many writers at once beside a relay: commits a second with the trigger that wakes it, and without."""
    pgbench = bench.stores.pgbench()
    if pgbench is None:
        return
    script = bench.folder / "writer.sql"
    script.write_text(_PGBENCH)
    rates: dict[str, list[float]] = {"ENABLE": [], "DISABLE": []}
    for _ in bench.rounds:
        for way, found in rates.items():
            bench.stores.clear()
            bench.stores.sql(f"ALTER TABLE redisjobs.outbox {way} TRIGGER wake")
            with programs.relay(), programs.worker(100):
                until_all_run(bench.stores)
                done = subprocess.run(
                    [pgbench, "-n", "-M", "prepared", "-c", str(WRITERS), "-j", "2", "-T", f"{bench.scale.seconds:.0f}",
                     "-f", script, bench.stores.servers.database_url],
                    check=True, capture_output=True, text=True,
                )  # fmt: skip
            found.append(pgbench_rate(done.stdout))
    yield Figure(f"{WRITERS} writers, with the wake-up", "commits/s", rates["ENABLE"])
    target = Target(0.9, loose=0.6)
    yield ratio("… against the same without the wake-up", rates["ENABLE"], rates["DISABLE"], target)
