"""RQ: lists in Redis; a job moves to an intermediate queue, then to the registry of what runs."""

from __future__ import annotations

import redis
from rq import Queue, Retry, Worker

from benchmarks.peers import job
from benchmarks.peers.drivers import base


class Driver(base.Driver):
    """The default worker, which forks for each job, and retries, for what a dead worker had fails otherwise."""

    SETTINGS = (
        "Worker (a fork for each job: a crash takes one job), Retry(max=3) (without it a dead worker's job fails), "
        "result_ttl=0, job_monitoring_interval=5 s, maintenance every 10 s; the registry gives a job 60 s more than "
        "that interval, which cannot be set. One job at a time"
    )
    SOURCE = "https://redis.io/docs/latest/integrate/rq/ (what happens to a job when a worker is killed)"
    DEFAULT = "90 s and up to 600 s of maintenance, then failed"

    async def open(self) -> None:
        self.queue = Queue("race", connection=redis.Redis.from_url(base.REDIS_URL))

    async def one(self, body: job.Body) -> None:
        self.queue.enqueue(job.run_sync, body, result_ttl=0, retry=Retry(max=3))

    async def many(self, bodies: list[job.Body]) -> None:
        self.queue.enqueue_many(
            [Queue.prepare_data(job.run_sync, (body,), result_ttl=0, retry=Retry(max=3)) for body in bodies]
        )

    def work(self, slots: int) -> None:
        connection = redis.Redis.from_url(base.REDIS_URL)
        worker = Worker(
            [Queue("race", connection=connection)],
            connection=connection,
            job_monitoring_interval=5,
            maintenance_interval=10,
        )
        worker.work(logging_level="WARNING")
