"""A task's result, told from its row."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from redisjobs.base.codec import JSON
from redisjobs.base.plain import is_dict
from redisjobs.errors import RedisjobsError
from redisjobs.integrations.django.app import DjangoApp
from redisjobs.integrations.django.bodies import UNKNOWN
from redisjobs.integrations.django.framework import AnyTask, InvalidTask, TaskError, TaskResult, TaskResultStatus

_LIVE = frozenset({"staged", "deferred", "set_aside", "published", "retrying", "snoozed", "suspended", "parked"})
_ENDS = {"cancelled": "JobCancelled", "expired": "JobExpired", "deduplicated": "EnqueueError", "dead": "JobFailed"}
"""The error that stands for an end without one of the body's own."""


class Row(NamedTuple):
    """What the statement `task_result` answers."""

    job: str
    queue: str
    state: str
    priority: int | None
    run_at: datetime | None
    staged_at: datetime | None
    ended_at: datetime | None
    input: str | None
    payload: Any
    codec: str | None
    failures: str | None
    attempts: int
    error: str | None
    result: Any
    result_codec: str | None


def result_of(app: DjangoApp, task: AnyTask, job_id: str, row: Row) -> TaskResult[..., Any]:
    """The result. What has not ended is ready: who runs a job, and since when, only Redis knows."""
    record = _record(app, row)
    arguments = record or _arguments(app, row)
    failures: list[dict[str, Any]] = json.loads(row.failures or "[]")
    began = record.get("started_at")
    found: TaskResult[..., Any] = TaskResult(
        task=_as_called(task, row),
        id=job_id,
        status=_status(row),
        enqueued_at=row.staged_at,
        started_at=datetime.fromisoformat(began) if began else _moment(failures, 0),
        last_attempted_at=datetime.fromisoformat(began) if began else _moment(failures, -1),
        finished_at=row.ended_at,
        args=arguments.get("args", []),
        kwargs=arguments.get("kwargs", {}),
        backend=task.backend,
        errors=_errors(row, failures),
        worker_ids=record.get("worker_ids", [UNKNOWN] * row.attempts),
    )
    object.__setattr__(found, "_return_value", record.get("return_value"))
    return found


def _status(row: Row) -> TaskResultStatus:
    if row.state in _LIVE:
        return TaskResultStatus.READY
    return TaskResultStatus.SUCCESSFUL if row.state == "done" else TaskResultStatus.FAILED


def _record(app: DjangoApp, row: Row) -> dict[str, Any]:
    if row.result is None or row.result_codec is None:
        return {}
    found: Any = app.codecs.decode(row.result_codec, bytes(row.result))
    return found if is_dict(found) else {}


def _arguments(app: DjangoApp, row: Row) -> dict[str, Any]:
    if row.input is None and row.payload is None:
        return {}
    try:
        found: Any = app.codecs.decode(row.codec or JSON, (row.input or "").encode() or bytes(row.payload))
    except RedisjobsError:  # written by a producer that has another key or codec
        return {}
    if isinstance(found, list):
        return {"args": found}
    args, kwargs = found.pop("args", []), found.pop("kwargs", {})
    return {"args": args, "kwargs": kwargs | found}


def _errors(row: Row, failures: list[dict[str, Any]]) -> list[TaskError]:
    errors = [
        TaskError(exception_class_path=_path(each["type"]), traceback=f"{each['traceback'].rstrip()}\n")
        for each in failures
    ]
    if not errors and row.state in _ENDS:
        why = row.error or f"the job ended as {row.state}"
        errors = [TaskError(exception_class_path=f"redisjobs.errors.{_ENDS[row.state]}", traceback=why)]
    return errors


def _path(kind: str) -> str:
    return kind if "." in kind else f"builtins.{kind}"


def _moment(failures: list[dict[str, Any]], place: int) -> datetime | None:
    return datetime.fromisoformat(failures[place]["at"]) if failures else None


def _as_called(task: AnyTask, row: Row) -> AnyTask:
    """The task with the options of this call, where they are still allowed."""
    priority = task.priority if row.priority is None else row.priority
    try:
        return replace(task, queue_name=row.queue, priority=priority)
    except InvalidTask:
        return task
