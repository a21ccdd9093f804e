"""Plain data: what can travel exactly, what of it JSON carries, and where in a value stands what cannot."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any, TypeGuard
from uuid import UUID
from zoneinfo import ZoneInfo

from redisjobs.errors import EncodeError

DEEPEST = 200
"""Levels of nesting; deeper is a cycle, or cannot be read everywhere."""

_JSON_INT_BITS = 2_000  # far below the digits that Python reads as an int at all
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Tagged:
    """Plain data with the name of the type it was made from, where the data alone would not tell."""

    name: str
    data: Any


class Refusal(Exception):
    """A value cannot travel. Collects the way to it, from the inside out, as it passes through containers."""

    def __init__(self, why: str, *way: str) -> None:
        super().__init__(why)
        self.why = why
        self.way = list(way)

    def inside(self, part: str) -> Refusal:
        """The same, seen from one level further out."""
        self.way.append(part)
        return self

    def as_error(self, root: str = "") -> EncodeError:
        """The error for the caller, with the path such as `order.lines[3].price`."""
        way = self.way[::-1]
        if len(way) > 12:
            way = [*way[:6], "…", *way[-6:]]
        path = (root + "".join(way)).lstrip(".")
        return EncodeError(path or "the value", self.why)


def is_json(value: object, depth: int = 0) -> bool:
    """Whether JSON carries this value exactly; if not, msgpack does.

    Raises:
        Refusal: neither does.
    """
    check = _CHECKS.get(type(value))
    if check is None:
        raise _unknown(value)
    if depth > DEEPEST:
        raise Refusal(f"is nested deeper than {DEEPEST} levels, or contains itself: pass flatter data")
    return check(value, depth)


def kind_of(value: object) -> type[Any]:
    """Its very type, whatever it says itself."""
    return type(value)


def is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    """Whether it is a dict and not a kind of it."""
    return type(value) is dict


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether it is a list and not a kind of it."""
    return type(value) is list


def write_json(value: Any, name: str) -> str:
    """The JSON text of plain JSON data.

    Raises:
        EncodeError: JSON does not carry the value exactly, or a text in it has a NUL character.
    """
    try:
        exact = is_json(value)
    except Refusal as refusal:
        raise refusal.as_error(name) from None
    if not exact:
        raise EncodeError(name, "must be plain JSON: texts without NUL, numbers, booleans, None, lists and dicts")
    return to_json(value)


def to_json(value: Any) -> str:
    """The JSON text of what `is_json` said yes to."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))


def key_part(key: object) -> str:
    """How a key is written in a path."""
    if isinstance(key, str) and key.isidentifier() and len(key) <= _SHOWN:
        return f".{key}"
    shown = repr(key) if isinstance(key, (str, int, float, bool)) else type(key).__name__
    shown = shown.encode("ascii", "backslashreplace").decode()
    return f"[{shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'}]"


def refuse_unwritable(text: str) -> None:
    """Raise for a text that a text column cannot hold.

    Raises:
        EncodeError: it has a NUL character or a lone surrogate.
    """
    try:
        if not _text(text, 0):
            raise EncodeError("the text", "has a NUL character, which no database can store")
    except Refusal as refusal:
        raise refusal.as_error("the text") from None


def _unknown(value: object) -> Refusal:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    for plain in (str, int, float, dict, list, tuple, bytes, datetime, date, timedelta, Decimal, UUID):
        if isinstance(value, plain):
            hint = f"pass a plain {plain.__name__}, or annotate the parameter with a class that can come back"
            return Refusal(f"is a {name} and would come back as plain {plain.__name__}: {hint}")
    return Refusal(
        f"is a {name}, and nothing says how to bring it back: annotate the parameter with its dataclass, "
        "enum, TypedDict, NamedTuple or pydantic model, or pass plain data"
    )


def _always(_value: object, _depth: int) -> bool:
    return True


def _never(_value: object, _depth: int) -> bool:
    return False


def _int(value: int, _depth: int) -> bool:
    return value.bit_length() <= _JSON_INT_BITS


def _float(value: float, _depth: int) -> bool:
    if not math.isfinite(value):
        raise Refusal("is not a finite number: pass None, or a text that both sides understand")
    return True


def _decimal(value: Decimal, _depth: int) -> bool:
    if not value.is_finite():
        raise Refusal("is not a finite Decimal: pass None, or a text that both sides understand")
    return False


def _text(value: str, _depth: int) -> bool:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Refusal("has a lone surrogate, which is no character: decode with errors='replace'") from None
    return "\0" not in value


def _list(values: Iterable[Any], depth: int) -> bool:
    json_too, index = True, 0
    try:
        for index, value in enumerate(values):  # noqa: B007  # the index is for the path of a refusal
            json_too &= is_json(value, depth + 1)
    except Refusal as refusal:
        raise refusal.inside(f"[{index}]") from None
    return json_too


def _sequence(values: Iterable[Any], depth: int) -> bool:
    _list(values, depth)
    return False


def _dict(values: dict[Any, Any], depth: int) -> bool:
    json_too, key = True, None
    try:
        for key, value in values.items():
            json_too &= is_json(key, depth + 1) and type(key) is str
            json_too &= is_json(value, depth + 1)
    except Refusal as refusal:
        raise refusal.inside(key_part(key)) from None
    return json_too


def _tagged(value: Tagged, depth: int) -> bool:
    is_json(value.data, depth + 1)
    return False


def _zoned(value: datetime | time, _depth: int) -> bool:
    if value.tzinfo is not None:
        zone_of(value.tzinfo)
    return False


def zone_of(zone: tzinfo) -> str | tuple[timedelta, str | None]:
    """How a time zone travels: the key of a ZoneInfo, or a fixed offset with its name, if it was given one.

    Raises:
        Refusal: a zone of another kind whose offset changes over the year.
    """
    if isinstance(zone, ZoneInfo):
        key: str | None = zone.key  # none, if it was read from a file
        if not key:
            raise Refusal("has a ZoneInfo without a key: make it by ZoneInfo('Area/City')")
        return key
    offset = zone.utcoffset(None)
    if offset is None:
        raise Refusal(f"has a time zone of type {type(zone).__qualname__}: use zoneinfo.ZoneInfo or datetime.timezone")
    given: tuple[Any, ...] = getattr(zone, "__getinitargs__", tuple)()
    return offset, given[1] if len(given) > 1 else None


_CHECKS: dict[type, Callable[[Any, int], bool]] = {
    str: _text,
    int: _int,
    float: _float,
    bool: _always,
    type(None): _always,
    list: _list,
    dict: _dict,
    tuple: _sequence,
    set: _sequence,
    frozenset: _sequence,
    bytes: _never,
    date: _never,
    timedelta: _never,
    UUID: _never,
    Decimal: _decimal,
    datetime: _zoned,
    time: _zoned,
    Tagged: _tagged,
}
