"""The connections that a caller may enqueue on, named in one place."""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg

Sync: TypeAlias = "psycopg.Connection[Any] | psycopg.Cursor[Any]"
Async: TypeAlias = "psycopg.AsyncConnection[Any] | psycopg.AsyncCursor[Any]"
