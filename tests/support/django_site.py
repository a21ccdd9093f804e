"""A Django project inside of the test's process. Import it before anything that declares a task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import django
from django.conf import settings
from django.core.signals import setting_changed
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

BACKEND = "redisjobs.integrations.django.TasksBackend"
IMPORTS = ("tests.support.django_tasks",)


def set_up() -> None:
    """Set Django up, once for the process; its database has no name yet."""
    if settings.configured:
        return
    engine = "django.db.backends.postgresql"
    settings.configure(
        SECRET_KEY="none",
        USE_TZ=True,
        ROOT_URLCONF="tests.support.django_site",
        ALLOWED_HOSTS=["*"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        DATABASES={
            "default": {"ENGINE": engine, "NAME": "not_yet"},
            "jobs": {"ENGINE": engine, "NAME": "not_yet"},
            "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        },
        INSTALLED_APPS=[
            "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.messages",
            "django.contrib.sessions", "redisjobs.integrations.django",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
        TASKS={
            "default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": {"imports": IMPORTS}},
            "elsewhere": {"BACKEND": BACKEND, "QUEUES": ["default"], "OPTIONS": {"database": "jobs"}},
        },
    )  # fmt: skip
    django.setup()


def use(alias: str, database_url: str) -> None:
    """Let the database of this alias be another one."""
    given: dict[str, Any] = conninfo_to_dict(database_url)
    connections[alias].close()
    described = {
        "NAME": given["dbname"], "USER": given.get("user", ""), "PASSWORD": given.get("password", ""),
        "HOST": given.get("host", ""), "PORT": given.get("port", ""),
    }  # fmt: skip
    connections.settings[alias].update(described)
    connections[alias].settings_dict.update(described)


def use_stores(database_url: str, redis_url: str) -> None:
    """Let every backend's app be where these stores are."""
    from redisjobs.integrations.django import app_of  # noqa: PLC0415 - it needs the settings

    for alias in ("default", "elsewhere"):
        app = app_of(alias)
        app.settings = replace(app.settings, database_url=database_url, redis_url=redis_url)


def forget_backends() -> None:
    """Make backends and apps anew, as after a change of TASKS."""
    setting_changed.send(sender=None, setting="TASKS", value=None, enter=True)


def urlpatterns_of() -> list[Any]:
    from django.contrib import admin  # noqa: PLC0415 - its models need the settings
    from django.urls import path  # noqa: PLC0415 - likewise

    return [path("admin/", admin.site.urls)]


def __getattr__(name: str) -> Any:
    if name == "urlpatterns":  # read when the first request comes
        return urlpatterns_of()
    raise AttributeError(name)
