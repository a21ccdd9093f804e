"""redisjobs as it is meant: a row in the producer's transaction, a relay, and a worker."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.peers import job
from benchmarks.peers.drivers import base, redisjobs_direct
from redisjobs.migrations import migrate


class Driver(redisjobs_direct.Driver):
    """By the public interface alone."""

    SETTINGS = (
        "as it comes: a row in the producer's transaction until its outcome has settled; a relay and a worker, one "
        "process each, default settings; visibility_timeout is the lease"
    )
    BESIDE = True

    async def prepare(self) -> None:
        migrate(base.DATABASE_URL)

    async def open(self) -> None:
        await super().open()
        self.connection: psycopg.AsyncConnection[Any] = await psycopg.AsyncConnection.connect(base.DATABASE_URL)

    async def close(self) -> None:
        await self.connection.close()
        await super().close()

    async def one(self, body: job.Body) -> None:
        await self.connection.execute(base.BUSINESS, (body["user"], body["address"]))
        await self.noop.enqueue(self.connection, body=body)
        await self.connection.commit()

    async def many(self, bodies: list[job.Body]) -> None:
        await self.app.enqueue(self.connection, [self.noop.call(body=body) for body in bodies])
        await self.connection.commit()

    async def runs(self, bodies: list[job.Body]) -> None:
        await self.app.enqueue(self.connection, [self.five_steps.call(body=body) for body in bodies])
        await self.connection.commit()

    def beside(self) -> None:
        program = str(Path(sys.executable).with_name("redisjobs"))
        os.execv(program, [program, "relay", "--log-level", "warning"])  # noqa: S606  # as an operator starts it
