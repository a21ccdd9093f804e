"""Which of our statements it is, from its text."""

from __future__ import annotations

import re
from functools import cache

from redisjobs.base import statements

_SCHEMA = re.compile(rb'"[A-Za-z_][A-Za-z0-9_]*"(?=\.)')


def name_of(statement: bytes, station: str) -> str:
    """The name under which a station's file has this statement, for tables in any schema; empty where it has it not."""
    return _names(station).get(_SCHEMA.sub(statements.SCHEMA.encode(), statement), "")


@cache
def _names(station: str) -> dict[bytes, str]:
    sql = statements.load(station)
    return {sql[name]: name for name in sql}
