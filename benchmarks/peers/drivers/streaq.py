"""streaQ: a stream and a consumer group in Redis; acknowledged and deleted when a job has ended."""

from __future__ import annotations

from streaq import Worker

from benchmarks.peers import job
from benchmarks.peers.drivers import base


class Driver(base.Driver):
    """Acknowledged after the end; idle entries are claimed by other workers."""

    SETTINGS = (
        "as it comes: XACK after the end, max_tries=3, entries renewed while a job runs; ttl=0 (no results); "
        "idle_timeout is the lease"
    )
    SOURCE = "https://streaq.readthedocs.io (Worker: idle_timeout)"
    DEFAULT = "60 s"

    def _worker(self, slots: int) -> Worker[None]:
        worker = Worker(
            base.REDIS_URL,
            concurrency=slots,
            queue_name="race",
            idle_timeout=base.LEASE_S,
            anyio_kwargs={"use_uvloop": True},
        )

        async def noop(body: dict) -> None:  # type: ignore[type-arg]  # it is read when the program runs
            await job.run(body)

        self.noop = worker.task(ttl=0, name="noop", silent=True)(noop)
        return worker

    async def open(self) -> None:
        self.worker = self._worker(10)
        await self.worker.__aenter__()

    async def one(self, body: job.Body) -> None:
        await self.noop.enqueue(body)

    async def many(self, bodies: list[job.Body]) -> None:
        await self.worker.enqueue_many([self.noop.enqueue(body) for body in bodies])

    def work(self, slots: int) -> None:
        self._worker(slots).run_sync()
