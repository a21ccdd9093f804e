"""Plain data as msgpack, with the types that JSON has not as extensions: exact in value and in type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    return msgpack.unpackb(packed, ext_hook=_restore, list_hook=_restore_list, strict_map_key=False)


class _Mark:
    """Stands first in a list that is the content of another container."""

    __slots__ = ("build",)

    def __init__(self, build: Callable[[list[Any]], Any]) -> None:
        self.build = build


def _extend(value: Any) -> Any:
    code, write = _WRITERS[type(value)]
    written = write(value)
    return [msgpack.ExtType(code, b""), *written] if code in _MARKS else msgpack.ExtType(code, written)


def _restore(code: int, data: bytes) -> Any:
    return _MARKS[code] if code in _MARKS else _READERS[code](data)


def _restore_list(items: list[Any]) -> Any:
    if items and type(items[0]) is _Mark:
        return items[0].build(items[1:])
    return items


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


# The codes are the format: a new type takes a new one, and none is ever given to another type.
_LEAVES: tuple[tuple[int, type, Callable[[Any], bytes], Callable[[bytes], Any]], ...] = (
    (1, int, _write_int, _read_int),
    (2, datetime, _write_clock, _read_datetime),
    (3, date, lambda value: value.isoformat().encode(), lambda data: date.fromisoformat(data.decode())),
    (4, time, _write_clock, _read_time),
    (5, timedelta, _write_timedelta, lambda data: timedelta(*msgpack.unpackb(data))),
    (6, Decimal, lambda value: str(value).encode(), lambda data: Decimal(data.decode())),
    (7, UUID, lambda value: value.bytes, lambda data: UUID(bytes=data)),
)
# Containers travel as a list behind a mark, not as bytes inside bytes: nesting then costs a reader no stack.
_CONTAINERS: tuple[tuple[int, type, Callable[[Any], Iterable[Any]], Callable[[list[Any]], Any]], ...] = (
    (8, tuple, iter, tuple),
    (9, set, iter, set),
    (10, frozenset, iter, frozenset),
    (11, Tagged, lambda value: (value.name, value.data), lambda items: Tagged(*items)),
)
_WRITERS: dict[type, tuple[int, Callable[[Any], Any]]] = {
    kind: (code, write) for code, kind, write, _ in (*_LEAVES, *_CONTAINERS)
}
_READERS = {code: read for code, _, _, read in _LEAVES}
_MARKS = {code: _Mark(build) for code, _, _, build in _CONTAINERS}
