"""Logs of the command: to stderr, as text for people or as JSON for machines; never a payload."""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

from redisjobs.cli.plain_text import printable
from redisjobs.context import current
from redisjobs.tracing import trace_id

_COLOURS = {"DEBUG": "2", "INFO": "36", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}
_WORKER_PARTS = frozenset(
    {"worker", "attempt", "runner", "reader", "batcher", "heartbeat", "lane", "upkeep", "drain", "sweeper"}
)
_LIBRARIES = frozenset({"psycopg", "redis", "asyncio"})
_RELAY_PARTS = frozenset({"relay", "publisher", "settler", "recovery", "leases", "memory", "wakeup"})


def set_up(level: str, form: str, process: int | None = None) -> None:
    """Have the root logger write to stderr; what was set up before is replaced.

    Args:
        process: which one of several writes; every line carries it.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json(process) if form.lower() == "json" else Text(process, colours=sys.stderr.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("asyncio", "psycopg.pool"):  # below warnings they tell of themselves only
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))


def role_of(record: logging.LogRecord) -> str:
    """Which part of redisjobs speaks, or `app`."""
    package, _, rest = record.name.partition(".")
    if package != "redisjobs":
        return package if package in _LIBRARIES else "app"
    fields: dict[str, Any] = getattr(record, "fields", None) or {}
    part = str(fields.get("part", "")).partition(" ")[0] if rest == "service" else rest.partition(".")[0]
    if part in _RELAY_PARTS:
        return "relay"
    return "worker" if part in _WORKER_PARTS else part or "redisjobs"


def _of_attempt(record: logging.LogRecord) -> dict[str, Any]:
    """Which job a body speaks for, where one writes the line and does not say so itself."""
    context = current()
    if context is None or hasattr(record, "event"):
        return {}
    names = {"job": context.job, "job_id": context.job_id, "queue": context.queue, "attempt": context.attempt}
    more = {"tenant_id": context.tenant_id, "trace_id": trace_id(context.traceparent)}
    return names | {name: value for name, value in more.items() if value is not None}


class Text(logging.Formatter):
    """`12:34:56.789 INFO    worker  job.started …`, one line an event, and nothing that a terminal would obey.

    Args:
        colours: whether the terminal shows them.
    """

    def __init__(self, process: int | None = None, *, colours: bool) -> None:
        super().__init__()
        self._process = "" if process is None else f"[{process}]"
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """One record as a line, and a traceback below it where there is one."""
        at = datetime.fromtimestamp(record.created).astimezone()
        level = f"{record.levelname:<7}"
        if self._colours:
            level = f"\x1b[{_COLOURS.get(record.levelname, '0')}m{level}\x1b[0m"
        attempt = "".join(f" {name}={value}" for name, value in _of_attempt(record).items())
        role = role_of(record) + self._process
        line = f"{at:%H:%M:%S}.{int(record.msecs):03} {level} {role:<7} {_said(record)}{printable(attempt)}"
        return f"{line}\n{printable(_trace(record))}" if record.exc_info else line


class Json(logging.Formatter):
    """One object a line: time, level, logger, event or message, and the event's fields."""

    def __init__(self, process: int | None = None) -> None:
        super().__init__()
        self._process = {} if process is None else {"process": process}

    def format(self, record: logging.LogRecord) -> str:
        """One record as a line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": at, "level": record.levelname.lower(), "logger": record.name}
        event = getattr(record, "event", None)
        fields: dict[str, Any] = getattr(record, "fields", None) or {}
        line |= {"event": event} if event else {"message": record.getMessage()}
        told = {name: value for name, value in fields.items() if value is not None}
        line = {**self._process, **told, **_of_attempt(record), **line}
        if record.exc_info:
            line["exception"] = _trace(record)
        return json.dumps(line, default=str, ensure_ascii=False)


def _said(record: logging.LogRecord) -> str:
    """The message; only what a body or its libraries write may have several lines."""
    text = record.getMessage()
    ours = hasattr(record, "event") or role_of(record) in _LIBRARIES
    return printable(re.sub(r"\s*[\r\n]\s*", " ", text) if ours else text)


def _trace(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    return "".join(traceback.format_exception(error)).rstrip() if error else ""
