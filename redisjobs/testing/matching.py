"""How a call differs from the one that was expected, in words."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from redisjobs.call import Call, Options, as_seconds
from redisjobs.errors import ArgumentsError
from redisjobs.job import Caller, Job
from redisjobs.policy import Columns, columns_of

_COLUMNS = {
    "queue": "queue", "idempotency_key": "idempotency_key", "priority": "priority", "max_attempts": "max_attempts",
    "run_at": "run_at", "enqueued_by": "enqueued_by", "tenant": "tenant_id", "lane": "lane", "share": "share_key",
}  # fmt: skip
"""Options that stand in a call as they were given."""
_DURATIONS = {"delay": "delay", "window": "key_window"}
_POLICIES = frozenset({"throttle", "debounce", "singleton"})
_NOTHING = object()


def check_names(job: Job[..., Any], arguments: dict[str, Any]) -> None:
    """Refuse names that no call of the job can have: such an expectation would never, or always, hold.

    Raises:
        ArgumentsError: the job has no such parameter.
    """
    parameters = _parameters(job)
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return
    for name in arguments:
        if name not in parameters:
            shown = ", ".join(parameters) or "none"
            raise ArgumentsError(f"job {job.name!r} has no parameter {name!r}: it has {shown}")


def differences(
    expected: Caller[..., Any], call: Call[Any], found: dict[str, Any], wanted: dict[str, Any], tolerance: timedelta
) -> list[str]:
    """What is otherwise: of the arguments that were wanted, and of the options that `expected` names.

    Args:
        found: the call's arguments by name.
        tolerance: by how much moments may differ.
    """
    return [*_arguments(expected.declared, found, wanted), *_options(expected.options, call, tolerance)]


def _arguments(job: Job[..., Any], found: dict[str, Any], wanted: dict[str, Any]) -> Iterator[str]:
    parameters = _parameters(job)
    for name, value in wanted.items():
        default = parameters[name].default if name in parameters else _NOTHING
        there = found.get(name, _NOTHING if default is inspect.Parameter.empty else default)
        if there is _NOTHING:
            yield f"{name} is not given"
        elif there != value:
            yield f"{name} is {there!r}, not {value!r}"


def _options(options: Options, call: Call[Any], tolerance: timedelta) -> Iterator[str]:
    for option in fields(options):
        wanted = getattr(options, option.name)
        if wanted is None:
            continue
        if option.name in _POLICIES and options.policy is not None:
            wanted = columns_of(options.policy)
        there = _option(option.name, wanted, call)
        if not _equal(wanted, there, tolerance):
            yield f"{option.name} is {_shown(there)}, not {_shown(wanted)}"


def _option(name: str, wanted: Any, call: Call[Any]) -> Any:
    if name in _COLUMNS:
        return getattr(call, _COLUMNS[name])
    if name in _POLICIES:
        return Columns(call.key_policy or "skip", call.key_window, call.key_wait, call.key_longest)
    if name in _DURATIONS:
        return getattr(call, _DURATIONS[name])
    if name == "headers":
        return None if call.headers is None else json.loads(call.headers)
    return call.expires_at if isinstance(wanted, datetime) else call.expires_in


def _equal(wanted: Any, there: Any, tolerance: timedelta) -> bool:
    if isinstance(wanted, datetime) and isinstance(there, datetime):
        return abs(wanted - there) <= tolerance
    if isinstance(wanted, timedelta):
        return bool(as_seconds(wanted) == there)
    return bool(wanted == there)


def _shown(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)


def _parameters(job: Job[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(job.signature.resolved.parameters)
