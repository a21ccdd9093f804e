"""The body of a delivery, as Standard Webhooks recommends it: type, timestamp, data; the same at every attempt."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

from redisjobs.base.ids import made_at, parse_id
from redisjobs.context import Context


def message(ctx: Context[Any], kind: str, data: Any) -> bytes:
    """The bytes that are signed and sent.

    `timestamp` is the moment at which the call was made: its id has it, and keeps it through every retry and redrive.
    What JSON has no form for is sent as text: moments as ISO 8601, UUID and Decimal as they are written, bytes as
    base64.

    Raises:
        TypeError, ValueError: the data has something else in it.
    """
    document = {"type": kind, "timestamp": _written(_occurred(ctx)), "data": data}
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_as_text).encode()


def _occurred(ctx: Context[Any]) -> datetime:
    return made_at(parse_id(ctx.job_id)) or ctx.staged_at or datetime.now(UTC)


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _as_text(value: object) -> object:
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (set, frozenset)):
        return list(cast("set[object]", value))
    raise TypeError(f"a {type(value).__name__} cannot be sent as JSON")
