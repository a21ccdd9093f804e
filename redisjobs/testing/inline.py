"""One attempt here and now: the real runner, codec, context, timeout and retry rule, and a step store in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import msgpack

from redisjobs import drivers, outbox
from redisjobs.app import App
from redisjobs.base.durations import whole
from redisjobs.base.threads import Threads
from redisjobs.broker import Delivery, Finish
from redisjobs.call import Call
from redisjobs.context import Context
from redisjobs.direct import publication_of
from redisjobs.errors import JobTimeoutError, RedisjobsError
from redisjobs.job import Caller, Job
from redisjobs.lane import Attempt, Lane
from redisjobs.middleware import Middleware, Next, chain
from redisjobs.outcome import Ended
from redisjobs.runner import Runner
from redisjobs.runs import Runs
from redisjobs.testing.clock import TurnedClock
from redisjobs.testing.outbox import MemoryConnection, Tables
from redisjobs.testing.outcomes import (
    Cancelled,
    Died,
    Expired,
    Limited,
    Outcome,
    Retried,
    Snoozed,
    Succeeded,
    Suspended,
)
from redisjobs.testing.steps import MemorySteps

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")

_LEASE_S = 86_400.0


class Inline:
    """How attempts are run inline. What durable runs record is kept for the next attempt of the same call.

    Limits and rates let everything pass here; a world keeps them.

    Args:
        attempt: the number that the body's context tells, and that its retry rule and `max_attempts` go by.
        raises: raise what the body raised, instead of answering what becomes of it; signals such as `Snooze` apart.
        state: what bodies see as `ctx.state`; the app's lifespan is not entered.

    Raises:
        OptionError: no number of an attempt.
    """

    def __init__(self, *, attempt: int = 1, raises: bool = False, state: Any = None) -> None:
        self.attempt = whole("attempt", attempt, most=1000)
        self.raises = raises
        self.state = state
        self._clock = TurnedClock()
        self._tables = Tables(self._clock.now)

    async def run(self, job: Caller[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Outcome[R]:
        """Run one attempt of a job, or of `job.using(…)`, with these arguments.

        They go through the codec and come back, as on their way to a worker.

        Raises:
            EnqueueError: the call would be refused.
            Exception: what the body raised, where `raises` is set.
        """
        return await self.run_call(job.declared, job.call(*args, **kwargs))

    async def run_batch(self, job: Caller[[A], R], /, arguments: Iterable[A]) -> list[Outcome[R]]:
        """Run one attempt of a call with each of these arguments, of a batch job; answers the outcome of each.

        The calls do not wait for more of them: what is left when they have come is a batch too.

        Raises:
            EnqueueError: a call would be refused.
            Exception: what the first call raised that failed, where `raises` is set.
        """
        return await self._run(job.declared, [job.call(each) for each in arguments])

    async def run_call(self, job: Job[..., R], call: Call[R]) -> Outcome[R]:
        """Run one attempt of a call that was made before."""
        return (await self._run(job, [call]))[0]

    async def _run(self, job: Job[..., R], calls: Sequence[Call[R]]) -> list[Outcome[R]]:
        seen = _Seen(_around(job.door))
        attempts = await self._attempts(seen, job, calls)
        for error in map(seen.error_of, attempts) if self.raises else ():
            if isinstance(error, Exception):
                raise seen.with_traceback(error)
        return [_outcome(each, job, seen) for each in attempts]

    async def _attempts(self, seen: _Seen, job: Job[..., Any], calls: Sequence[Call[Any]]) -> list[Attempt]:
        if not calls:
            return []
        lane = Lane(calls[0].queue, "inline", len(calls), _LEASE_S)
        lane.send = _keep
        lane.observer = seen
        runner = Runner(lambda _: job, asyncio.Event(), state=self.state, around=seen.note, runs=self._runs(job))
        attempts: list[Attempt] = []
        for call in calls:
            self._stage(call)
            attempts.append(lane.hold(_delivery(call, self.attempt), time.monotonic()))
            runner.begin(attempts[-1])
        tasks = [each.task for each in attempts if each.task is not None]
        try:
            await asyncio.sleep(0)  # what is to gather does so at once
            runner.flush(lane)
            await asyncio.wait(tasks)
        finally:
            for task in tasks:  # the test itself was cancelled
                task.cancel()
            await runner.leave()
            runner.close()
        return attempts

    def pass_time(self, seconds: float) -> None:
        """Let the sleeps of runs go on by so much."""
        self._clock.advance(seconds)

    def _runs(self, job: Job[..., Any]) -> Callable[[Threads], Runs]:
        def find(name: str) -> Job[..., Any] | None:
            return job if name == job.name else _jobs_beside(job).get(name)

        return lambda threads: Runs(
            lambda: MemorySteps(self._tables),
            threads,
            find,
            broker=None,
            now=self._clock.now,
            monotonic=self._clock.time,
            in_place_s=0.05,
        )

    def _stage(self, call: Call[Any]) -> None:
        """The row that a run of this call claims; nobody publishes it."""
        if call.id not in self._tables.outbox:
            connection = MemoryConnection(self._tables)
            drivers.send(connection, outbox.stage([call]))
            connection.commit()


async def run(job: Caller[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Outcome[R]:
    """Run the first attempt of a job here and now; answers what becomes of it. `Inline` has options for it.

        assert await run(send_mail, to="a@b.example") == Succeeded(None)

    Raises:
        EnqueueError: the call would be refused.
    """
    return await Inline().run(job, *args, **kwargs)


async def run_batch(job: Caller[[A], R], /, arguments: Iterable[A]) -> list[Outcome[R]]:
    """Run the first attempts of a batch job's calls here and now, as `Inline.run_batch`.

        assert await run_batch(index, [doc, broken]) == [Succeeded(None), Died()]

    Raises:
        EnqueueError: a call would be refused.
    """
    return await Inline().run_batch(job, arguments)


class _Seen:
    """The outermost middleware, and an observer: notes what came of a body, or of the app's own middleware around it,
    and of each call in a batch.
    """

    def __init__(self, around: Middleware | None) -> None:
        self._around = around
        self.value: Any = None
        self._error: BaseException | None = None
        self._errors: dict[Attempt, BaseException | None] = {}
        self._tracebacks: list[tuple[BaseException, TracebackType | None]] = []

    async def note(self, context: Context[Any], call_next: Next) -> Any:
        """Go on, and note the end."""
        try:
            self.value = await (call_next() if self._around is None else self._around(context, call_next))
        except BaseException as error:
            self._error = error
            self._note(error)
            raise
        return self.value

    def error_of(self, attempt: Attempt) -> BaseException | None:
        """What it ended in, if its body raised; for a call in a batch its own."""
        return self._error if attempt.seat is None else self._errors.get(attempt)

    def value_of(self, attempt: Attempt) -> Any:
        """What its body returned; for a call in a batch its own result."""
        return self.value if attempt.seat is None else attempt.seat.answer.result()[0]

    def with_traceback(self, raised: BaseException) -> BaseException:
        """The error as it was raised: the runner takes tracebacks off, to free what they hold."""
        for error, trace in reversed(self._tracebacks):
            error.__traceback__ = trace
        return raised

    def began(self, attempt: Attempt, context: Context) -> None:
        """Note nothing."""

    def ended(self, attempt: Attempt, outcome: object, error: BaseException | None) -> None:
        """Note the error of a call in a batch."""
        self._errors[attempt] = error
        if error is not None and attempt.seat is not None:
            self._note(error)

    def answered(self, attempt: Attempt, word: str) -> None:
        """Never heard: no finish is sent."""

    def batch(self, attempts: Sequence[Attempt]) -> AbstractContextManager[object]:
        """Note nothing."""
        return nullcontext()

    def _note(self, error: BaseException) -> None:
        link: BaseException | None = error
        while link is not None and len(self._tracebacks) < 100:
            self._tracebacks.append((link, link.__traceback__))
            link = link.__cause__ or link.__context__


def _jobs_beside(job: Job[..., Any]) -> Mapping[str, Job[..., Any]]:
    app: Any = job.door
    jobs: Mapping[str, Job[..., Any]] = app.jobs if isinstance(app, App) else {}
    return jobs


def _around(door: object) -> Middleware | None:
    if not isinstance(door, App):
        return None
    app: App[Any] = door  # pyright: ignore[reportUnknownVariableType]  # of whatever state
    return chain(app.middlewares)


def _keep(attempt: Attempt) -> None:
    """The finish stays with the attempt; nobody sends it."""
    del attempt


def _delivery(call: Call[Any], attempt: int) -> Delivery:
    made = publication_of(call, datetime.now(UTC))
    return Delivery(
        call.queue, made.band, made.job_id, b"0-1", attempt, 1, 0, attempt - 1, 0, cancel=False,
        expired=made.expire_ms is not None and made.expire_ms <= 0, direct=False, body=made.envelope,
    )  # fmt: skip


def _outcome(attempt: Attempt, job: Job[..., R], seen: _Seen) -> Outcome[R]:
    finish = attempt.finish
    if finish is None:
        raise RedisjobsError("the attempt ended without an outcome: its lease of a day has ended")
    record: dict[str, Any] = msgpack.unpackb(finish.record) if finish.record else {}
    error = seen.error_of(attempt)
    if attempt.ended_by is Ended.TIMED_OUT:
        error = JobTimeoutError(record.get("e", {}).get("message", ""))
    return _value(finish, job, seen.value_of(attempt), record) or _comes_to(
        finish, error, _reason(record), waits="w" in record
    )


def _value(finish: Finish, job: Job[..., R], value: Any, record: dict[str, Any]) -> Succeeded[R] | None:
    if finish.word != "done":
        return None
    return Succeeded(job.decode_result(record["rc"], record["r"]) if "r" in record else value)


def _comes_to(finish: Finish, error: BaseException | None, reason: str, *, waits: bool) -> Outcome[Any]:
    match finish.word:
        case "retry":
            return Retried(finish.delay_ms / 1000, error, reason)
        case "snooze":
            return Snoozed(finish.delay_ms / 1000)
        case "limited":
            return Limited(finish.delay_ms / 1000)
        case "suspended":
            return Suspended(None if finish.delay_ms < 0 else finish.delay_ms / 1000, waits)
        case "cancelled":
            return Cancelled(reason)
        case "expired":
            return Expired()
        case _:
            return Died(error, reason)


def _reason(record: dict[str, Any]) -> str:
    failure: dict[str, Any] = record.get("e", {})
    told = f"{failure['type']}: {failure['message']}" if failure else ""
    return str(record.get("why") or told)
