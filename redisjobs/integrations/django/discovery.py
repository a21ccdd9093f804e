"""Finds the tasks of a project: imports every module that may declare one."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from importlib import import_module
from typing import cast

from django.utils.module_loading import autodiscover_modules

from redisjobs.integrations.django.app import DjangoApp, apps
from redisjobs.integrations.django.framework import AnyTask, InvalidTask, Task

MODULES = ("tasks", "jobs")
"""Looked for in each installed app."""


def discover(app: DjangoApp) -> None:
    """Import `tasks` and `jobs` of each installed app, and what the option `imports` names.

    A task of another backend of ours may come through this one too, by `using(backend=…)`.
    """
    for name in MODULES:
        autodiscover_modules(name)
    for name in app.configuration.imports:
        import_module(name)
    for path in [path for other in apps() for path in other.jobs if path not in app.jobs]:
        found = loaded(path)
        if isinstance(found, Task):
            with contextlib.suppress(InvalidTask):  # a queue that this backend does not serve
                replace(cast("AnyTask", found), backend=app.alias)


def loaded(path: str) -> object:
    """What stands at this place, if its module is there already: what only a row names is never imported."""
    module, _, name = path.rpartition(".")
    return getattr(sys.modules.get(module), name, None)
