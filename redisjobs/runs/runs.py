"""The runs of a worker: each attempt that asks for one gets its own; the store is opened for the first of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

from redisjobs.base.envelope import Envelope
from redisjobs.base.threads import Threads
from redisjobs.broker import Broker
from redisjobs.durable import Engine, Refusing, in_a_process
from redisjobs.job import Job
from redisjobs.lane import Attempt
from redisjobs.runs.live import Live
from redisjobs.runs.run import Means, Run
from redisjobs.steps import StepStore


class Runs:
    """Makes runs.

    Args:
        store: makes the step store.
        threads: for plain functions.
        find: the job of a name.
        broker: asks Redis for higher tokens; None: there is no Redis.
        now: the moment, by the clock that the stores go by. monotonic: seconds of that clock, to count waits by.
        in_place_s: how long a run may wait in its slot.
    """

    def __init__(
        self,
        store: Callable[[], StepStore],
        threads: Threads,
        find: Callable[[str], Job[..., Any] | None],
        *,
        broker: Broker | None,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        in_place_s: float,
    ) -> None:
        self._make = store
        self._broker = broker
        self._threads = threads
        self._find = find
        self._now = now
        self._monotonic = monotonic
        self._in_place_s = in_place_s
        self._means: Means | None = None
        self._loop = asyncio.get_running_loop()

    def of(self, attempt: Attempt) -> Engine:
        """What the body of an attempt speaks to; nothing is asked yet."""
        if attempt.live is not None:
            known: Live = attempt.live
            return known
        envelope = Envelope.unpack(attempt.delivery.body)
        job = self._find(envelope.job)
        if job is None:
            return Refusing(f"job {envelope.job!r} is not known here any more")
        if attempt.delivery.direct:
            return Refusing(
                f"job {job.name!r} was enqueued by enqueue_direct, so it has no row that could keep what it has done: "
                "enqueue it in a transaction, job.enqueue(connection, …)"
            )
        if job.declaration.process:
            return Refusing(in_a_process(job.name))
        attempt.live = Live(Run(attempt, job, self._opened()), envelope, self._loop)
        made: Live = attempt.live
        return made

    async def close(self) -> None:
        """Give the store back."""
        if self._means is not None:
            means, self._means = self._means, None
            await means.store.close()

    def _opened(self) -> Means:
        if self._means is None:
            self._means = Means(
                self._make(), self._overtake, self._threads, self._find, self._now, self._monotonic, self._in_place_s
            )
        return self._means

    async def _overtake(self, attempt: Attempt, fence: tuple[int, int]) -> tuple[int, int] | None:
        if self._broker is None:
            return None
        return await self._broker.overtake(attempt.lane.consumer, attempt.delivery, fence)
