"""redisjobs where a job may be lost with Redis: `enqueue_direct`, and a worker."""

from __future__ import annotations

from benchmarks.peers import job
from benchmarks.peers.drivers import base
from redisjobs import App, Context
from redisjobs.worker import Worker


class Driver(base.Driver):
    """By the public interface alone."""

    SETTINGS = (
        "as it comes: a finish is accepted under a fencing token, after the end; the heartbeat renews leases; "
        "visibility_timeout is the lease. What is in Redis alone is lost with Redis: that is what enqueue_direct says"
    )
    SOURCE = "guarantees.md"
    DEFAULT = "30 s"

    def _app(self) -> App:
        app = App("race")

        @app.job()
        async def noop(body: job.Body) -> None:
            await job.run(body)

        @app.job()
        async def five_steps(ctx: Context, body: job.Body) -> None:
            for place in range(job.STEPS):
                await ctx.step(f"step {place}", _step, body["i"], place)
            job.run_ended(body)

        self.noop, self.five_steps = noop, five_steps
        return app

    async def open(self) -> None:
        self.app = self._app()

    async def close(self) -> None:
        await self.app.close()

    async def one(self, body: job.Body) -> None:
        await self.noop.enqueue_direct(body=body)

    async def many(self, bodies: list[job.Body]) -> None:
        await self.app.enqueue_direct([self.noop.call(body=body) for body in bodies])

    def work(self, slots: int) -> None:
        base.run(Worker(self._app(), concurrency=slots, visibility_timeout=base.LEASE_S).run())


async def _step(number: int, place: int) -> dict[str, int]:
    return job.step(number, place)
