"""procrastinate: a table in Postgres; a job is `doing` until it has ended."""

from __future__ import annotations

from typing import Any

import procrastinate
import psycopg
from procrastinate.job_context import JobContext
from psycopg.rows import dict_row

from benchmarks.peers import job
from benchmarks.peers.drivers import base


class Driver(base.Driver):
    """With the periodic task of its manual that retries what dead workers left."""

    SETTINGS = (
        "the periodic task retry_stalled_jobs of its manual (without it a dead worker's job stays `doing` for good), "
        "every 5 s; update_heartbeat_interval is a third of the lease, stalled after one; delete_jobs=successful"
    )
    SOURCE = "https://procrastinate.readthedocs.io/en/stable/howto/production/retry_stalled_jobs.html"
    DEFAULT = "never; 30 s and the period of that task"

    def _app(self) -> procrastinate.App:
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=base.DATABASE_URL))

        @app.task(name="noop")
        async def noop(body: job.Body) -> None:
            await job.run(body)

        @app.periodic(cron="* * * * * */5")
        @app.task(name="retry_stalled_jobs", queueing_lock="retry_stalled_jobs", pass_context=True)
        async def retry_stalled_jobs(context: JobContext, timestamp: int) -> None:  # noqa: ARG001  # passed by name
            manager = context.app.job_manager
            for each in await manager.get_stalled_jobs(seconds_since_heartbeat=base.LEASE_S):
                await manager.retry_job(each)

        self.noop = noop
        return app

    async def prepare(self) -> None:
        app = self._app()
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        self.app = self._app()
        await self.app.open_async()
        self.connection: psycopg.AsyncConnection[Any] = await psycopg.AsyncConnection.connect(
            base.DATABASE_URL, row_factory=dict_row
        )

    async def close(self) -> None:
        await self.app.close_async()
        await self.connection.close()

    async def one(self, body: job.Body) -> None:
        async with self.connection.transaction():
            await self.connection.execute(base.BUSINESS, (body["user"], body["address"]))
            await self.noop.configure(connection=self.connection).defer_async(body=body)

    async def many(self, bodies: list[job.Body]) -> None:
        await self.noop.batch_defer_async(*({"body": body} for body in bodies))

    def work(self, slots: int) -> None:
        async def serve() -> None:
            app = self._app()
            async with app.open_async():
                await app.run_worker_async(
                    concurrency=slots,
                    delete_jobs="successful",
                    install_signal_handlers=False,
                    update_heartbeat_interval=base.LEASE_S / 3,
                    stalled_worker_timeout=base.LEASE_S,
                )

        base.run(serve())
