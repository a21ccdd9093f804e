"""A step: tried until its function answers, its result recorded before anybody sees it."""

from __future__ import annotations

import time
from typing import Any

from redisjobs import backoff
from redisjobs.durable import StepOptions, Work
from redisjobs.errors import Dead, JobAbortedError, OptionError
from redisjobs.record import message_of
from redisjobs.runs.failures import detail_of, failure_of
from redisjobs.runs.run import Run
from redisjobs.runs.values import Values
from redisjobs.runs.work import TriedTooLong, is_async, perform
from redisjobs.steps import StepRecord


async def run_step(run: Run, name: str, work: Work, options: StepOptions) -> Any:
    """The result of a step; `Engine.step` says what fails."""
    awaited = is_async(work.function)
    if options.timeout_s is not None and not awaited:
        why = f"is for async functions, and that of step {name!r} runs in a thread, which cannot be ended: leave it out"
        raise OptionError("timeout", options.timeout_s, why)
    record = await run.begin(name, "step")
    values = Values.of(run.job.door.codecs, work.function)
    if record is not None and record.state == "done":
        run.register(record, options, values)
        return values.read(record)
    if record is not None and record.state == "failed":
        raise failure_of(record)
    step = Step(run, name, work, options, values, awaited=awaited)
    if record is not None:
        await step.wait_for_next_try(record)
    return await step.run(record)


class Step:
    """One step that is not done yet.

    Args:
        awaited: its function is async.
    """

    def __init__(self, run: Run, name: str, work: Work, options: StepOptions, values: Values, *, awaited: bool) -> None:
        self._run = run
        self._name = name
        self._work = work
        self._options = options
        self._values = values
        self._awaited = awaited

    async def wait_for_next_try(self, record: StepRecord) -> None:
        """Return when its next try is due."""
        left = self._run.left(record)
        if left is not None and left > 0:
            await self._run.wait(left, waits=False)

    async def run(self, record: StepRecord | None) -> Any:
        """Try until it is done, or has failed for good."""
        tries = 0 if record is None else record.tries
        while True:
            await self._run.trusted(self._name)
            began, tries = time.monotonic(), tries + 1
            try:
                value = await perform(
                    self._work, self._run.means.threads, is_async=self._awaited, timeout=self._options.timeout_s
                )
            except JobAbortedError:  # a step within this one could not be recorded
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, it is recorded and raised, or tried again
                failed = await self._failed(error, tries, time.monotonic() - began)
            else:
                return await self._done(value, tries, time.monotonic() - began)
            await self.wait_for_next_try(failed)

    async def _done(self, value: Any, tries: int, took: float) -> Any:
        has_undo = self._options.undo is not None
        record = self._run.new(self._name, "step", state="done", tries=tries, took=took, undo=has_undo)
        try:
            self._values.write(record, value)
            recorded = self._values.read(record)
        except Exception as error:
            raise await self._unkept(error, tries, took) from error
        await self._run.put(record)
        self._run.register(record, self._options, self._values)
        return recorded

    async def _failed(self, error: Exception, tries: int, took: float) -> StepRecord:
        """Record a failed try; answers the record where another follows.

        Raises:
            StepFailed: none does.
        """
        again = tries < self._options.most_tries and self._run.job.retries(error)
        delay = self._delay(tries, error) if again else None
        detail = detail_of(error, timed_out=isinstance(error, TriedTooLong))
        state: Any = "retrying" if again else "failed"
        record = self._run.new(self._name, "step", state=state, tries=tries, took=took, due_in=delay, detail=detail)
        await self._run.put(record)
        if not again:
            raise failure_of(record) from error
        return record

    async def _unkept(self, error: Exception, tries: int, took: float) -> Dead:
        """What ends the job: its step has done its work, and each repeat would do it again."""
        record = self._run.new(self._name, "step", state="failed", tries=tries, took=took, detail=detail_of(error))
        await self._run.put(record)
        failure = failure_of(record)
        failure.__cause__ = error
        dead = Dead(f"step {self._name!r} ended well, but its result cannot be kept: {message_of(error, 500)}")
        dead.__context__ = failure
        return dead

    def _delay(self, tries: int, error: Exception) -> float:
        rule = self._options.rule
        return backoff.delay_after(self._run.job.declaration.retry_rule if rule is None else rule, tries, error)
