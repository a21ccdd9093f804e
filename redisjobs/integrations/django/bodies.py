"""A task's function as the body of a job: with its arguments as Django passes them, its context and its signals.

What the body returns is a small record, from which the result is told later: by then Postgres has forgotten the
arguments of what went well.
"""

from __future__ import annotations

import inspect
import os
import socket
import traceback
from collections.abc import Callable
from typing import Any

from django.utils import timezone

from redisjobs.context import Context
from redisjobs.integrations.django.framework import (
    AnyTask,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)

Body = Callable[..., Any]
IsLast = Callable[[Context, BaseException], bool]
UNKNOWN = "unknown"
"""The worker of an earlier attempt; nobody wrote its name down."""


def body_of(task: AnyTask, sender: type, is_last: IsLast) -> Body:
    """The body for a worker.

    It takes `{"args": […], "kwargs": {…}}`, or names alone, as a producer in another language writes them.

    Args:
        sender: of Django's signals.
        is_last: whether an attempt that ends in this error is the job's last.
    """
    made = _async_body if inspect.iscoroutinefunction(task.func) else _sync_body
    return _named_like(task.func, made(task, sender, is_last))


def _async_body(task: AnyTask, sender: type, is_last: IsLast) -> Body:
    async def body(
        context: Context, args: list[Any] | None = None, kwargs: dict[str, Any] | None = None, **named: Any
    ) -> dict[str, Any]:
        run = _Run(task, context, args or [], (kwargs or {}) | named)
        await task_started.asend(sender=sender, task_result=run.result)
        try:
            record = run.succeeded(await task.func(*run.arguments, **run.result.kwargs))
        except (Exception, SystemExit) as error:
            if is_last(context, error):
                run.failed(error)
                await task_finished.asend(sender=sender, task_result=run.result)
            raise
        await task_finished.asend(sender=sender, task_result=run.result)
        return record

    return body


def _sync_body(task: AnyTask, sender: type, is_last: IsLast) -> Body:
    def body(
        context: Context, args: list[Any] | None = None, kwargs: dict[str, Any] | None = None, **named: Any
    ) -> dict[str, Any]:
        run = _Run(task, context, args or [], (kwargs or {}) | named)
        task_started.send(sender=sender, task_result=run.result)
        try:
            record = run.succeeded(task.func(*run.arguments, **run.result.kwargs))
        except (Exception, SystemExit) as error:
            if is_last(context, error):
                run.failed(error)
                task_finished.send(sender=sender, task_result=run.result)
            raise
        task_finished.send(sender=sender, task_result=run.result)
        return record

    return body


class _Run:
    """One attempt, as Django sees it.

    Attributes:
        arguments: what the function is called with by position.
    """

    def __init__(self, task: AnyTask, context: Context, args: list[Any], kwargs: dict[str, Any]) -> None:
        now = timezone.now()
        self.result: TaskResult[..., Any] = TaskResult(
            task=task,
            id=context.job_id,
            status=TaskResultStatus.RUNNING,
            enqueued_at=context.staged_at,
            started_at=now,
            last_attempted_at=now,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=task.backend,
            errors=[],
            worker_ids=[UNKNOWN] * (context.attempt - 1) + [f"{socket.gethostname()}-{os.getpid()}"],
        )
        before = [TaskContext(task_result=self.result)] if task.takes_context else []
        self.arguments = [*before, *self.result.args]

    def succeeded(self, value: Any) -> dict[str, Any]:
        """Note what it returned; the record of it.

        Raises:
            TypeError: no JSON can carry it.
        """
        plain = normalize_json(value)
        self._note(_return_value=plain, finished_at=timezone.now(), status=TaskResultStatus.SUCCESSFUL)
        found = self.result
        began = found.started_at and found.started_at.isoformat()
        return {
            "args": found.args, "kwargs": found.kwargs, "started_at": began, "worker_ids": found.worker_ids,
            "return_value": plain,
        }  # fmt: skip

    def failed(self, error: BaseException) -> None:
        """Note what it raised."""
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        told = "".join(traceback.format_exception(error))
        self.result.errors.append(TaskError(exception_class_path=kind, traceback=told))
        self._note(finished_at=timezone.now(), status=TaskResultStatus.FAILED)

    def _note(self, **changes: Any) -> None:
        for name, value in changes.items():
            object.__setattr__(self.result, name, value)  # Django's results are frozen, and are changed so by Django


def _named_like(function: Callable[..., Any], body: Body) -> Body:
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(body, name, getattr(function, name))
    return body
