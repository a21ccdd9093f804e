"""One attempt here and now: the real runner, codec, context, timeout and retry rule, and no store."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import msgpack

from redisjobs.app import App
from redisjobs.base.durations import whole
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
from redisjobs.testing.outcomes import Cancelled, Died, Expired, Outcome, Retried, Snoozed, Succeeded

P = ParamSpec("P")
R = TypeVar("R")

_LEASE_S = 86_400.0


class Inline:
    """How attempts are run inline.

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

    async def run(self, job: Caller[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Outcome[R]:
        """Run one attempt of a job, or of `job.using(…)`, with these arguments.

        They go through the codec and come back, as on their way to a worker.

        Raises:
            EnqueueError: the call would be refused.
            Exception: what the body raised, where `raises` is set.
        """
        return await self.run_call(job.declared, job.call(*args, **kwargs))

    async def run_call(self, job: Job[..., R], call: Call[R]) -> Outcome[R]:
        """Run one attempt of a call that was made before."""
        seen = _Seen(_around(job.door))
        attempt = await self._attempt(seen, job, call)
        if self.raises and isinstance(seen.error, Exception):
            raise seen.error_with_traceback()
        return _outcome(attempt, job, seen)

    async def _attempt(self, seen: _Seen, job: Job[..., Any], call: Call[Any]) -> Attempt:
        lane = Lane(call.queue, "inline", 1, _LEASE_S)
        lane.send = _keep
        runner = Runner(lambda _: job, asyncio.Event(), state=self.state, around=seen.note)
        attempt = lane.hold(_delivery(call, self.attempt), time.monotonic())
        runner.begin(attempt)
        try:
            await asyncio.wait({task} if (task := attempt.task) is not None else ())
        finally:
            if not attempt.over and attempt.task is not None:  # the test itself was cancelled
                attempt.task.cancel()
            runner.close()
        return attempt


async def run(job: Caller[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Outcome[R]:
    """Run the first attempt of a job here and now; answers what becomes of it. `Inline` has options for it.

        assert await run(send_mail, to="a@b.example") == Succeeded(None)

    Raises:
        EnqueueError: the call would be refused.
    """
    return await Inline().run(job, *args, **kwargs)


class _Seen:
    """The outermost middleware: notes what came of the body, or of the app's own middleware around it."""

    def __init__(self, around: Middleware | None) -> None:
        self._around = around
        self.value: Any = None
        self.error: BaseException | None = None
        self._tracebacks: list[tuple[BaseException, TracebackType | None]] = []

    async def note(self, context: Context[Any], call_next: Next) -> Any:
        """Go on, and note the end."""
        try:
            self.value = await (call_next() if self._around is None else self._around(context, call_next))
        except BaseException as error:
            self._note(error)
            raise
        return self.value

    def error_with_traceback(self) -> BaseException:
        """The error as it was raised: the runner takes tracebacks off, to free what they hold."""
        for error, trace in self._tracebacks:
            error.__traceback__ = trace
        if self.error is None:
            raise AssertionError("the body has raised nothing")
        return self.error

    def _note(self, error: BaseException) -> None:
        self.error = error
        link: BaseException | None = error
        while link is not None and len(self._tracebacks) < 100:
            self._tracebacks.append((link, link.__traceback__))
            link = link.__cause__ or link.__context__


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
    error = seen.error
    if attempt.ended_by is Ended.TIMED_OUT:
        error = JobTimeoutError(record.get("e", {}).get("message", ""))
    return _value(finish, job, seen, record) or _comes_to(finish, error, _reason(record))


def _value(finish: Finish, job: Job[..., R], seen: _Seen, record: dict[str, Any]) -> Succeeded[R] | None:
    if finish.word != "done":
        return None
    return Succeeded(job.decode_result(record["rc"], record["r"]) if "r" in record else seen.value)


def _comes_to(finish: Finish, error: BaseException | None, reason: str) -> Outcome[Any]:
    match finish.word:
        case "retry":
            return Retried(finish.delay_ms / 1000, error, reason)
        case "snooze":
            return Snoozed(finish.delay_ms / 1000)
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
