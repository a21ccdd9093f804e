"""Absurd: tasks and their checkpoints as rows in Postgres, worked on by stored procedures."""

from __future__ import annotations

from typing import Any

import absurdctl
import psycopg
from absurd_sdk import AsyncAbsurd

from benchmarks.peers import job
from benchmarks.peers.drivers import base


class Driver(base.Driver):
    """Claims are leases that checkpoints renew."""

    SETTINGS = "as it comes: a checkpoint for each step; claim_timeout is the lease, polled every 250 ms"
    SOURCE = "https://github.com/earendil-works/absurd#readme"
    DEFAULT = "120 s"

    async def prepare(self) -> None:
        async with await psycopg.AsyncConnection.connect(base.DATABASE_URL, autocommit=True) as connection:
            await connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        await self.open()
        await self.app.create_queue()

    async def open(self) -> None:
        self.app = AsyncAbsurd(base.DATABASE_URL, queue_name="race")

    async def one(self, body: job.Body) -> None:
        await self.app.spawn("noop", body, queue="race")

    async def many(self, bodies: list[job.Body]) -> None:
        for body in bodies:
            await self.one(body)

    async def runs(self, bodies: list[job.Body]) -> None:
        for body in bodies:
            await self.app.spawn("five_steps", body, queue="race")

    def work(self, slots: int) -> None:
        async def serve() -> None:
            await self.open()

            @self.app.register_task("noop")
            async def noop(params: job.Body, _ctx: Any) -> None:
                await job.run(params)

            @self.app.register_task("five_steps")
            async def five_steps(params: job.Body, ctx: Any) -> None:
                for place in range(job.STEPS):

                    async def step(place: int = place) -> dict[str, int]:
                        return job.step(params["i"], place)

                    await ctx.step(f"step {place}", step)
                job.run_ended(params)

            await self.app.start_worker(concurrency=slots, claim_timeout=int(base.LEASE_S))

        base.run(serve())
