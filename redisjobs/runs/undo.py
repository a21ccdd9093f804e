"""Compensation: what is done is undone, newest first, and each undo is itself recorded."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from redisjobs import backoff
from redisjobs.durable import StepOptions
from redisjobs.durable.values import DEFAULT_TRIES, UNDO
from redisjobs.logs import event
from redisjobs.record import message_of, type_of
from redisjobs.runs.failures import detail_of
from redisjobs.runs.run import Run, Undo
from redisjobs.runs.work import is_async, perform
from redisjobs.steps import StepRecord

log = logging.getLogger("redisjobs.run")


async def undo_all(run: Run) -> list[str]:
    """Undo what the run has done; answers for each undo that failed for good a line that says so.

    Raises:
        JobAbortedError: the attempt may write nothing any more.
        Suspend: an undo is tried again later.
    """
    failed: list[str] = []
    for step in run.to_be_undone:
        name = undo_name(step.name)
        known = run.records.get(name)
        if known is not None and known.state == "failed":
            failed.append(_line(step.name, known.detail or {}))
            continue
        undo = run.undos.get(step.name)
        if undo is None:
            why = {"type": "no undo", "message": "this release of its job has none for it"}
            await run.put(run.new(name, "undo", state="failed", detail=why))
            failed.append(_line(step.name, why))
            continue
        failed += await _undo(run, step, undo, known)
    return failed


def undo_name(step: str) -> str:
    """The name of the record of an undo."""
    return UNDO + step


async def _undo(run: Run, step: StepRecord, undo: Undo, known: StepRecord | None) -> list[str]:
    """Try until it is undone; answers a line if it has failed for good."""
    name = undo_name(step.name)
    tries = 0 if known is None else known.tries
    while True:
        left = run.left(known)
        if left is not None and left > 0:
            await run.wait(left, waits=False)
        await run.trusted(name)
        tries += 1
        try:
            await _call(run, step, undo)
        except BaseException as error:  # the user's own, whatever it is: recorded, and tried again
            if _is_ours(run, error):
                raise
            known = _record_of(run, name, undo.options, tries, error)
            await run.put(known)
            if known.state == "failed":
                event(
                    log, logging.ERROR, "undo.failed", **run.attempt.told(), step=step.name, tries=tries,
                    error=type_of(error), message=message_of(error, 200),
                )  # fmt: skip
                return [_line(step.name, known.detail or {})]
        else:
            await _undone(run, step.name, run.new(name, "undo", state="done", tries=tries))
            return []


async def _undone(run: Run, step: str, record: StepRecord) -> None:
    await run.persist(record.name, lambda: run.means.store.undone(run.token, record, step))
    run.keep(record)
    run.records.pop(step, None)


async def _call(run: Run, step: StepRecord, undo: Undo) -> None:
    function: Any = undo.options.undo
    value = undo.values.read(step)
    await perform(lambda: function(value), run.means.threads, is_async=is_async(function))


def _is_ours(run: Run, error: BaseException) -> bool:
    """Whether the worker ends the undo. A signal such as `Dead` steers nothing here: the run's end is decided."""
    stopped = isinstance(error, asyncio.CancelledError) and run.attempt.ended_by is not None
    return stopped or isinstance(error, GeneratorExit)


def _record_of(run: Run, name: str, options: StepOptions, tries: int, error: BaseException) -> StepRecord:
    """A try that failed; another follows until there were as many as the step may have, or five."""
    most = max(options.most_tries, DEFAULT_TRIES)
    if tries >= most:
        return run.new(name, "undo", state="failed", tries=tries, detail=detail_of(error))
    rule = run.job.declaration.retry_rule if options.rule is None else options.rule
    delay = backoff.delay_after(rule, tries, error)
    return run.new(name, "undo", state="retrying", tries=tries, due_in=delay, detail=detail_of(error))


def _line(step: str, detail: dict[str, Any]) -> str:
    return f"the undo of step {step!r} failed: {detail.get('type')}: {detail.get('message')}"
