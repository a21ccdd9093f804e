"""What a function must be like to be the body of a job, checked where it is declared."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from redisjobs.base.annotations import annotations_of
from redisjobs.errors import ConfigurationError

_CONTEXT_OF = re.compile(r"(?:\w+\.)*Context\[(?P<state>.+)\]")
_NO_STATE = re.compile(r"\b(?:None|Any|object|Optional)\b")


def check_body(name: str, function: Callable[..., Any], *, process: bool) -> None:
    """Raises ConfigurationError for a function that no worker could run as this job."""
    _check_function(name, function)
    if process:
        _check_for_process(name, function)


def _check_function(name: str, function: object) -> None:
    kind = type(function).__name__
    if isinstance(function, functools.partial) or not inspect.isroutine(function):  # a routine since Python 3.14
        raise ConfigurationError(f"job {name!r}: @app.job declares a function, not a {kind}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"job {name!r}: a generator yields to nobody here: return one value, or enqueue more jobs"
        )


def _check_for_process(name: str, function: Callable[..., Any]) -> None:
    if inspect.iscoroutinefunction(function):
        raise ConfigurationError(
            f"job {name!r}: process=True runs a plain function in a process of its own, and this one is async: "
            "write it as `def`, or leave process=True out"
        )
    qualname = getattr(function, "__qualname__", "<locals>")
    if "<" in qualname:
        raise ConfigurationError(
            f"job {name!r}: process=True needs a function that another process can import, and {qualname} is made "
            "inside of another one: declare it at the top of its module"
        )
    if (asked := _wanted_state(function)) is not None:
        raise ConfigurationError(
            f"job {name!r}: process=True and {asked}: the state stays with the worker, and ctx.state is None "
            "in a process of its own: write `ctx: Context`, and open what the body needs in its module"
        )


def _wanted_state(function: Callable[..., Any]) -> str | None:
    """The annotation of the context, where it says that there is a state; as written, for names may come later."""
    annotation = next(iter(annotations_of(inspect.unwrap(function)).values()), None)
    annotation = getattr(annotation, "__forward_arg__", annotation)
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    found = _CONTEXT_OF.fullmatch(text)
    return None if found is None or _NO_STATE.search(found["state"]) else f"Context[{found['state']}]"
