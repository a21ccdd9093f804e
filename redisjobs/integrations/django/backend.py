"""The backend for Django's Tasks: enqueuing is a row in the transaction that is open on the database of the outbox."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from django.apps import apps
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils import timezone

from redisjobs.base import statements
from redisjobs.call import Options, check_queue
from redisjobs.context import Context
from redisjobs.declaration import JobOptions
from redisjobs.drivers.django import told
from redisjobs.drivers.forms import named
from redisjobs.errors import ConfigurationError, OptionError
from redisjobs.integrations.django import framework
from redisjobs.integrations.django.app import DjangoApp, app_of
from redisjobs.integrations.django.bodies import body_of
from redisjobs.integrations.django.discovery import discover, loaded
from redisjobs.integrations.django.framework import InvalidTask, TaskResult, TaskResultDoesNotExist, TaskResultStatus
from redisjobs.integrations.django.results import Row, result_of
from redisjobs.integrations.django.task import Task
from redisjobs.job import Job

statements.load("django").require("task_result", "cancel_jobs", "redrive_jobs")


class TasksBackend(framework.BaseTaskBackend):
    """`task.enqueue(...)` inside of `transaction.atomic()` enqueues with its commit, savepoints included.

    Its OPTIONS are those of `Configuration`. `on_commit` is not needed: the row is part of the transaction. Outside
    of one it commits by itself.
    """

    task_class = Task
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        try:
            self.app: DjangoApp = app_of(alias)
        except ConfigurationError as error:
            raise ImproperlyConfigured(str(error)) from error

    def validate_task(self, task: framework.AnyTask) -> None:
        """Check what the task says of itself; its function is a job of the app from then on.

        Raises:
            InvalidTask: it cannot be run.
        """
        super().validate_task(task)
        try:
            check_queue(task.queue_name)
            self._job(task)
        except ConfigurationError as error:
            raise InvalidTask(str(error)) from error

    def enqueue(  # type: ignore[override]  # types of arguments end here
        self, task: framework.AnyTask, args: Iterable[Any], kwargs: dict[str, Any]
    ) -> TaskResult[..., Any]:
        """Stage a call in the open transaction; nothing is committed here.

        Raises:
            InvalidTask: the task cannot be run, or an option of its call is out of its range.
            TypeError: the arguments do not fit the function, or are no JSON.
            EnqueueError: Postgres refuses the row.
        """
        self.validate_task(task)
        result: TaskResult[..., Any] = TaskResult(
            task=task, id="", status=TaskResultStatus.READY, enqueued_at=timezone.now(), started_at=None,
            last_attempted_at=None, finished_at=None, args=list(args), kwargs=kwargs, backend=self.alias, errors=[],
            worker_ids=[],
        )  # fmt: skip
        _fit(task, result.args, result.kwargs)
        call = self._job(task).make_call(_options(task), (), {"args": result.args, "kwargs": result.kwargs})
        handle = self.app.enqueue_one(connections[self.app.configuration.database], call)
        object.__setattr__(result, "id", handle.id)
        framework.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult[..., Any]:
        """What Postgres knows of a task; one that has not ended is ready.

        Raises:
            TaskResultDoesNotExist: it never was, its time is over, or it is no task of this backend.
        """
        try:
            job_id = str(UUID(str(result_id)))
        except ValueError:
            raise TaskResultDoesNotExist(result_id) from None
        statement = (statements.load("django", self.app.settings.schema).task_result, {"id": job_id})
        with told(), connections[self.app.configuration.database].cursor() as cursor:
            cursor.execute(*named(statement))
            found = cursor.fetchone()
        if found is None:
            raise TaskResultDoesNotExist(result_id)
        row = Row(*found)
        return result_of(self.app, self._task(row.job, result_id), job_id, row)

    def check(self, **kwargs: Any) -> list[Any]:
        """What `manage.py check` says of the backend."""
        found = list(super().check(**kwargs))
        if not apps.is_installed("redisjobs.integrations.django"):
            found.append(
                checks.Warning(
                    "The tasks backend of redisjobs is used without its app.",
                    hint="Add 'redisjobs.integrations.django' to INSTALLED_APPS: it has the command for workers.",
                    id="redisjobs.W001",
                )
            )
        return found

    def _task(self, path: str, result_id: str) -> framework.AnyTask:
        found = loaded(path)
        if found is None:
            discover(self.app)
            found = loaded(path)
        if not isinstance(found, framework.Task):
            raise TaskResultDoesNotExist(result_id)
        return replace(cast("framework.AnyTask", found), backend=self.alias)

    def _job(self, task: framework.AnyTask) -> Job[Any, Any]:
        known = self.app.jobs.get(task.module_path)
        if known is not None:
            return known
        sender, app = type(self), self.app

        def is_last(context: Context, error: BaseException) -> bool:
            return context.attempt >= context.max_attempts or not app.find(task.module_path).retries(error)

        return app.declare(body_of(task, sender, is_last), self._declared(task))

    def _declared(self, task: framework.AnyTask) -> JobOptions:
        defaults = self.app.configuration
        options = JobOptions(
            name=task.module_path, queue=task.queue_name, priority=task.priority, max_attempts=defaults.max_attempts,
            result_ttl=defaults.result_ttl,
        )  # fmt: skip
        return options | task.declared() if isinstance(task, Task) else options


def _options(task: framework.AnyTask) -> Options:
    own = task.options() if isinstance(task, Task) else {}
    try:
        return Options(queue=task.queue_name, priority=task.priority, run_at=_aware(task.run_after), **own)
    except OptionError as error:
        raise InvalidTask(str(error)) from error


def _aware(moment: datetime | None) -> datetime | None:
    return timezone.make_aware(moment) if moment is not None and timezone.is_naive(moment) else moment


def _fit(task: framework.AnyTask, args: list[Any], kwargs: dict[str, Any]) -> None:
    given = [None, *args] if task.takes_context else args
    try:
        inspect.signature(task.func).bind(*given, **kwargs)
    except TypeError as error:
        raise TypeError(f"task {task.module_path}: {error}") from None
