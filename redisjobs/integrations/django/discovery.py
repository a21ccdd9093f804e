"""Finds the tasks of a project: imports every module that may declare one."""

from __future__ import annotations

from importlib import import_module

from django.utils.module_loading import autodiscover_modules

from redisjobs.integrations.django.app import DjangoApp

MODULES = ("tasks", "jobs")
"""Looked for in each installed app."""


def discover(app: DjangoApp) -> None:
    """Import `tasks` and `jobs` of each installed app, and what the option `imports` names."""
    for name in MODULES:
        autodiscover_modules(name)
    for name in app.configuration.imports:
        import_module(name)
