"""A lane and a runner without Redis: deliveries go in, finishes come out."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from uuid import uuid4

import msgpack

from redisjobs.app import App
from redisjobs.base.envelope import Envelope
from redisjobs.broker import Delivery, Finish
from redisjobs.lane import Attempt, Lane
from redisjobs.runner import Runner
from tests.support.builders import envelope
from tests.support.eventually import eventually


def delivery(job: str | Envelope | bytes = "add", /, arguments: dict[str, Any] | None = None, **given: Any) -> Delivery:
    """A job in a worker's hand; `given` are fields of `Delivery`."""
    if isinstance(job, str):
        job = envelope(job, **(arguments or {}))
    body = job if isinstance(job, bytes) else job.pack()
    fields: dict[str, Any] = {
        "queue": "default", "band": 1, "job_id": uuid4().bytes, "entry": b"1-1", "start": 1, "number": 1, "life": 0,
        "attempts": 0, "losses": 0, "cancel": False, "expired": False, "direct": False, "body": body,
    }  # fmt: skip
    return Delivery(**(fields | given))


class Stage:
    """Runs attempts of an app's jobs, and keeps what they end with."""

    def __init__(self, lease: float = 30.0) -> None:
        self.app = App()
        self.draining = asyncio.Event()
        self.lane = Lane("default", "w1", 10, lease)
        self.lane.send = lambda attempt: None
        self.runner = Runner(self.app.jobs.get, self.draining)

    def begin(self, job: str | Envelope | bytes | Delivery, /, **arguments: Any) -> Attempt:
        """Start an attempt."""
        given = job if isinstance(job, Delivery) else delivery(job, arguments)
        attempt = self.lane.hold(given, time.monotonic())
        self.runner.begin(attempt)
        return attempt

    async def run(self, job: str | Envelope | bytes | Delivery, /, **arguments: Any) -> Finish:
        """The finish of an attempt that runs to its end."""
        finish = await self.end(self.begin(job, **arguments))
        assert finish is not None
        return finish

    async def end(self, attempt: Attempt) -> Finish | None:
        """The finish of an attempt, once it is over."""
        await eventually(lambda: attempt.over, "the attempt is over")
        return attempt.finish


def record_of(finish: Finish) -> dict[str, Any]:
    """What a finish writes down."""
    record: dict[str, Any] = msgpack.unpackb(finish.record)
    return record
