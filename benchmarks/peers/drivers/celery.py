"""Celery on Redis: a list, and a hash of what was delivered and is not acknowledged."""

from __future__ import annotations

import os

import celery

from benchmarks.peers import job
from benchmarks.peers.drivers import base


class Driver(base.Driver):
    """Late acknowledgement and a visibility timeout, as its documentation asks for where no task may be lost."""

    SETTINGS = (
        "task_acks_late, task_reject_on_worker_lost, worker_prefetch_multiplier=1, visibility_timeout is the lease "
        "and has to be longer than the longest task, unacked_restore_interval=1 and _throttle=1 so that it is looked "
        "at every second; results ignored; prefork with a process for each core"
    )
    SOURCE = "https://docs.celeryq.dev/en/stable/getting-started/backends-and-brokers/redis.html#visibility-timeout"
    DEFAULT = "lost (early acknowledgement); with acks_late 3600 s"

    def _app(self) -> celery.Celery:
        app = celery.Celery("race", broker=base.REDIS_URL)
        app.conf.update(
            task_acks_late=True,
            task_reject_on_worker_lost=True,
            worker_prefetch_multiplier=1,
            broker_transport_options={
                "visibility_timeout": base.LEASE_S,
                "unacked_restore_interval": 1,
                "unacked_restore_throttle": 1,
            },
            task_ignore_result=True,
            task_default_queue="race",
            worker_hijack_root_logger=False,
            broker_connection_retry_on_startup=True,
        )
        self.noop = app.task(name="noop")(job.run_sync)
        return app

    async def open(self) -> None:
        self.app = self._app()
        self.producer = self.app.amqp.producer_pool.acquire(block=True)

    async def one(self, body: job.Body) -> None:
        self.noop.apply_async((body,), producer=self.producer)

    async def many(self, bodies: list[job.Body]) -> None:
        for body in bodies:
            self.noop.apply_async((body,), producer=self.producer)

    def work(self, slots: int) -> None:
        processes = min(slots, len(os.sched_getaffinity(0)))
        self._app().worker_main(["worker", "--pool=prefork", f"--concurrency={processes}", "--loglevel=ERROR"])
