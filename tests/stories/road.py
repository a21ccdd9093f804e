"""The whole road inside of the test, for stories: what a program does, and what it can see of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

import psycopg

from redisjobs import App, Call, Handle
from redisjobs.base.postgres import Database
from redisjobs.broker import Carrier
from redisjobs.broker.client import connect
from redisjobs.relay import Relay
from redisjobs.settings import RelaySettings
from redisjobs.worker import Worker
from tests.support.eventually import eventually

_END = """
SELECT state FROM redisjobs.finished WHERE id = %(id)s
UNION ALL SELECT 'dead' FROM redisjobs.dead WHERE id = %(id)s
"""


@contextlib.contextmanager
def relaying(database_url: str, redis_url: str) -> Iterator[None]:
    """A relay in a thread of its own: a story that holds the loop, or a lock in Postgres, must not hold its loop."""
    running, enough = Future[asyncio.AbstractEventLoop](), asyncio.Event()

    async def relay() -> None:
        redis, database = connect(redis_url), Database(database_url)
        made = Relay(database, Carrier(redis), RelaySettings(interval=0.05), name="story")
        try:
            await made.start()
            running.set_result(asyncio.get_running_loop())
            await enough.wait()
        finally:
            await made.stop(10)
            await database.close()
            await redis.aclose()

    with ThreadPoolExecutor(1, "relay") as threads:
        ended = threads.submit(asyncio.run, relay())
        loop = running.result(10)
        try:
            yield
        finally:
            loop.call_soon_threadsafe(enough.set)
            ended.result(20)


class Road:
    """An app on its two stores, with a relay that runs.

    Attributes:
        seen: what the bodies of a story note down, in order.
    """

    def __init__(self, database_url: str, redis_url: str) -> None:
        self.database_url, self.redis_url = database_url, redis_url
        self._apps: list[App] = []
        self.app = self.another_app()
        self.seen: list[Any] = []
        self.workers: list[Worker] = []
        self._stack = contextlib.AsyncExitStack()

    def another_app(self, **options: Any) -> App:
        """An app on the same stores, such as that of another release."""
        made = App(database_url=self.database_url, redis_url=self.redis_url, **options)
        self._apps.append(made)
        return made

    async def __aenter__(self) -> Self:
        self._looking = self._stack.enter_context(
            psycopg.connect(self.database_url, autocommit=True, prepare_threshold=None)
        )
        self._stack.enter_context(relaying(self.database_url, self.redis_url))
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self.workers:
            await worker.stop(0)
        for app in self._apps:
            await app.close()
        await self._stack.aclose()

    async def work(self, app: App | None = None, **options: Any) -> Worker:
        """Start a worker; a lease of 3 s if nothing else is said."""
        worker = Worker(app or self.app, **({"visibility_timeout": 3, "drain_on_shutdown": False} | options))
        self.workers.append(worker)
        await worker.start()
        return worker

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection to the program's database, as the program has one."""
        return psycopg.connect(self.database_url, prepare_threshold=None)  # there may be a transaction pooler

    def commit(self, *calls: Call[Any]) -> list[str]:
        """Enqueue in one transaction and commit it; the ids."""
        with self.connect() as connection:
            return [handle.id for handle in self.app.enqueue(connection, *calls)]

    def query(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        """Rows of a statement, which commits."""
        cursor = self._looking.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description is not None else []

    def state(self, job: Handle[Any] | str) -> str | None:
        """How the job ended; else how its row stands; None: nobody knows it."""
        job_id = job if isinstance(job, str) else job.id
        ends = self.query(_END, id=job_id)
        assert len(ends) < 2, f"job {job_id} has two ends: {ends}"
        rows = ends or self.query("SELECT state FROM redisjobs.outbox WHERE id = %(id)s", id=job_id)
        return str(rows[0][0]) if rows else None

    async def reaches(self, state: str, *jobs: Handle[Any] | str, within: float = 15) -> None:
        """Wait until these jobs are in this state."""
        for job in jobs:
            await eventually(lambda: self._is(job, state), f"job {job} is {state}", within)  # noqa: B023 - used at once

    def _is(self, job: Handle[Any] | str, state: str) -> bool:
        found = self.state(job)
        assert found == state, f"it is {found}"
        return True
