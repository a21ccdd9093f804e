"""One attempt: from the delivery, through its context and its body, to the finish that goes back."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable
from contextvars import Context as Variables
from typing import Any

from redisjobs.admission import Admission
from redisjobs.base import copies
from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.envelope import Envelope
from redisjobs.base.threads import Threads
from redisjobs.batch_job import BatchJob
from redisjobs.batch_run import Means
from redisjobs.batches import Batches
from redisjobs.broker import Finish
from redisjobs.children import Children
from redisjobs.closing import Closing
from redisjobs.context import Context, moment, running
from redisjobs.durable import Engine, Refusing
from redisjobs.ending import CANCEL_GRACE_S, AnyJob, UnstartedError, failed, last_look, succeeded
from redisjobs.errors import Dead, DecodeError, UnknownJobError
from redisjobs.lane import Attempt, Lane
from redisjobs.logs import event
from redisjobs.middleware import Middleware
from redisjobs.outcome import Ended
from redisjobs.runs import Live, Runs, in_transaction, rewound
from redisjobs.sweeper import Sweeper

LATEST_MICROS = 250_000_000_000_000_000
"""Moments up to here, in the year 9892, can be read for sure."""

log = logging.getLogger("redisjobs.attempt")


class Runner:
    """Runs attempts: async bodies in the loop, sync ones in threads, each with context variables of its own.

    Why a body is ended is noted before it is cancelled, so that whatever it answers has one meaning. A body
    cannot be forced: one that swallows its cancellation, or runs in a thread, keeps its slot until it ends; only
    one in a process of its own is killed.

    Args:
        find: the job of a name.
        draining: what bodies see as `ctx.draining`.
        state: what they see as `ctx.state`.
        runs: where they get their durable runs, if they ask for one.
        around: the middleware that each attempt goes through.
        admission: where those with limits ask whether they may begin; None: all may.
    """

    def __init__(
        self,
        find: Callable[[str], AnyJob | None],
        draining: asyncio.Event,
        clock: Clock = SYSTEM_CLOCK,
        *,
        state: Any = None,
        around: Middleware | None = None,
        runs: Callable[[Threads], Runs] | None = None,
        admission: Admission | None = None,
    ) -> None:
        self._find = find
        self._draining = draining
        self._clock = clock
        self._state = state
        self._around = around
        self._admission = admission
        self._threads = Threads("redisjobs-body")
        self._children = Children(draining)
        self._sweeper = Sweeper(self._deadline_passed)
        self._runs = None if runs is None else runs(self._threads)
        self._opener = self._open
        self._process = os.getpid()
        self._closing = Closing(clock, self._sweeper.forget)
        self._batches = Batches(Means(self._threads, draining, state, around))

    def begin(self, attempt: Attempt) -> None:
        """Start an attempt; its lane hears of its end."""
        attempt.task = asyncio.get_running_loop().create_task(self._run(attempt), context=Variables())

    def cancel(self, attempt: Attempt, ended: Ended) -> None:
        """End an attempt for this reason. The first reason stays, save that a lost lease goes before all."""
        if attempt.over or attempt.ended_by in (ended, Ended.LOST):
            return
        if attempt.live is not None and attempt.live.run.undoing and ended not in (Ended.LOST, Ended.DRAINED):
            return  # it is on its way to its end
        if attempt.ended_by is not None and ended is not Ended.LOST:
            return
        attempt.ended_by = ended
        if ended is Ended.LOST:
            attempt.renewed = False
        if attempt.seat is not None:
            self._batches.ended(attempt)
        elif attempt.began_at is not None:
            if not attempt.in_thread and attempt.task is not None:
                attempt.task.cancel()
            self._sweeper.watch(attempt, time.monotonic() + CANCEL_GRACE_S)

    def flush(self, lane: Lane) -> None:
        """Run what gathers in this lane, without waiting for further calls."""
        self._batches.flush(lane)

    async def leave(self) -> None:
        """Give the step store back."""
        if self._runs is not None:
            await self._runs.close()

    def close(self) -> None:
        """Give threads, processes and timers back; a body that still runs in a thread goes on."""
        self._sweeper.stop()
        self._batches.close()
        self._threads.close()
        self._children.close()

    async def _run(self, attempt: Attempt) -> None:
        job: AnyJob | None = None
        envelope: Envelope | None = None
        try:
            envelope = _unpack(attempt)
            attempt.job = envelope.job
            job = self._find(envelope.job)
            if job is None or attempt.delivery.cancel or attempt.delivery.expired or envelope.version is not None:
                job = _refuse(attempt, envelope, job)
            context, arguments = self._prepare(attempt, envelope, job)
            if job.limiting is not None or attempt.lane.limits:
                await self._enter(attempt, job, arguments)
            value = await (
                self._body(attempt, envelope, job, context, arguments)
                if attempt.permit is None
                else self._permitted_body(attempt, envelope, job, context, arguments)
            )
            if os.getpid() != self._process:
                copies.end(None)
            if attempt.live is not None:
                finish = await self._closing.returned(attempt, envelope, job, value)
            elif attempt.ended_by is None or (attempt.in_thread and attempt.ended_by is not Ended.LOST):
                finish = succeeded(attempt, job, value, self._clock, has_parent=envelope.has_parent)
            else:  # it swallowed its cancellation: what it left undone nobody knows
                finish = failed(attempt, envelope, job, None, self._clock)
        except BaseException as error:  # noqa: BLE001 - whatever a body raises becomes an outcome
            if os.getpid() != self._process:
                copies.end(error)
            finish = await self._raised(attempt, envelope, job, error)
        if attempt.deadline is not None:
            self._sweeper.forget(attempt)
        attempt.lane.end(attempt, finish)

    async def _raised(
        self, attempt: Attempt, envelope: Envelope | None, job: AnyJob | None, error: BaseException
    ) -> Finish | None:
        if attempt.live is not None and envelope is not None and job is not None:
            return await self._closing.raised(attempt, envelope, job, error)
        finish = failed(attempt, envelope, job, error, self._clock)
        unlimited = job is not None and job.limiting is None and not attempt.lane.limits
        if self._admission is not None and isinstance(error, UnstartedError) and not unlimited:
            self._admission.forgo(attempt, finish)
        return finish

    def _prepare(self, attempt: Attempt, envelope: Envelope, job: AnyJob) -> tuple[Context, dict[str, Any]]:
        """What the body is called with.

        Raises:
            UnstartedError: its payload, or what travels beside it, cannot be read.
            DecodeError: its arguments do not fit this release.
        """
        attempt.in_thread = not job.is_async and not job.declaration.process
        try:
            context = _context(attempt, envelope, job, self._draining, self._state)
        except (ValueError, OverflowError, RecursionError) as error:  # no release can read such headers or moments
            what = DecodeError(f"what travels beside the arguments cannot be read ({type(error).__name__})")
            raise UnstartedError(Ended.UNREADABLE, what) from None
        context.reporter = attempt
        context.opener = self._opener
        running.set(context)
        try:
            data = job.door.codecs.decode(envelope.codec, envelope.payload)
        except DecodeError as error:
            raise UnstartedError(Ended.UNREADABLE, error) from None
        return context, job.signature.arguments(data)

    def _body(
        self, attempt: Attempt, envelope: Envelope, job: AnyJob, context: Context, arguments: dict[str, Any]
    ) -> Awaitable[Any]:
        """What runs now, or gathers for a batch.

        Raises:
            UnstartedError: it may not begin after all.
        """
        if isinstance(job, BatchJob):
            return self._batches.ride(attempt, envelope, job, context, arguments)
        self._last_look(attempt, job, context)
        if job.runs_plainly and self._around is None and not envelope.is_ending:
            answer: Awaitable[Any] = job.invoke(context, arguments)
            return answer
        return self._roundabout(attempt, envelope, job, context, arguments)

    def _permitted_body(self, attempt: Attempt, *given: Any) -> Awaitable[Any]:
        if attempt.permit is None or self._admission is None:
            raise AssertionError("only the admission gives permits")
        return self._admission.under(attempt, attempt.permit, lambda: self._body(attempt, *given))

    async def _enter(self, attempt: Attempt, job: AnyJob, arguments: dict[str, Any]) -> None:
        """Raises UnstartedError where the limits do not let it begin now."""
        if self._admission is not None:
            await self._admission.enter(attempt, job, arguments)

    def _last_look(self, attempt: Attempt, job: AnyJob, context: Context) -> None:
        """The lease is looked at last thing before the body starts, which begins its time."""
        timeout = job.declaration.timeout_s
        attempt.began_at = now = last_look(attempt)
        if timeout is not None:
            context.deadline = now + timeout
            self._sweeper.watch(attempt, context.deadline)
        if attempt.lane.observer is not None:
            attempt.lane.observer.began(attempt, context)

    def _open(self, context: Context[Any]) -> Engine:
        """What a body speaks to when it asks for its run."""
        attempt = context.reporter
        if self._runs is None or not isinstance(attempt, Attempt):
            return Refusing("this runner keeps no runs")
        return self._runs.of(attempt)

    def _roundabout(
        self, attempt: Attempt, envelope: Envelope, job: AnyJob, context: Context, arguments: dict[str, Any]
    ) -> Awaitable[Any]:
        """The call of a body that does not simply run in the loop."""

        def call() -> Awaitable[Any]:
            if job.declaration.process:
                return self._children.call(job, context, *job.door.codecs.bare(envelope.codec, envelope.payload))
            if job.is_async:
                answer: Awaitable[Any] = job.invoke(context, arguments)
                return answer
            return self._threads.call_here(job.invoke, context, arguments)

        def through() -> Awaitable[Any]:
            return call() if self._around is None else self._around(context, call)

        if not envelope.is_ending and not job.declaration.transactional:
            return through()
        engine = self._open(context)
        if not isinstance(engine, Live):
            return _refused(engine, envelope)
        return rewound(engine, through) if envelope.is_ending else in_transaction(engine, through)

    def _deadline_passed(self, attempt: Attempt) -> None:
        if attempt.ended_by is None:
            self.cancel(attempt, Ended.TIMED_OUT)
            return
        if attempt.ended_by is not Ended.DRAINED:
            attempt.renewed = False
        event(
            log, logging.WARNING, "attempt.stuck", **attempt.told(), renewed=attempt.renewed,
            in_thread=attempt.in_thread, why=f"asked to end because {attempt.ended_by.value}",
            remedy="its slot stays taken: let the body pass CancelledError on, or look at ctx.remaining()",
        )  # fmt: skip
        if not attempt.in_thread and attempt.task is not None:
            attempt.task.cancel()  # the first may have got lost in what it awaited: once more, its grace is over


def _unpack(attempt: Attempt) -> Envelope:
    try:
        return Envelope.unpack(attempt.delivery.body)
    except DecodeError as error:
        raise UnstartedError(Ended.UNREADABLE, error) from None


def _refuse(attempt: Attempt, envelope: Envelope, job: AnyJob | None) -> AnyJob:
    """The job, if the attempt may start after all.

    Raises:
        UnstartedError: it may not.
    """
    if attempt.delivery.cancel:
        raise UnstartedError(Ended.CANCELLED)
    if attempt.delivery.expired:
        raise UnstartedError(Ended.EXPIRED)
    if job is None:
        raise UnstartedError(Ended.UNKNOWN)
    if job.declaration.knows(envelope.version):
        return job
    known = ", ".join(map(repr, filter(None, [job.declaration.version, *job.declaration.also_runs]))) or "none"
    why = f"version {envelope.version!r} of the job is not registered here, where it has {known}"
    raise UnstartedError(Ended.OTHER_VERSION, UnknownJobError(why))


async def _refused(engine: Engine, envelope: Envelope) -> None:
    what = "its undos" if envelope.is_ending else "transactional=True"
    raise Dead(f"{what}: {engine.why if isinstance(engine, Refusing) else 'it has no run'}")


def _context(attempt: Attempt, envelope: Envelope, job: AnyJob, draining: asyncio.Event, state: Any) -> Context:
    """The attempt's context. One with headers or moments of its own is filled at once: they may be unreadable."""

    def fill(context: Context) -> None:
        delivery = attempt.delivery
        deadline, reporter, opener = context.deadline, context.reporter, context.opener
        context.__init__(  # type: ignore[misc]
            attempt.job_id,
            envelope.job,
            delivery.queue,
            delivery.attempts + 1,
            envelope.max_attempts or job.declaration.max_attempts,
            envelope.idempotency_key,
            envelope.priority,
            moment(envelope.run_at),
            moment(envelope.expires_at),
            envelope.tenant_id,
            envelope.traceparent,
            envelope.enqueued_by,
            {} if envelope.headers is None else json.loads(envelope.headers),
            moment(envelope.staged_at),
            deadline,
            draining,
            reporter,
            state,
            opener,
        )

    context = Context.later(fill)
    ordinary = type(envelope.staged_at) is int and 0 <= envelope.staged_at < LATEST_MICROS
    if not ordinary or envelope.headers is not None or envelope.run_at is not None or envelope.expires_at is not None:
        fill(context)
    return context
