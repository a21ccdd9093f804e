"""taskiq with the stream broker of taskiq-redis, the one of its brokers that acknowledges."""

from __future__ import annotations

from taskiq.acks import AcknowledgeType
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

from benchmarks.peers import job
from benchmarks.peers.drivers import base


class Driver(base.Driver):
    """Acknowledged after the end; entries idle for longer than the lease are claimed when something new comes in."""

    SETTINGS = (
        "RedisStreamBroker, ack_type when_saved (after the end), unacknowledged_lock_timeout set, or a worker killed "
        "while it claims locks all others out; idle_timeout is the lease: nothing renews it, so it has to be longer "
        "than the longest job. Entries stay in the stream: maxlen would drop waiting ones"
    )
    SOURCE = "https://github.com/taskiq-python/taskiq-redis#brokers"
    DEFAULT = "600 s"

    def _broker(self) -> RedisStreamBroker:
        broker = RedisStreamBroker(
            base.REDIS_URL,
            queue_name="race",
            consumer_id="0",  # what was enqueued before the first worker came counts too
            idle_timeout=int(base.LEASE_S * 1000),
            unacknowledged_lock_timeout=base.LEASE_S,
        )

        @broker.task(task_name="noop")
        async def noop(body: dict) -> None:  # type: ignore[type-arg]  # it is read when the program runs
            await job.run(body)

        self.noop = noop
        return broker

    async def open(self) -> None:
        self.broker = self._broker()
        await self.broker.startup()

    async def one(self, body: job.Body) -> None:
        await self.noop.kiq(body)

    async def many(self, bodies: list[job.Body]) -> None:
        await base.gathered(bodies, self.one)

    def work(self, slots: int) -> None:
        async def serve() -> None:
            broker = self._broker()
            broker.is_worker_process = True
            await broker.startup()
            await run_receiver_task(
                broker, max_async_tasks=slots, max_prefetch=slots, ack_time=AcknowledgeType.WHEN_SAVED
            )

        base.run(serve())
