"""Whether a stored document is made of what an export is made of; somebody may have edited it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

from redisjobs.errors import ConfigurationError


def check_document(document: object) -> None:
    """Raise where a part of it is not what an export has there.

    Raises:
        ConfigurationError: names the place.
    """
    for place in _wrong(document, "#"):
        raise ConfigurationError(
            f"the old document is no export of all jobs, at {place}: store what `redisjobs schema export` prints "
            "without --job"
        )


def _wrong(schema: object, place: str) -> Iterator[str]:
    """The places of a schema where something else stands than an export has there."""
    if not _is_object(schema):
        yield place
        return
    for word, value in schema.items():
        here = f"{place}/{word}"
        if word in _VALUES and not _VALUES[word](value):
            yield here
        elif word in ("properties", "$defs"):
            yield from _wrong_in(value.items() if _is_object(value) else None, here)
        elif word in ("anyOf", "oneOf", "prefixItems"):
            yield from _wrong_in(enumerate(value) if _is_list(value) and value else None, here)
        elif word in ("items", "propertyNames") or (word == "additionalProperties" and not isinstance(value, bool)):
            yield from _wrong(value, here)


def _wrong_in(parts: Any, place: str) -> Iterator[str]:
    if parts is None:
        yield place
        return
    for name, each in parts:
        yield from _wrong(each, f"{place}/{name}")


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _are_texts(value: object) -> bool:
    return _is_list(value) and all(isinstance(each, str) for each in value)


def _are_choices(value: object) -> bool:
    """What `allOf` holds: for each of some arguments, the names of which one must be there."""
    return _is_list(value) and all(_is_object(each) and _is_choice(each.get("anyOf")) for each in value)


def _is_choice(value: object) -> bool:
    return _is_list(value) and bool(value) and all(_is_object(one) and _are_texts(one.get("required")) for one in value)


def _is_pattern(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(re.compile(value))
    except re.error:
        return False


_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
            "minItems", "maxItems", "minProperties", "maxProperties")  # fmt: skip
_VALUES: dict[str, Callable[[object], bool]] = {
    **dict.fromkeys(_NUMBERS, _is_number),
    "$ref": lambda value: isinstance(value, str) and value.startswith("#/$defs/"),
    "type": lambda value: _is_text(value) or (_are_texts(value) and bool(value)),
    "format": _is_text,
    "contentEncoding": _is_text,
    "pattern": _is_pattern,
    "required": _are_texts,
    "enum": _is_list,
    "allOf": _are_choices,
}
