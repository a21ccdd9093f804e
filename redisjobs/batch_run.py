"""One batch in its slot: its body runs with all of its calls, is split where it fails, and each call gets its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Sequence
from contextvars import Context as Variables
from dataclasses import dataclass
from typing import Any, cast

from redisjobs.base.ids import new_id
from redisjobs.base.threads import Threads
from redisjobs.batch import BatchContext, ask, said, settle
from redisjobs.context import Context, running
from redisjobs.durable import Refusing
from redisjobs.ending import CANCEL_GRACE_S, UnstartedError, last_look
from redisjobs.errors import Dead, JobTimeoutError, LeaseLost, Signal
from redisjobs.halving import halves
from redisjobs.lane import Attempt, Lane
from redisjobs.logs import event
from redisjobs.middleware import Middleware
from redisjobs.outcome import Ended
from redisjobs.record import message_of, type_of
from redisjobs.seat import Answer, AnyBatchJob, Failed, Seat

log = logging.getLogger("redisjobs.attempt")


@dataclass(frozen=True, slots=True)
class Means:
    """What batches are run with.

    Args:
        draining: what bodies see as `ctx.draining`. state: what they see as `ctx.state`.
        around: the middleware that each run of a batch goes through.
    """

    threads: Threads
    draining: asyncio.Event
    state: Any = None
    around: Middleware | None = None


class BatchRun:
    """One batch, from the moment at which it is complete; it is started once it has a slot."""

    def __init__(self, means: Means, lane: Lane, job: AnyBatchJob, seats: Sequence[Seat]) -> None:
        self._means = means
        self._lane = lane
        self._job = job
        self._seats = seats
        self._task: asyncio.Task[None] | None = None
        self._body: asyncio.Task[Answer] | None = None
        self._staying: set[Seat] = set()
        """The calls that run now, and that nobody has asked to end."""
        self._aboard: set[Seat] = set()
        self._cut = self._timed_out = self._given_up = False
        self._grace: asyncio.TimerHandle | None = None
        for seat in seats:
            seat.run = self

    def start(self) -> None:
        """Run in a slot of the lane, and give it back at the end."""
        self._task = asyncio.get_running_loop().create_task(self._all(), context=Variables())

    def ended(self, seat: Seat) -> None:
        """Its attempt is to end, or its task has ended already. The body is cancelled when that is so for all."""
        if seat not in self._aboard:
            if seat.attempt.ended_by is not None:
                seat.tell(None, UnstartedError(seat.attempt.ended_by))
            return
        if seat.attempt.ended_by is Ended.LOST:
            ask(seat.call, "lost")
            seat.tell(None, LeaseLost("its lease was lost while its batch ran"))
        elif seat.attempt.ended_by is Ended.CANCELLED:
            ask(seat.call, "cancelled")
        self._staying.discard(seat)
        if not self._staying:
            self._cut_off()

    async def _all(self) -> None:
        try:
            groups: Sequence[Sequence[Seat]] = [self._seats]
            while groups:
                failed = [each for group in groups if (each := await self._once(group)) is not None]
                groups = self._split(failed)
        except BaseException as bug:
            Failed(self._seats, bug, timed_out=False).fail()
            if not isinstance(bug, Exception):
                raise
            event(log, logging.ERROR, "batch.broken", **self._told(self._seats), exc_info=bug)
        finally:
            self._lane.batch_ended()

    async def _once(self, group: Sequence[Seat]) -> Failed | None:
        """Run the body once; answers who failed in a way that halves of a batch may escape."""
        aboard = [seat for seat in group if self._boards(seat)]
        if not aboard:
            return None
        began = time.monotonic()
        value, error = await self._run_body(aboard, began)
        if error is None and self._cut and self._job.is_async:  # it swallowed its cancellation
            error = asyncio.CancelledError()
        failed = self._tell(aboard, value, error)
        event(
            log, logging.DEBUG, "batch.ran", **self._told(aboard), seconds=time.monotonic() - began,
            failed=0 if failed is None else len(failed.seats),
        )  # fmt: skip
        if failed is None:
            return None
        splits = self._may_split(failed)
        if not splits or len(failed.seats) == 1:
            failed.fail()
        return failed if splits else None

    def _split(self, failed: list[Failed]) -> list[Sequence[Seat]]:
        """The halves to be run next; where there are none, each of those who failed has its end."""
        groups = halves([each.seats for each in failed])
        for each in failed:
            if not groups:
                each.fail()
            elif len(each.seats) > 1:
                error = JobTimeoutError("it ran past its timeout") if each.timed_out else each.error
                event(
                    log, logging.WARNING, "batch.split", **self._told(each.seats), error=type_of(error),
                    message=message_of(error, 200),
                )  # fmt: skip
        return groups

    def _boards(self, seat: Seat) -> bool:
        """Whether a call still comes along; its lease is looked at last thing before the body starts."""
        if seat.answer.done():
            return False
        if seat.attempt.began_at is None and self._means.draining.is_set():
            seat.tell(None, UnstartedError(Ended.DRAINED))
            return False
        try:
            now = last_look(seat.attempt)
        except UnstartedError as refused:
            seat.tell(None, refused)
            return False
        if seat.attempt.began_at is None:
            seat.attempt.began_at = now
            if self._lane.observer is not None:
                seat.variables.run(self._lane.observer.began, seat.attempt, seat.call.context)
        return True

    # -- one run of the body
    async def _run_body(self, aboard: list[Seat], began: float) -> Answer:
        timeout = self._job.declaration.timeout_s
        deadline = None if timeout is None else began + timeout
        self._aboard, self._staying = set(aboard), set(aboard)
        self._cut = self._timed_out = self._given_up = False
        loop = asyncio.get_running_loop()
        self._body = loop.create_task(self._in_body(aboard, deadline), context=Variables())
        for seat in aboard:
            seat.attempt.body = self._body
        timer = None if timeout is None else loop.call_later(timeout, self._time_over)
        try:
            await asyncio.wait({self._body})
            return self._body.result()
        finally:
            self._body.cancel()
            self._aboard = set()
            for handle in (timer, self._grace):
                if handle is not None:
                    handle.cancel()

    async def _in_body(self, aboard: list[Seat], deadline: float | None) -> Answer:
        context = self._context(aboard, deadline)
        running.set(context)
        observer = self._lane.observer
        try:
            attempts = [seat.attempt for seat in aboard]
            with contextlib.nullcontext() if observer is None else observer.batch(attempts):
                return await self._through(context), None
        except BaseException as error:  # noqa: BLE001 - whatever a body raises becomes an outcome
            return None, error

    def _through(self, context: BatchContext[Any]) -> Awaitable[Any]:
        def call() -> Awaitable[Any]:
            if self._job.is_async:
                return cast("Awaitable[Any]", self._job.invoke_batch(context))
            return self._means.threads.call_here(self._job.invoke_batch, context)

        around = self._means.around
        return call() if around is None else around(context, call)

    def _context(self, aboard: list[Seat], deadline: float | None) -> BatchContext[Any]:
        envelopes = [seat.envelope for seat in aboard]  # a look at the context of each call would fill it
        tenants = {each.tenant_id for each in envelopes}
        return BatchContext(
            str(new_id()),
            self._job.name,
            self._lane.queue,
            1 + max(seat.attempt.delivery.attempts for seat in aboard),
            max(each.max_attempts or self._job.declaration.max_attempts for each in envelopes),
            tenant_id=tenants.pop() if len(tenants) == 1 else None,
            deadline=deadline,
            draining=self._means.draining,
            reporter=_Everyone([seat.attempt for seat in aboard]),
            state=self._means.state,
            opener=refusing,
            calls=[seat.call for seat in aboard],
        )

    def _time_over(self) -> None:
        self._timed_out = True
        self._cut_off()

    def _cut_off(self) -> None:
        """Ask the body to end; one in a thread cannot be asked."""
        if self._cut or self._body is None:
            return
        self._cut = True
        if self._job.is_async:
            self._body.cancel()
        self._grace = asyncio.get_running_loop().call_later(CANCEL_GRACE_S, self._stuck)

    def _stuck(self) -> None:
        self._given_up = True
        for seat in self._aboard:
            if seat.attempt.ended_by is not Ended.DRAINED:
                seat.attempt.renewed = False
        event(
            log, logging.WARNING, "batch.stuck", **self._told(self._aboard), in_thread=not self._job.is_async,
            remedy="its slot stays taken: let the body pass CancelledError on, or look at ctx.remaining()",
        )  # fmt: skip
        if self._job.is_async and self._body is not None:
            self._body.cancel()

    # -- the end of a run
    def _tell(self, aboard: list[Seat], value: object, error: BaseException | None) -> Failed | None:
        """Answer the calls whose end is decided; those that failed with the body are left."""
        if error is None:
            try:
                settle([seat.call for seat in aboard], value)
            except Dead as misfit:
                error = misfit
        rest: list[Seat] = []
        for seat in aboard:
            word = said(seat.call)
            if word is not None:
                seat.tell(*word)
            elif not seat.answer.done():
                rest.append(seat)
        return None if error is None or not rest else Failed(rest, error, self._timed_out)

    def _may_split(self, failed: Failed) -> bool:
        """Whether halves are worth a try: a signal means all, and so does an end that was asked for."""
        asked_for = self._given_up or (self._cut and not self._timed_out)
        return self._job.batching.split and not asked_for and not isinstance(failed.error, Signal)

    def _told(self, seats: Sequence[Seat] | set[Seat]) -> dict[str, Any]:
        return {"job": self._job.name, "queue": self._lane.queue, "calls": len(seats)}


class _Everyone:
    """Passes on what the body of a batch reports, for each of its calls."""

    def __init__(self, attempts: list[Attempt]) -> None:
        self._attempts = attempts

    def report(self, text: bytes) -> None:
        for attempt in self._attempts:
            attempt.report(text)


def refusing(context: Context[Any]) -> Refusing:
    """What a body speaks to that asks for a durable run."""
    return Refusing(f"batch job {context.job!r} keeps no steps: declare what needs them with @app.job")
