"""One attempt: from the delivery, through its context and its body, to the finish that goes back."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import time
from collections.abc import Awaitable, Callable
from contextvars import Context as Variables
from contextvars import copy_context
from typing import Any

from redisjobs.base.clock import SYSTEM_CLOCK, Clock
from redisjobs.base.envelope import Envelope
from redisjobs.base.threads import Threads
from redisjobs.children import Children
from redisjobs.context import Context, moment, running
from redisjobs.ending import AnyJob, UnstartedError, failed, succeeded
from redisjobs.errors import DecodeError
from redisjobs.lane import Attempt
from redisjobs.logs import event
from redisjobs.middleware import Middleware
from redisjobs.outcome import Ended
from redisjobs.sweeper import Sweeper

CANCEL_GRACE_S = 5.0
"""How long a body may take to answer its cancellation before it is named and its lease left to lapse."""

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
        around: the middleware that each attempt goes through.
    """

    def __init__(
        self,
        find: Callable[[str], AnyJob | None],
        draining: asyncio.Event,
        clock: Clock = SYSTEM_CLOCK,
        *,
        state: Any = None,
        around: Middleware | None = None,
    ) -> None:
        self._find = find
        self._draining = draining
        self._clock = clock
        self._state = state
        self._around = around
        self._threads = Threads("redisjobs-body")
        self._children = Children(draining)
        self._sweeper = Sweeper(self._deadline_passed)

    def begin(self, attempt: Attempt) -> None:
        """Start an attempt; its lane hears of its end."""
        attempt.task = asyncio.get_running_loop().create_task(self._run(attempt), context=Variables())

    def cancel(self, attempt: Attempt, ended: Ended) -> None:
        """End an attempt for this reason. The first reason stays, save that a lost lease goes before all."""
        if attempt.over or attempt.ended_by in (ended, Ended.LOST):
            return
        if attempt.ended_by is not None and ended is not Ended.LOST:
            return
        attempt.ended_by = ended
        if ended is Ended.LOST:
            attempt.renewed = False
        if attempt.began_at is not None:
            if not attempt.in_thread and attempt.task is not None:
                attempt.task.cancel()
            self._sweeper.watch(attempt, time.monotonic() + CANCEL_GRACE_S)

    def close(self) -> None:
        """Give threads, processes and timers back; a body that still runs in a thread goes on."""
        self._sweeper.stop()
        self._threads.close()
        self._children.close()

    async def _run(self, attempt: Attempt) -> None:
        job: AnyJob | None = None
        envelope: Envelope | None = None
        try:
            envelope = _unpack(attempt)
            attempt.job = envelope.job
            job = self._find(envelope.job)
            if job is None or attempt.delivery.cancel or attempt.delivery.expired:
                raise UnstartedError(_refusal(attempt))  # noqa: TRY301 - it goes the way of all that ends attempts
            context, arguments = self._prepare(attempt, envelope, job)
            self._last_look(attempt, job, context)
            if attempt.lane.observer is not None:
                attempt.lane.observer.began(attempt, context)
            value = await (
                job.invoke(context, arguments)
                if job.is_async and self._around is None
                else self._roundabout(attempt, job, context, arguments)
            )
            if attempt.ended_by is None or (attempt.in_thread and attempt.ended_by is not Ended.LOST):
                finish = succeeded(attempt, job, value, self._clock)
            else:  # it swallowed its cancellation: what it left undone nobody knows
                finish = failed(attempt, envelope, job, None, self._clock)
        except BaseException as error:  # noqa: BLE001 - whatever a body raises becomes an outcome
            finish = failed(attempt, envelope, job, error, self._clock)
        if attempt.deadline is not None:
            self._sweeper.forget(attempt)
        attempt.lane.end(attempt, finish)

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
        running.set(context)
        try:
            data = job.door.codecs.decode(envelope.codec, envelope.payload)
        except DecodeError as error:
            raise UnstartedError(Ended.UNREADABLE, error) from None
        return context, job.signature.arguments(data)

    def _last_look(self, attempt: Attempt, job: AnyJob, context: Context) -> None:
        """The lease is looked at last thing before the body starts."""
        timeout = job.declaration.timeout_s
        now = time.monotonic()
        if attempt.ended_by is not None:
            raise UnstartedError(attempt.ended_by)
        if now >= attempt.trusted_until:
            late = now - attempt.trusted_until
            event(log, logging.WARNING, "attempt.untrusted", **attempt.told(), late_s=late)
            raise UnstartedError(Ended.DRAINED)
        attempt.began_at = now
        if timeout is not None:
            context.deadline = now + timeout
            self._sweeper.watch(attempt, context.deadline)

    def _roundabout(self, attempt: Attempt, job: AnyJob, context: Context, arguments: dict[str, Any]) -> Awaitable[Any]:
        """The call of a body that does not simply run in the loop."""

        def call() -> Awaitable[Any]:
            if job.declaration.process:
                envelope = Envelope.unpack(attempt.delivery.body)
                return self._children.call(job, context, *job.door.codecs.bare(envelope.codec, envelope.payload))
            if job.is_async:
                answer: Awaitable[Any] = job.invoke(context, arguments)
                return answer
            return self._in_thread(job, context, arguments)

        return call() if self._around is None else self._around(context, call)

    async def _in_thread(self, job: AnyJob, context: Context, arguments: dict[str, Any]) -> object:
        variables = copy_context()
        value = await self._threads.call(lambda: variables.run(job.invoke, context, arguments))
        return await value if inspect.isawaitable(value) else value

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


def _refusal(attempt: Attempt) -> Ended:
    if attempt.delivery.cancel:
        return Ended.CANCELLED
    return Ended.EXPIRED if attempt.delivery.expired else Ended.UNKNOWN


def _context(attempt: Attempt, envelope: Envelope, job: AnyJob, draining: asyncio.Event, state: Any) -> Context:
    """The attempt's context. One with headers or moments of its own is filled at once: they may be unreadable."""

    def fill(context: Context) -> None:
        delivery = attempt.delivery
        deadline, reporter = context.deadline, context.reporter
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
        )

    context = Context.later(fill)
    ordinary = type(envelope.staged_at) is int and 0 <= envelope.staged_at < LATEST_MICROS
    if not ordinary or envelope.headers is not None or envelope.run_at is not None or envelope.expires_at is not None:
        fill(context)
    return context
