"""One statement in the forms that drivers other than psycopg 3 read. Pure; the text is worked out once."""

from __future__ import annotations

import re
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from redisjobs.base.plain import is_list
from redisjobs.drivers.driver import Statement

_PARAMETER = re.compile(r"%\((\w+)\)s(?:::(\w+)(\[\])?)?|%%")
_AS_TEXT = frozenset({"uuid", "json", "timestamptz"})
"""Types that a program may have given codecs of its own, such as one that makes JSON of every value."""


def numbered(statement: Statement) -> tuple[str, tuple[Any, ...]]:
    """With `$1` for its parameters, as asyncpg reads it."""
    text, names = _numbered(statement[0])
    return text, tuple([plain(statement[1][name]) for name in names])


def named(statement: Statement) -> tuple[str, dict[str, Any]]:
    """With `%(name)s` still, and with values that every driver can adapt."""
    return statement[0].decode(), {name: plain(value) for name, value in statement[1].items()}


def plain(value: Any) -> Any:
    """The value as Postgres reads it from text, where its own type needs an adapter."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if is_list(value):
        return [plain(each) for each in value]
    return value


@cache
def _numbered(statement: bytes) -> tuple[str, tuple[str, ...]]:
    names: list[str] = []

    def place(found: re.Match[str]) -> str:
        name, kind, array = found[1], found[2], found[3] or ""
        if name is None:
            return "%"
        if name not in names:
            names.append(name)
        cast_to = f"::{kind}{array}" if kind else ""
        as_text = f"::text{array}" if kind in _AS_TEXT else ""
        return f"${names.index(name) + 1}{as_text}{cast_to}"

    text = _PARAMETER.sub(place, statement.decode())
    return text, tuple(names)
