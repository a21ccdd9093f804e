"""The app behind a backend: its bodies run with Django's connections cared for, as those of a request do."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.core.signals import setting_changed
from django.db import close_old_connections, connections

from redisjobs.app import App
from redisjobs.context import current
from redisjobs.declaration import JobOptions
from redisjobs.integrations.django.configuration import Configuration, configured, first_alias
from redisjobs.job import Job


class DjangoApp(App):
    """An app whose database is one of the project's.

    What a body does with the ORM goes over connections of its own thread; those that are broken or older than
    CONN_MAX_AGE are closed before and after it.
    """

    def __init__(self, configuration: Configuration, alias: str) -> None:
        super().__init__(
            "django",
            database_url=configuration.database_url(),
            redis_url=configuration.redis_url,
            schema=configuration.schema,
            prefix=configuration.prefix,
        )
        self.configuration = configuration
        self.alias = alias

    def declare(self, function: Callable[..., Any], options: JobOptions) -> Job[Any, Any]:
        """What `job` does, for a function whose types do not matter."""
        cared = _cared_for_async if inspect.iscoroutinefunction(function) else _cared_for
        return super().declare(cared(function), options)


_apps: dict[str, DjangoApp] = {}
_lock = threading.Lock()


def app_of(alias: str | None = None) -> DjangoApp:
    """The app of the tasks backend with this alias; by default of the first in TASKS that is ours.

    One for the process: Django makes a backend anew in each thread.
    """
    name = alias or first_alias()
    with _lock:
        if name not in _apps:
            _apps[name] = DjangoApp(configured(name), name)
        return _apps[name]


def apps() -> list[DjangoApp]:
    """The apps of all backends that were used here."""
    with _lock:
        return list(_apps.values())


def _forget(*, setting: str, **_: Any) -> None:
    if setting in {"TASKS", "DATABASES"}:  # a test overrides them
        with _lock:
            _apps.clear()


setting_changed.connect(_forget, dispatch_uid="redisjobs.integrations.django.app")


def _cared_for(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def body(*args: Any, **kwargs: Any) -> Any:
        if current() is None:  # called here and now, in somebody's request
            return function(*args, **kwargs)
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    return body


def _cared_for_async(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def body(*args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return await function(*args, **kwargs)
        async with ThreadSensitiveContext() as context:  # a thread for this attempt's ORM calls, like for a request's
            try:
                return await function(*args, **kwargs)
            finally:
                if context in SyncToAsync.context_to_thread_executor:
                    await sync_to_async(connections.close_all)()

    return body
