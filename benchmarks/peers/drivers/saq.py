"""SAQ: lists in Redis; a job moves to `active` and is removed when it has ended."""

from __future__ import annotations

from typing import Any

from saq import Queue, Worker

from benchmarks.peers import job
from benchmarks.peers.drivers import base


class Driver(base.Driver):
    """With retries, for the sweep gives up a dead worker's job that has none left."""

    SETTINGS = (
        "retries=3 (the default of 1 has the sweep abort a dead worker's job), timeout is the lease, ttl=-1 (no "
        "results), sweep every 5 s; its lock, which cannot be set, lets one sweep through in 60 s"
    )
    SOURCE = "https://saq-py.readthedocs.io (Job: timeout, retries, heartbeat; Worker: timers)"
    DEFAULT = "10 s and up to 60 s of sweep, then aborted"

    async def open(self) -> None:
        self.queue = Queue.from_url(base.REDIS_URL, name="race")
        await self.queue.connect()

    async def one(self, body: job.Body) -> None:
        await self.queue.enqueue("noop", body=body, retries=3, timeout=int(base.LEASE_S), ttl=-1)

    async def many(self, bodies: list[job.Body]) -> None:
        await base.gathered(bodies, self.one)

    def work(self, slots: int) -> None:
        async def noop(_ctx: Any, *, body: job.Body) -> None:
            await job.run(body)

        async def serve() -> None:
            await self.open()
            worker = Worker(self.queue, functions=[("noop", noop)], concurrency=slots, timers={"sweep": 5})
            await worker.start()

        base.run(serve())
