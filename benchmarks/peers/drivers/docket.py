"""docket: a stream in Redis; acknowledged and deleted when a task has ended."""

from __future__ import annotations

from datetime import timedelta

from docket import Docket, Worker

from benchmarks.peers import job
from benchmarks.peers.drivers import base


async def noop(body: dict) -> None:  # type: ignore[type-arg]  # it is read when the program runs
    """The task, at module level: docket looks its names up there."""
    await job.run(body)


class Driver(base.Driver):
    """Acknowledged after the end; redelivered after a time without renewal."""

    SETTINGS = (
        "as it comes: acknowledged after the end; execution_ttl=0 (no results), redelivery_timeout is the lease; "
        "minimum_check_interval=5 ms, for with the default of 250 ms a full worker sleeps"
    )
    SOURCE = "https://docket.lol (Worker: redelivery_timeout)"
    DEFAULT = "300 s"

    def _docket(self) -> Docket:
        docket = Docket(name="race", url=f"{base.REDIS_URL}?max_connections=400", execution_ttl=timedelta(0))
        docket.register(noop)
        return docket

    async def open(self) -> None:
        self.docket = self._docket()
        await self.docket.__aenter__()

    async def one(self, body: job.Body) -> None:
        await self.docket.add(noop)(body)

    async def many(self, bodies: list[job.Body]) -> None:
        call = self.docket.call
        await self.docket.add_many([call(noop)(body) for body in bodies])

    def work(self, slots: int) -> None:
        async def serve() -> None:
            async with self._docket() as docket:
                worker = Worker(
                    docket,
                    concurrency=slots,
                    redelivery_timeout=timedelta(seconds=base.LEASE_S),
                    minimum_check_interval=timedelta(milliseconds=5),
                )
                async with worker:
                    await worker.run_forever()

        base.run(serve())
