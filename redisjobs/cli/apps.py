"""Finds the app that a command is to work for."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

from redisjobs.app import App
from redisjobs.cli.process import Stopped
from redisjobs.errors import ConfigurationError


def load_app(place: str) -> App:
    """The app at `module:name`, or the only one of a module; the current folder is searched first.

    Raises:
        ConfigurationError: there is none; tells what was looked for, and what to do.
    """
    module_name, _, name = place.partition(":")
    if not module_name.strip() or place.endswith((".py", "/")) or "/" in place:
        raise ConfigurationError(f"--app ({place!r}) is no place of an app: pass module:name, such as shop.jobs:app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _import(module_name, here)
    return _named(module, module_name, name) if name else _only(module, module_name)


def _import(name: str, here: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"--app: no module {error.name!r} was found in {here} or in the packages of {sys.executable}: run this "
                "in the folder that holds it, set PYTHONPATH, or correct the name"
            ) from None
        raise ConfigurationError(_broken(name, error)) from error
    except Stopped:
        raise
    except (Exception, SystemExit) as error:  # the module's own code: whatever it raises is told without a traceback
        raise ConfigurationError(_broken(name, error)) from error


def _broken(name: str, error: Exception | SystemExit) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    at = f", at {frames[-1].filename}:{frames[-1].lineno}" if len(frames) > 1 else ""
    if isinstance(error, SyntaxError):
        at = f", at {error.filename}:{error.lineno}"
    return (
        f"--app: importing {name!r} raised {type(error).__name__}: {error}{at}; "
        f"`python -c 'import {name}'` shows its traceback"
    )


def _is_app(value: object) -> TypeGuard[App]:
    return isinstance(value, App)


def _named(module: ModuleType, module_name: str, name: str) -> App:
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"--app: module {module_name!r} has no {name!r}: {_there(module, module_name)}")
        found = getattr(found, part)
    if not _is_app(found):
        raise ConfigurationError(
            f"--app: {module_name}:{name} is a {type(found).__name__} and no redisjobs.App: "
            f"{_there(module, module_name)}"
        )
    return found


def _only(module: ModuleType, module_name: str) -> App:
    apps = {id(value): value for value in vars(module).values() if _is_app(value)}
    if len(apps) != 1:
        raise ConfigurationError(f"--app ({module_name!r}) names no app: {_there(module, module_name)}")
    return next(iter(apps.values()))


def _there(module: ModuleType, module_name: str) -> str:
    names = [name for name, value in vars(module).items() if _is_app(value)]
    if names:
        return f"pass --app {' or '.join(f'{module_name}:{name}' for name in names)}"
    return "it holds no App; write `app = redisjobs.App()` in it, or name the module that does"
