"""DBOS: workflows and their steps as rows in Postgres; a plain job is a workflow without steps, in a queue."""

from __future__ import annotations

import asyncio
from typing import Any

from dbos import DBOS, DBOSClient, EnqueueOptions

from benchmarks.peers import job
from benchmarks.peers.drivers import base


class Driver(base.Driver):
    """Each workflow is recorded; its executor goes on with it when it is started again."""

    SETTINGS = (
        "as it comes: every workflow is a row; the same executor takes up its pending ones as soon as it is started "
        "again (another executor does only with DBOS Conductor); polling_interval_sec=0.05 instead of 1"
    )
    SOURCE = "https://docs.dbos.dev/python/tutorials/queue-tutorial and …/production/self-hosting/workflow-recovery"
    DEFAULT = "at the restart of the same executor"

    def _launch(self) -> None:
        DBOS(
            config={
                "name": "race",
                "system_database_url": base.DATABASE_URL,
                "log_level": "ERROR",
                "console_log_level": "ERROR",
            }
        )

        @DBOS.workflow(name="noop")
        async def noop(body: job.Body) -> None:
            await job.run(body)

        @DBOS.step(name="step")
        async def step(number: int, place: int) -> dict[str, int]:
            return job.step(number, place)

        @DBOS.workflow(name="five_steps")
        async def five_steps(body: job.Body) -> None:
            for place in range(job.STEPS):
                await step(body["i"], place)
            job.run_ended(body)

        DBOS.launch()

    async def prepare(self) -> None:
        self._launch()
        await self._register(10)
        DBOS.destroy()

    async def _register(self, slots: int) -> None:
        await DBOS.register_queue_async("race", worker_concurrency=slots, polling_interval_sec=0.05)

    async def open(self) -> None:
        self.client = DBOSClient(system_database_url=base.DATABASE_URL)

    async def one(self, body: job.Body) -> None:
        self._enqueue("noop", body)

    async def many(self, bodies: list[job.Body]) -> None:
        for body in bodies:
            self._enqueue("noop", body)

    async def runs(self, bodies: list[job.Body]) -> None:
        for body in bodies:
            self._enqueue("five_steps", body)

    def _enqueue(self, name: str, body: job.Body) -> None:
        options: EnqueueOptions = {"queue_name": "race", "workflow_name": name}
        handle: Any = self.client.enqueue(options, body)
        del handle

    def work(self, slots: int) -> None:
        async def serve() -> None:
            self._launch()
            await self._register(slots)
            await asyncio.Event().wait()

        base.run(serve())
