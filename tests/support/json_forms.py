"""How a program in another language sends what Python enqueues: plain data as JSON has it, and small changes of it."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from redisjobs.base.plain import Tagged

ODD: list[Any] = [
    None, True, 0, -1, 7, 2**64, 0.5, 1e300, "", "x", "red", "1.10", "NaN", "1e5", "2026-01-02", "2026-01-02T03:04:05Z",
    "2026-13-02", "03:04", "03:04:05.5+01:00", "25:00", "YWJj", "YW", "not base64!",
    "00000000-0000-0000-0000-000000000001",
    [], {}, [1], {"x": 1}, "https://example.org/", "\0",
]  # fmt: skip
"""Values to put in the place of others."""


def as_json(data: Any) -> Any:
    """The JSON form of plain data."""
    match data:
        case Tagged():
            return as_json(data.data)
        case dict():
            return {str(key if isinstance(key, str) else as_json(key)): as_json(value) for key, value in data.items()}
        case list() | tuple() | set() | frozenset():
            return [as_json(each) for each in data]
        case bytes():
            return base64.b64encode(data).decode()
        case timedelta():
            return data.total_seconds()
        case datetime() | date() | time():
            return data.isoformat()
        case Decimal() | UUID():
            return str(data)
        case _:
            return data


def places(data: Any, *way: Any) -> Iterator[tuple[Any, ...]]:
    """The way to every value in it, itself included."""
    yield way
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in pairs:
        yield from places(value, *way, key)


def changed(data: Any, way: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at this place."""
    if not way:
        return value
    made = copy.deepcopy(data)
    inner = made
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = value
    return made


def without(data: Any, way: tuple[Any, ...]) -> Any:
    """A copy without this place."""
    made = copy.deepcopy(data)
    inner = made
    for key in way[:-1]:
        inner = inner[key]
    del inner[way[-1]]
    return made
