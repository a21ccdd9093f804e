"""redisjobs as a driver of a benchmark of job queues: what that benchmark asks for, by the public API alone.

It goes in as `drivers/redisjobs.py`, beside the drivers of the others; `Road` is the whole way through Postgres,
the driver above it what workers and Redis do by themselves. Default settings, but for what runs at the same time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import common  # type: ignore[import-not-found]  # of that benchmark
import psycopg
from drivers.base import BIZ_SQL, Base  # type: ignore[import-not-found]  # likewise

import redisjobs
from redisjobs.migrations import migrate
from redisjobs.worker import Worker

Body = dict[str, Any]


class Driver(Base):  # type: ignore[misc]
    NAME = "redisjobs"
    BACKEND = "redis"
    CONCS = [10, 100]  # noqa: RUF012  # as the others have it
    RELIABILITY = (
        "enqueue_direct, all else on: finishes accepted under a fencing token, in batches, after the body; leases of "
        "30 s renewed by a heartbeat; crash: another worker takes the job over once its lease has ended"
    )

    def _app(self, hit: Callable[[int], None] | None = None) -> redisjobs.App:
        app = redisjobs.App("bench", redis_url=common.REDIS_URL, database_url=common.PG_DSN)

        @app.job(name="noop")
        async def noop(body: Body) -> None:
            if hit is not None:
                hit(body["i"])

        self.noop = noop
        return app

    async def connect(self) -> None:
        self.app = self._app()

    async def close(self) -> None:
        await self.app.close()

    async def one(self, b: Body) -> None:
        await self.noop.enqueue_direct(body=b)

    async def many(self, bs: list[Body]) -> None:
        await self.app.enqueue_direct([self.noop.call(body=b) for b in bs])

    async def at(self, bs: list[Body], when: float) -> None:
        later = self.noop.using(run_at=datetime.fromtimestamp(when, UTC))
        await self.app.enqueue_direct([later.call(body=b) for b in bs])

    def work(self, conc: int, hit: Callable[[int], None]) -> None:
        async def serve() -> None:
            await Worker(self._app(hit), concurrency=conc).run()

        common.run(serve())


class Road(Driver):
    NAME = "redisjobs, from Postgres"
    BACKEND = "both"
    TX = True
    RELIABILITY = (
        "a row in the producer's transaction until its outcome is settled; a relay and a worker, two processes"
    )

    async def connect(self) -> None:
        self.app = self._app()
        self.connection = await psycopg.AsyncConnection.connect(common.PG_DSN)

    async def close(self) -> None:
        await self.connection.close()

    def reset(self) -> None:
        migrate(common.PG_DSN)

    async def one(self, b: Body) -> None:
        await self.tx_one(b)

    async def tx_open(self) -> None:
        """The connection is there already."""

    async def tx_one(self, b: Body) -> None:
        await self.connection.execute(BIZ_SQL, (b["user_id"], b["email"]))
        await self.noop.enqueue(self.connection, body=b)
        await self.connection.commit()

    async def many(self, bs: list[Body]) -> None:
        await self.app.enqueue(self.connection, [self.noop.call(body=b) for b in bs])
        await self.connection.commit()

    async def at(self, bs: list[Body], when: float) -> None:
        later = self.noop.using(run_at=datetime.fromtimestamp(when, UTC))
        await self.app.enqueue(self.connection, [later.call(body=b) for b in bs])
        await self.connection.commit()

    def work(self, conc: int, hit: Callable[[int], None]) -> None:
        stores = {"REDISJOBS_DATABASE_URL": common.PG_DSN, "REDISJOBS_REDIS_URL": common.REDIS_URL}
        subprocess.Popen([Path(sys.executable).with_name("redisjobs"), "relay"], env=os.environ | stores)
        super().work(conc, hit)
