"""Dramatiq: lists in Redis and, for each worker, a set of what it has not acknowledged."""

from __future__ import annotations

import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.peers import job
from benchmarks.peers.drivers import base


class Driver(base.Driver):
    """Acknowledged after the end; what a dead worker held is put back by chance maintenance of the others."""

    SETTINGS = (
        "as it comes: acknowledged after the end, retries; heartbeat_timeout is the lease; maintenance_chance=10 000 "
        "in a million commands, ten times the default, which at a low rate leaves a dead worker's jobs alone for long"
    )
    SOURCE = "https://dramatiq.io/reference.html#dramatiq.brokers.redis.RedisBroker"
    DEFAULT = "60 s and until one command in a thousand"

    def _broker(self) -> RedisBroker:
        broker = RedisBroker(url=base.REDIS_URL, heartbeat_timeout=int(base.LEASE_S * 1000), maintenance_chance=10_000)
        dramatiq.set_broker(broker)
        self.noop = dramatiq.actor(job.run_sync, queue_name="race", actor_name="noop")
        return broker

    async def open(self) -> None:
        self._broker()

    async def one(self, body: job.Body) -> None:
        self.noop.send(body)

    async def many(self, bodies: list[job.Body]) -> None:
        for body in bodies:
            self.noop.send(body)

    def work(self, slots: int) -> None:
        worker = dramatiq.Worker(self._broker(), worker_threads=slots, worker_timeout=1000)
        worker.start()
        while True:
            time.sleep(1)
