"""One attempt here and now: the real runner, codec, context, timeout and retry rule, and no store."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

import msgpack

from redisjobs.base.durations import whole
from redisjobs.broker import Delivery, Finish
from redisjobs.call import Call
from redisjobs.direct import publication_of
from redisjobs.ending import AnyJob
from redisjobs.errors import JobTimeoutError, RedisjobsError
from redisjobs.job import Caller, Job
from redisjobs.lane import Attempt, Lane
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

    Raises:
        OptionError: no number of an attempt.
    """

    def __init__(self, *, attempt: int = 1, raises: bool = False) -> None:
        self.attempt = whole("attempt", attempt, most=1000)
        self.raises = raises

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
        seen = _Seen(job)
        attempt = await self._attempt(seen, call)
        if self.raises and isinstance(seen.error, Exception):
            raise seen.error_with_traceback()
        return _outcome(attempt, job, seen)

    async def _attempt(self, seen: _Seen, call: Call[Any]) -> Attempt:
        lane = Lane(call.queue, "inline", 1, _LEASE_S)
        lane.send = _keep
        runner = Runner(lambda _: cast(AnyJob, seen), asyncio.Event())
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
    """A job whose body's answer is noted on its way to the runner."""

    def __init__(self, job: Job[..., Any]) -> None:
        self._job = job
        self.value: Any = None
        self.error: BaseException | None = None
        self._tracebacks: list[tuple[BaseException, TracebackType | None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._job, name)

    def invoke(self, context: Any, arguments: dict[str, Any]) -> Any:
        """Call the body as the job does."""
        if self._job.is_async:
            return self._note_async(context, arguments)
        try:
            self.value = self._job.invoke(context, arguments)
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

    async def _note_async(self, context: Any, arguments: dict[str, Any]) -> Any:
        try:
            self.value = await self._job.invoke(context, arguments)
        except BaseException as error:
            self._note(error)
            raise
        return self.value

    def _note(self, error: BaseException) -> None:
        self.error = error
        link: BaseException | None = error
        while link is not None and len(self._tracebacks) < 100:
            self._tracebacks.append((link, link.__traceback__))
            link = link.__cause__ or link.__context__


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
