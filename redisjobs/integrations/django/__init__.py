"""Django: a backend for its Tasks that enqueues in the open transaction, a command, and pages in the admin.

    INSTALLED_APPS = [..., "redisjobs.integrations.django"]
    TASKS = {"default": {"BACKEND": "redisjobs.integrations.django.TasksBackend"}}

`task` is Django's own decorator (before Django 6.0 that of the package django-tasks) with the options of a job besides.
`app_of()` is the app behind a backend, for jobs that are declared with `@app.job(...)`.
"""

from redisjobs.integrations.django.app import DjangoApp, app_of
from redisjobs.integrations.django.backend import TasksBackend
from redisjobs.integrations.django.task import Task, task

__all__ = ["DjangoApp", "Task", "TasksBackend", "app_of", "task"]
