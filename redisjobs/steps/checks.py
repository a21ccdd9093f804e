"""What a record may hold: looked at before anything is sent, and so the same for each store."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

from redisjobs.base.plain import refuse_unwritable
from redisjobs.errors import EncodeError, OptionError
from redisjobs.steps.records import JobDone, StepRecord

NAME_CHARS = 200
KEY_BYTES = 512
VALUE_BYTES = 1_048_576

_CONTROL = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)))
"""What [:cntrl:] means to Postgres."""


def check_name(name: object, option: str = "name") -> str:
    """The name of a step or of an event.

    Raises:
        OptionError: no text, empty, too long, or with a character that cannot be stored or shown.
    """
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_CHARS or not _CONTROL.isdisjoint(name):
        why = f"is no name: pass 1 to {NAME_CHARS} characters, none a control character"
        raise OptionError(option, name[:60] if isinstance(name, str) else name, why)
    return _writable(name, option)


def check_key(key: object) -> str:
    """The key of an event.

    Raises:
        OptionError: no text, too long, or with a character that cannot be stored.
    """
    if not isinstance(key, str):
        raise OptionError("key", key, f"is a {type(key).__name__}: pass a text, such as str(order_id)")
    _writable(key, "key")
    if len(key.encode()) > KEY_BYTES:
        raise OptionError("key", key[:60], f"has {len(key.encode())} bytes: pass at most {KEY_BYTES}")
    return key


def check_value(what: str, value: bytes | None) -> None:
    """The size of an encoded result.

    Raises:
        EncodeError: it is too large.
    """
    if value is not None and len(value) > VALUE_BYTES:
        raise EncodeError(
            f"the result of {what}",
            f"has {len(value)} bytes when encoded, and {VALUE_BYTES} (1 MiB) are the most: "
            "keep it where large things are kept, and return its name",
        )


def check_record(record: StepRecord) -> None:
    """Refuse what no store takes.

    Raises:
        EncodeError: its value is too large.
        OptionError: its name, or its event, is none.
    """
    check_name(record.name)
    check_value(f"step {record.name!r}", record.value)
    if record.kind == "event":
        check_name(record.event, "event")
        check_key(record.key)


def check_done(done: JobDone) -> None:
    """Refuse a result that cannot be kept."""
    check_value("the job", done.value)


def storable(value: Any) -> Any:
    """Details without what jsonb cannot hold: NUL, lone surrogates, numbers that are none, values that are no JSON."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if _is_map(value):
        return {storable(str(key)): storable(item) for key, item in value.items()}
    if _is_list(value):
        return [storable(item) for item in value]
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return storable(str(value))


def _writable(text: str, option: str) -> str:
    try:
        refuse_unwritable(text)
    except EncodeError:
        why = "has a NUL character or a lone surrogate, which no database can store: leave it out"
        raise OptionError(option, text[:60], why) from None
    return text


def _is_map(value: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    return isinstance(value, (list, tuple))
