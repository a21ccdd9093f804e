"""arq: a sorted set in Redis, polled; a job stays in it until it has ended."""

from __future__ import annotations

from typing import Any

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func

from benchmarks.peers import job
from benchmarks.peers.drivers import base


class Driver(base.Driver):
    """arq's "pessimistic execution": nothing is removed before a job has ended."""

    SETTINGS = (
        "as it comes: removed after the end, max_tries=5, keep_result=0. A dead worker's job is taken again when its "
        "in-progress key ends, job_timeout + 10 s; job_timeout is the lease. poll_delay=10 ms, for the default of "
        "500 ms caps both rate and latency"
    )
    SOURCE = "https://arq-docs.helpmanual.io/#reliability-pessimistic-execution"
    DEFAULT = "310 s"

    async def open(self) -> None:
        self.pool = await create_pool(RedisSettings.from_dsn(base.REDIS_URL))

    async def one(self, body: job.Body) -> None:
        await self.pool.enqueue_job("noop", body)

    async def many(self, bodies: list[job.Body]) -> None:
        await base.gathered(bodies, self.one)

    def work(self, slots: int) -> None:
        async def noop(_ctx: dict[str, Any], body: job.Body) -> None:
            await job.run(body)

        async def serve() -> None:
            worker = Worker(
                [func(noop, name="noop", keep_result=0)],
                redis_settings=RedisSettings.from_dsn(base.REDIS_URL),
                max_jobs=slots,
                job_timeout=base.LEASE_S,
                poll_delay=0.01,
                handle_signals=False,
                log_results=False,
            )
            await worker.async_run()

        base.run(serve())
