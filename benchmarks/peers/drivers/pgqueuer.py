"""pgqueuer: a table in Postgres; a job is `picked` until it has ended, then goes into a log."""

from __future__ import annotations

import json
from datetime import timedelta

import asyncpg
import psycopg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, PsycopgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.peers import job
from benchmarks.peers.drivers import base


class Driver(base.Driver):
    """Picked jobs whose heartbeat has stopped are picked again."""

    SETTINGS = (
        "as it comes: a row until the end, heartbeats; heartbeat_timeout is the lease, on_failure=hold, batch_size as "
        "many as slots, asyncpg in the worker; at most twice the slots at once where jobs take time"
    )
    SOURCE = "https://pgqueuer.readthedocs.io (heartbeat)"
    DEFAULT = "30 s"

    async def prepare(self) -> None:
        connection = await asyncpg.connect(base.DATABASE_URL)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def open(self) -> None:
        self.queries = Queries(AsyncpgDriver(await asyncpg.connect(base.DATABASE_URL)))
        # Its driver insists on autocommit; `one` opens the transaction.
        self.connection = await psycopg.AsyncConnection.connect(base.DATABASE_URL, autocommit=True)
        self.beside_rows = Queries(PsycopgDriver(self.connection))

    async def one(self, body: job.Body) -> None:
        async with self.connection.transaction():
            await self.connection.execute(base.BUSINESS, (body["user"], body["address"]))
            await self.beside_rows.enqueue("noop", json.dumps(body).encode())

    async def many(self, bodies: list[job.Body]) -> None:
        count = len(bodies)
        await self.queries.enqueue(["noop"] * count, [json.dumps(body).encode() for body in bodies], [0] * count)

    def work(self, slots: int) -> None:
        async def serve() -> None:
            worker = PgQueuer(AsyncpgDriver(await asyncpg.connect(base.DATABASE_URL)))

            @worker.entrypoint("noop", on_failure="hold")
            async def noop(found: Job) -> None:
                await job.run(json.loads(found.payload or b"{}"))

            await worker.run(
                batch_size=slots,
                # Without a cap it picks all that there is; with one its query is slower, so drains go without.
                max_concurrent_tasks=2 * slots if slots <= 10 else None,
                heartbeat_timeout=timedelta(seconds=base.LEASE_S),
            )

        base.run(serve())
