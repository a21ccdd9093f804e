"""What really ran, written down by the bodies themselves, outside of the system under test.

A body does

    with ledger.run(job_id, attempt):          # async with ledger.arun(…)
        ...

and the row is committed before the body goes on. In a worker process the module of the app gets
its ledger by `Ledger.of_env()`; the test hands it `ledger.env`. The answers (`starts`, `overlaps`,
`extra_starts`, …) are for the test. Times are the database's clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Self
from uuid import UUID

import psycopg
from psycopg.rows import class_row
from psycopg_pool import ConnectionPool

_URL = "REDISJOBS_TEST_LEDGER_URL"
_CONNECTIONS = 4

_SCHEMA = """
CREATE SCHEMA IF NOT EXISTS ledger;
CREATE TABLE IF NOT EXISTS ledger.runs (
    run bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job text NOT NULL,
    attempt integer NOT NULL,
    pid integer NOT NULL,
    note text NOT NULL,
    started timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended timestamptz,
    how text
);
"""
_START = "INSERT INTO ledger.runs (job, attempt, pid, note) VALUES (%s, %s, %s, %s) RETURNING run"
_END = "UPDATE ledger.runs SET ended = clock_timestamp(), how = %s WHERE run = %s"
_RUNS = "SELECT run, job, attempt, pid, note, started, ended, how FROM ledger.runs"
_OVERLAPS = """
SELECT a.run, b.run FROM ledger.runs a JOIN ledger.runs b ON a.job = b.job AND a.run < b.run
WHERE a.started < b.ended AND b.started < a.ended ORDER BY a.run, b.run
"""
_AT_ONCE = """
SELECT coalesce(max(running), 0) FROM (
    SELECT sum(step) OVER (ORDER BY at, step) AS running FROM (
        SELECT started AS at, 1 AS step FROM ledger.runs WHERE note = %(note)s AND ended IS NOT NULL
        UNION ALL SELECT ended, -1 FROM ledger.runs WHERE note = %(note)s AND ended IS NOT NULL) steps) sums
"""
_ENDS = """
SELECT id, state FROM redisjobs.finished UNION ALL SELECT id, 'dead' FROM redisjobs.dead
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One start of a body.

    Attributes:
        note: the body's own word for a group of runs, such as a limiter's name.
        ended: None where the process was killed, or where it still runs.
        how: `returned`, or the name of the exception.
    """

    run: int
    job: str
    attempt: int
    pid: int
    note: str
    started: datetime
    ended: datetime | None
    how: str | None


class Ledger:
    """The table of runs in one database; made if it is not there.

    Args:
        url: reaches the database directly, not by way of a proxy that the test disturbs.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._pid = 0
        self._open_for_this_process()
        with self._pool.connection() as conn:
            conn.execute("SELECT pg_advisory_xact_lock(7105)")
            conn.execute(_SCHEMA)

    @classmethod
    def of_env(cls) -> Ledger:
        """The ledger that the test handed to this process."""
        return cls(os.environ[_URL])

    @property
    def env(self) -> dict[str, str]:
        """Environment for a process whose bodies shall write here."""
        return {_URL: self.url}

    def close(self) -> None:
        self._threads.shutdown()
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # for bodies

    @contextlib.contextmanager
    def run(self, job: UUID | str, attempt: int = 1, note: str = "") -> Iterator[int]:
        """Write down the start now and the end at the end; gives the number of the run."""
        run = self._start(str(job), attempt, note)
        how = "returned"
        try:
            yield run
        except BaseException as error:
            how = type(error).__name__
            raise
        finally:
            self._write(_END, how, run)

    @contextlib.asynccontextmanager
    async def arun(self, job: UUID | str, attempt: int = 1, note: str = "") -> AsyncIterator[int]:
        """`run` for async bodies, of any loop."""
        loop = asyncio.get_running_loop()
        self._open_for_this_process()
        run = await loop.run_in_executor(self._threads, self._start, str(job), attempt, note)
        how = "returned"
        try:
            yield run
        except BaseException as error:
            how = type(error).__name__
            raise
        finally:
            await loop.run_in_executor(self._threads, self._write, _END, how, run)

    # for tests

    def runs(self, job: UUID | str | None = None) -> list[Run]:
        """All runs, or those of one job, in the order of their starts."""
        where = "" if job is None else " WHERE job = %(job)s"
        with self._pool.connection() as conn, conn.cursor(row_factory=class_row(Run)) as cursor:
            return cursor.execute(f"{_RUNS}{where} ORDER BY started, run".encode(), {"job": str(job)}).fetchall()

    def starts(self, job: UUID | str) -> int:
        """How often the job's body was started."""
        return len(self.runs(job))

    def started(self) -> set[str]:
        """The jobs that were started at least once."""
        return {run.job for run in self.runs()}

    def never_started(self, jobs: Iterable[UUID | str]) -> set[str]:
        return {str(job) for job in jobs} - self.started()

    def extra_starts(self) -> dict[str, int]:
        """Jobs that were started more than once, and how often more."""
        counted = Counter(run.job for run in self.runs())
        return {job: count - 1 for job, count in counted.items() if count > 1}

    def overlaps(self) -> list[tuple[int, int]]:
        """Pairs of runs of one job that ran at the same time. Runs without an end are left out."""
        return [(int(str(one)), int(str(other))) for one, other in self._write(_OVERLAPS)]

    def most_at_once(self, note: str = "") -> int:
        """How many runs with this note there were at the same time. Runs without an end are left out."""
        return int(str(self._write(_AT_ONCE.replace("%(note)s", "%s"), note, note)[0][0]))

    def ends(self) -> dict[str, str]:
        """What redisjobs says of the jobs that have ended in this database: id -> `done`, `dead`, ….

        Raises:
            AssertionError: a job has two ends.
        """
        rows = [(str(job), str(state)) for job, state in self._write(_ENDS)]
        twice = [job for job, count in Counter(job for job, _ in rows).items() if count > 1]
        assert not twice, f"jobs with more than one end: {twice}"
        return dict(rows)

    def accepted(self) -> set[str]:
        """The jobs whose completion redisjobs has accepted."""
        return {job for job, state in self.ends().items() if state == "done"}

    def _start(self, job: str, attempt: int, note: str) -> int:
        return int(str(self._write(_START, job, attempt, os.getpid(), note)[0][0]))

    def _write(self, query: str, *values: object) -> list[tuple[object, ...]]:
        self._open_for_this_process()
        with self._pool.connection() as conn:
            cursor = conn.execute(query.encode(), values or None)
            return cursor.fetchall() if cursor.description is not None else []

    def _open_for_this_process(self) -> None:
        """A fork must not share the connections of its parent."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._threads = ThreadPoolExecutor(_CONNECTIONS, "ledger")
            self._pool: ConnectionPool[psycopg.Connection[tuple[object, ...]]] = ConnectionPool(
                self.url, min_size=0, max_size=_CONNECTIONS, open=True, timeout=30
            )
