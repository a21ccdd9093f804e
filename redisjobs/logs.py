"""Log events: a stable name and structured fields for each, never a payload.

    event(log, logging.WARNING, "attempt.failed", job="mail", job_id="0198…", attempt=3)

writes the line `attempt.failed job=mail job_id=0198… attempt=3`, and puts `event` and `fields` on the record
for formatters that write JSON.
"""

from __future__ import annotations

import logging
from typing import Any


def event(log: logging.Logger, level: int, name: str, *, exc_info: BaseException | None = None, **fields: Any) -> None:
    """Write one event; where the level is off, it costs nothing but the call."""
    if not log.isEnabledFor(level):
        return
    text = " ".join((name, *(f"{key}={_shown(value)}" for key, value in fields.items() if value is not None)))
    log.log(level, "%s", text, exc_info=exc_info, extra={"event": name, "fields": fields}, stacklevel=2)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    return f'"{text}"' if " " in text else text
