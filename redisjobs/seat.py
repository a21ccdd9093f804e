"""The place of a call in a batch, and the end that it gets there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from redisjobs.base.envelope import Envelope
from redisjobs.batch import BatchCall, close
from redisjobs.batch_job import BatchJob
from redisjobs.lane import Attempt
from redisjobs.outcome import Ended
from redisjobs.record import traceback_of

AnyBatchJob: TypeAlias = BatchJob[..., Any]
Answer: TypeAlias = tuple[object, BaseException | None]


class Riding(Protocol):
    """The batch that a call has come into."""

    def ended(self, seat: Seat) -> None:
        """The attempt of a call is to end, or its task has ended."""


class Seat:
    """The place of one call in a batch, made in the task of its attempt, which waits for `answer`."""

    __slots__ = ("answer", "attempt", "call", "envelope", "job", "run", "variables")

    def __init__(self, attempt: Attempt, envelope: Envelope, job: AnyBatchJob, call: BatchCall[Any]) -> None:
        self.attempt = attempt
        self.envelope = envelope
        self.job = job
        self.call = call
        self.run: Riding | None = None
        self.variables = copy_context()
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def tell(self, value: object, error: BaseException | None) -> None:
        """Decide its end; the first word counts."""
        close(self.call)
        if not self.answer.done():
            self.answer.set_result((value, error))


@dataclass(frozen=True, slots=True)
class Failed:
    """Calls that failed together."""

    seats: Sequence[Seat]
    error: BaseException
    timed_out: bool

    def fail(self) -> None:
        """Let each fail with the error that they share."""
        if len(self.seats) > 1:  # each lets go of the frames once it has written them down
            with contextlib.suppress(Exception):
                setattr(self.error, "far_traceback", traceback_of(self.error))  # noqa: B010 - of any class
        for seat in self.seats:
            if self.timed_out and seat.attempt.ended_by is None:
                seat.attempt.ended_by = Ended.TIMED_OUT
            seat.tell(None, self.error)
