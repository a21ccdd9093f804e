"""Plain data as msgpack, with the types that JSON has not as extensions: exact in value and in type."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgpack

from redisjobs.base.plain import Tagged, zone_of


def pack(value: Any) -> bytes:
    """The msgpack of what `plain.is_json` did not refuse."""
    packed: bytes = msgpack.packb(value, default=_extend, strict_types=True)
    return packed


def unpack(packed: bytes) -> Any:
    """The value in `packed`. Raises anything for bytes that are none; runs no code that they name."""
    return msgpack.unpackb(packed, ext_hook=_restore, strict_map_key=False)


def _extend(value: Any) -> msgpack.ExtType:
    code, write = _WRITERS[type(value)]
    return msgpack.ExtType(code, write(value))


def _restore(code: int, data: bytes) -> Any:
    return _READERS[code](data)


def _write_int(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, signed=True)


def _read_int(data: bytes) -> int:
    return int.from_bytes(data, signed=True)


def _write_zone(zone: tzinfo | None) -> Any:
    if zone is None:
        return None
    found = zone_of(zone)
    return found if isinstance(found, str) else [found[0] // timedelta(microseconds=1), found[1]]


def _read_zone(zone: Any) -> tzinfo | None:
    if zone is None:
        return None
    if isinstance(zone, str):
        return ZoneInfo(zone)
    offset, name = timedelta(microseconds=zone[0]), zone[1]
    return timezone(offset) if name is None else timezone(offset, name)


def _write_clock(value: datetime | time) -> bytes:
    return pack([value.replace(tzinfo=None).isoformat(), value.fold, _write_zone(value.tzinfo)])


def _read_datetime(data: bytes) -> datetime:
    text, fold, zone = msgpack.unpackb(data)
    return datetime.fromisoformat(text).replace(fold=fold, tzinfo=_read_zone(zone))


def _read_time(data: bytes) -> time:
    text, fold, zone = msgpack.unpackb(data)
    return time.fromisoformat(text).replace(fold=fold, tzinfo=_read_zone(zone))


def _write_timedelta(value: timedelta) -> bytes:
    return pack([value.days, value.seconds, value.microseconds])


def _write_members(value: tuple[Any, ...] | set[Any] | frozenset[Any]) -> bytes:
    return pack(list(value))


# The codes are the format: a new type takes a new one, and none is ever given to another type.
_TYPES: tuple[tuple[int, type, Callable[[Any], bytes], Callable[[bytes], Any]], ...] = (
    (1, int, _write_int, _read_int),
    (2, datetime, _write_clock, _read_datetime),
    (3, date, lambda value: value.isoformat().encode(), lambda data: date.fromisoformat(data.decode())),
    (4, time, _write_clock, _read_time),
    (5, timedelta, _write_timedelta, lambda data: timedelta(*msgpack.unpackb(data))),
    (6, Decimal, lambda value: str(value).encode(), lambda data: Decimal(data.decode())),
    (7, UUID, lambda value: value.bytes, lambda data: UUID(bytes=data)),
    (8, tuple, _write_members, lambda data: tuple(unpack(data))),
    (9, set, _write_members, lambda data: set(unpack(data))),
    (10, frozenset, _write_members, lambda data: frozenset(unpack(data))),
    (11, Tagged, lambda value: pack([value.name, value.data]), lambda data: Tagged(*unpack(data))),
)
_WRITERS = {kind: (code, write) for code, kind, write, _ in _TYPES}
_READERS = {code: read for code, _, _, read in _TYPES}
