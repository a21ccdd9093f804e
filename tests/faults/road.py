"""The whole road of a test: both stores, and relays and workers as processes of their own, with short times."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from redisjobs import Call
from redisjobs.broker.client import connect_sync, sync_nodes_of
from tests.faults.journal import Journal
from tests.faults.shop import app, order
from tests.support.eventually import eventually
from tests.support.leftovers import left_in_redis
from tests.support.processes import Processes, Program

T = TypeVar("T")

TIERS = ("small", "night", "release")


def tier() -> str:
    """How long the tests of faults may take: REDISJOBS_FAULTS, small by default."""
    name = os.environ.get("REDISJOBS_FAULTS", "small")
    assert name in TIERS, f"REDISJOBS_FAULTS={name!r}: pass one of {', '.join(TIERS)}"
    return name


def sized(small: T, night: T, release: T | None = None) -> T:
    """The same test with fewer or more repeats, jobs or seconds."""
    return {"small": small, "night": night, "release": night if release is None else release}[tier()]


LEASE_S = sized(2, 3)
"""Of a worker's deliveries."""
RELAY_LEASE_S = 4
"""Of a relay's queues."""
STALL_S = 2.0
"""For so long a machine that runs other tests too may leave everybody standing: part of each bound in seconds."""


class Road:
    """What a test acts on and looks at.

    Args:
        database_url: the store itself, never a proxy in front of it.
        redis_url: likewise.

    Attributes:
        committed: the ids of the jobs that were enqueued and committed.
        rolled_back: the ids of those that must never run.
    """

    def __init__(self, database_url: str, redis_url: str, processes: Processes, journal: Journal) -> None:
        self.database_url, self.redis_url = database_url, redis_url
        self.processes, self.journal = processes, journal
        self.committed: list[str] = []
        self.rolled_back: list[str] = []
        self.redis: Any = connect_sync(redis_url)

    def close(self) -> None:
        self.redis.close()

    # -- processes
    def relay(self, *options: str, lease: float = RELAY_LEASE_S, **changed: Any) -> Program:
        """Start a relay. `database` and `redis` name other ways to the stores, `env` is its environment."""
        arguments = ("--interval", "100ms", "--lease", f"{lease}s", *options)
        return self.processes.redisjobs("relay", *arguments, env=self._env(**changed))

    def worker(
        self,
        *options: str,
        place: str = "tests.faults.shop:app",
        slots: int = 10,
        lease: float = LEASE_S,
        **changed: Any,
    ) -> Program:
        """Start a worker, as `relay`."""
        arguments = ("--visibility-timeout", f"{lease}s", "-c", str(slots), *options)
        return self.processes.redisjobs("worker", place, *arguments, env=self._env(**changed))

    async def start(self, *, relays: int = 1, workers: int = 1, **options: Any) -> tuple[list[Program], list[Program]]:
        """Start relays and workers, and wait until they say that they have started. `options` are of `worker`."""
        started = [self.relay() for _ in range(relays)], [self.worker(**options) for _ in range(workers)]
        await up(*started[0], *started[1])
        return started

    def _env(self, database: str = "", redis: str = "", env: dict[str, str] | None = None) -> dict[str, str]:
        urls = {"REDISJOBS_DATABASE_URL": database or self.database_url, "REDISJOBS_REDIS_URL": redis or self.redis_url}
        return urls | self.journal.env | {"SHOP_DATABASE_URL": self.database_url} | (env or {})

    # -- jobs
    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection to the database itself."""
        return psycopg.connect(self.database_url)

    def enqueue(self, *calls: Call[Any] | Iterable[Call[Any]]) -> list[str]:
        """Enqueue in one transaction and commit; the ids."""
        with self.connect() as conn:
            ids = [handle.id for handle in app.enqueue(conn, *calls)]
        self.committed += ids
        return ids

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows of a statement in a transaction of its own."""
        with self.connect() as conn:
            cursor = conn.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description is not None else []

    def ends(self) -> dict[str, str]:
        """How the jobs ended that have: id -> done, dead, …"""
        rows = self.query("SELECT id, state FROM redisjobs.finished UNION ALL SELECT id, 'dead' FROM redisjobs.dead")
        found = {str(job): str(state) for job, state in rows}
        assert len(found) == len(rows), "a job has two ends"
        return found

    def done(self) -> set[str]:
        """The jobs whose completion is settled."""
        return {job for job, state in self.ends().items() if state == "done"}

    def states(self) -> dict[str, str]:
        """The rows of the outbox: id -> state."""
        return {str(job): str(state) for job, state in self.query("SELECT id, state FROM redisjobs.outbox")}

    async def ran(self, job: str, times: int = 1, within: float = 15) -> None:
        """Wait until the job's body was started so often."""
        await eventually(lambda: self.journal.starts(job) >= times, f"job {job} starts {times} time(s)", within)

    async def works_within(self, seconds: float) -> None:
        """A job that is enqueued now starts in time, and ends: a fault that follows does not catch it."""
        (job,) = self.enqueue(order.call())
        await self.ran(job, within=seconds)
        await eventually(lambda: job in self.done(), f"job {job} is done", 15)

    def pid_of(self, job: str) -> int:
        """The process that started it last."""
        return self.journal.runs(job)[-1].pid

    def held_by(self, worker: Program) -> set[str]:
        """The jobs of the default queue that are this worker's in Redis: begun or not, and also those whose end it has
        not told.
        """
        stream = "rj:{default}:ready:1"
        pending = self.redis.xpending_range(stream, "workers", "-", "+", 10_000)
        mine = {each["message_id"] for each in pending if int(each["consumer"].split(b"-")[-2]) == worker.pid}
        return {str(UUID(bytes=fields[b"j"])) for entry, fields in self.redis.xrange(stream) if entry in mine}

    def holder(self, queue: str = "default") -> int | None:
        """The process of the relay that holds a queue now."""
        rows = self.query("SELECT holder FROM redisjobs.queues WHERE queue = %s AND lease_until > now()", queue)
        return int(str(rows[0][0]).split("-")[-2]) if rows and rows[0][0] else None

    async def held(self, relays: Sequence[Program], queue: str = "default") -> Program:
        """Wait until one of these relays holds the queue; that one."""

        def holding() -> list[Program]:
            holder = self.holder(queue)
            return [relay for relay in relays if relay.pid == holder]

        return (await eventually(holding, f"a relay holds {queue}", 20))[0]

    def line(self, queue: str = "default") -> list[str]:
        """The ids in the stream of a queue, in its order."""
        entries = self.redis.xrange(f"rj:{{{queue}}}:ready:1")
        return [str(UUID(bytes=fields[b"j"])) for _, fields in entries]

    def staged_order(self, queue: str = "default") -> list[str]:
        """The ids of the outbox, in the order in which they were staged."""
        rows = self.query("SELECT id FROM redisjobs.outbox WHERE queue = %s ORDER BY seq", queue)
        return [str(job) for (job,) in rows]

    # -- the end of a test
    async def at_rest(
        self, within: float = 30, *, extra: Iterable[str] = (), ends: dict[str, str] | None = None
    ) -> None:
        """Wait until nothing is under way, then hold the promises against what the bodies wrote down.

        Args:
            extra: jobs whose body may have started more than once; everybody else's may not.
            ends: jobs that shall end otherwise than done.
        """
        wanted = dict.fromkeys(self.committed, "done") | (ends or {})
        await eventually(
            lambda: self.ends().keys() >= wanted.keys() and not self.states(), "every committed job has ended", within,
            despite=(AssertionError, psycopg.OperationalError),
        )  # fmt: skip
        await eventually(lambda: self.left_in_redis() == {}, "Redis holds nothing but tombstones", 10)
        found = self.ends()
        odd = {job: (end, found[job]) for job, end in wanted.items() if found[job] != end}
        assert not odd, f"ends other than were wanted: {odd}"
        started = self.journal.started()
        assert not started & set(self.rolled_back), "a job ran whose transaction was rolled back"
        assert {job for job, end in wanted.items() if end == "done"} <= started, "a job is done that never ran"
        unexplained = self.journal.extra_starts().keys() - set(extra)
        assert not unexplained, f"extra starts without a reason: {[self.journal.runs(job) for job in unexplained]}"

    def left_in_redis(self) -> dict[str, object]:
        """What Redis holds of jobs, but for tombstones and settled outcomes."""
        return {key: value for node in sync_nodes_of(self.redis) for key, value in left_in_redis(node).items()}


async def up(*programs: Program) -> None:
    """Wait until these relays and workers say that they have started."""
    for program in programs:
        await program.says(".started", within=30)


async def pause(least: float, most: float) -> None:
    """Let a fault hit at a moment that nobody chose."""
    await asyncio.sleep(random.uniform(least, most))


async def last(seconds: float) -> None:
    """Let a fault last; its length is what the test is about."""
    await asyncio.sleep(seconds)
