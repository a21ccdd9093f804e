"""The batches of a worker: calls gather here until their batch runs, and each hears here how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any, TypeAlias

from redisjobs.base.envelope import Envelope
from redisjobs.batch import BatchCall
from redisjobs.batch_job import ARGUMENT
from redisjobs.batch_run import BatchRun, Means, refusing
from redisjobs.batching import Batching
from redisjobs.context import Context
from redisjobs.ending import UnstartedError
from redisjobs.errors import Dead
from redisjobs.gathering import Gatherer
from redisjobs.lane import Attempt, Lane
from redisjobs.outcome import Ended
from redisjobs.seat import AnyBatchJob, Seat

_Key: TypeAlias = tuple[Lane, AnyBatchJob, Hashable]


class Batches:
    """Gathers the calls of batch jobs. Each attempt waits in its own task for the answer to its own call."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._gatherer: Gatherer[_Key, Seat] = Gatherer()
        self._timer: asyncio.TimerHandle | None = None

    async def ride(
        self, attempt: Attempt, envelope: Envelope, job: AnyBatchJob, context: Context[Any], arguments: dict[str, Any]
    ) -> object:
        """What the call comes to in its batch: its result, or what it raises.

        Raises:
            UnstartedError: it was to end before its batch began.
            BaseException: its own error, or the one that its batch ended in.
        """
        if envelope.is_ending:
            raise Dead("its undos: a batch job has no run")
        if attempt.ended_by is not None or self._means.draining.is_set():
            raise UnstartedError(attempt.ended_by or Ended.DRAINED)
        context.opener = refusing
        argument = arguments[ARGUMENT]
        key = job.batching.key_of(argument)
        seat = Seat(attempt, envelope, job, BatchCall(argument, context))
        attempt.lane.gather(attempt, seat)
        if attempt.delivery.losses:  # who takes its worker down is to take no other call with it again
            self._go([seat])
        else:
            self._gather((attempt.lane, job, key), seat, job.batching)
        return await self._answer(seat)

    def ended(self, attempt: Attempt) -> None:
        """The attempt of a call is to end: at once where it gathers, else as its batch does, save that it is lost."""
        seat: Seat = attempt.seat
        if seat.run is not None:
            seat.run.ended(seat)
        elif self._gatherer.remove(seat):
            seat.tell(None, UnstartedError(attempt.ended_by or Ended.DRAINED))

    def flush(self, lane: Lane) -> None:
        """Have all that gathers in this lane go now."""
        for batch in self._gatherer.take(lambda key: key[0] is lane):
            self._go(batch)

    def close(self) -> None:
        """Give the timer back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _answer(self, seat: Seat) -> object:
        try:
            value, error = await seat.answer
        except asyncio.CancelledError:  # the worker is gone, as a killed process is
            if seat.run is not None:
                seat.run.ended(seat)
            else:
                self._gatherer.remove(seat)
            raise
        if error is not None:
            raise error
        if seat.attempt.ended_by is not Ended.LOST:
            seat.attempt.ended_by = None  # it was to end, and is done all the same
        return value

    def _gather(self, key: _Key, seat: Seat, batching: Batching) -> None:
        now = asyncio.get_running_loop().time()
        within = 0.0 if key[0].hurries else batching.within_s
        ready = self._gatherer.add(key, seat, size=batching.size, within=within, now=now)
        for batch in ready:
            self._go(batch)
        self._set_timer()

    def _go(self, seats: list[Seat]) -> None:
        lane = seats[0].attempt.lane
        lane.batch_ready(BatchRun(self._means, lane, seats[0].job, seats).start)

    def _set_timer(self) -> None:
        next_at = self._gatherer.next_at
        if next_at is None or (self._timer is not None and self._timer.when() <= next_at):
            return  # one that rings in vain sets the next
        self.close()
        self._timer = asyncio.get_running_loop().call_at(next_at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        for batch in self._gatherer.due(asyncio.get_running_loop().time()):
            self._go(batch)
        self._set_timer()
