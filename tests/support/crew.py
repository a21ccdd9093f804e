"""Workers in the test's own loop, on a real Redis, with their jobs and what became of them."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from redisjobs.app import App
from redisjobs.base.envelope import Envelope
from redisjobs.broker import Broker
from redisjobs.worker import Worker
from tests.support.builders import envelope, publication


class Crew:
    """An app, a way to put jobs into Redis, and workers that all end with the test.

    Attributes:
        starts: how often each job id or name was noted by a body, see `note`.
    """

    def __init__(self, redis_url: str) -> None:
        self.redis_url = redis_url
        self.app = App(redis_url=redis_url)
        self.broker = Broker.connect(redis_url)
        self.workers: list[Worker] = []
        self.starts: Counter[Any] = Counter()

    def worker(self, *, url: str | None = None, app: App | None = None, **options: Any) -> Worker:
        """A worker, not started; `url` is its own way to Redis, such as a proxy's."""
        if url is not None:
            app = App(redis_url=url)
            app._jobs, app._limits = self.app._jobs, self.app._limits
        options.setdefault("drain_on_shutdown", False)
        made = Worker(app or self.app, **options)
        self.workers.append(made)
        return made

    async def start(self, **options: Any) -> Worker:
        """A worker that works."""
        made = self.worker(**options)
        await made.start()
        return made

    async def put(self, job: str | Envelope, /, count: int = 1, queue: str = "default", **given: Any) -> list[str]:
        """Put jobs into Redis; their ids. `arguments` is a dict, the rest are fields of `Publication`."""
        arguments = given.pop("arguments", {})
        made = envelope(job, **arguments) if isinstance(job, str) else job
        jobs = [publication(made, **given) for _ in range(count)]
        await self.broker.enqueue_direct(queue, jobs)
        return [str(UUID(bytes=each.job_id)) for each in jobs]

    async def left(self, queue: str = "default") -> int:
        """How many jobs of the queue have not ended: they wait, run, or are due."""
        key = self.broker.keys.key
        waiting = [await self.broker.redis.xlen(key(queue, f"ready{band}")) for band in range(3)]
        return sum(waiting) + int(await self.broker.redis.zcard(key(queue, "due")))

    async def nothing_left(self) -> bool:
        """Whether every job has ended in Redis, which is a moment after its body."""
        return await self.left() == 0

    async def close(self) -> None:
        for each in self.workers:
            await each.stop(0)
            await each.app.close()
        await self.app.close()
        await self.broker.close()
