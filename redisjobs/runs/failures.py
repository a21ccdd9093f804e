"""What a record says of an error, and the error that it makes again."""

from __future__ import annotations

from typing import Any

from redisjobs.errors import ChildFailed, StepFailed, StepTimeoutError
from redisjobs.record import message_of, type_of
from redisjobs.runs.ends import is_group
from redisjobs.steps import StepRecord

MESSAGE_CHARS = 1000
MOST_BEHIND = 10_000


def detail_of(error: BaseException, *, timed_out: bool = False) -> dict[str, Any]:
    """What a record keeps of an error."""
    told: dict[str, Any] = {"type": type_of(error), "message": message_of(error, MESSAGE_CHARS)}
    return told | {"timeout": True} if timed_out else told


def failure_of(record: StepRecord) -> StepFailed:
    """The error of a failed record."""
    detail = record.detail or {}
    parts = [str(detail[key]) for key in ("type", "message") if detail.get(key)]
    told = ": ".join(parts) or "its error was not recorded"
    if record.kind == "child":
        return ChildFailed(record.name, told, str(record.child), str(detail.get("word", "dead")))
    if detail.get("timeout"):
        return StepTimeoutError(record.name, told, record.tries)
    return StepFailed(record.name, told, record.tries)


def failed_steps(error: BaseException | None) -> list[str]:
    """The steps whose failure led to this error: it is theirs, or they stand behind it, or beside it in a gather."""
    names: dict[str, None] = {}
    seen: set[int] = set()
    left = [error]
    while left and len(seen) < MOST_BEHIND:
        each = left.pop(0)
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        left += [each.__cause__, each.__context__]
        if is_group(each):
            left += getattr(each, "exceptions", ())
        elif isinstance(each, StepFailed):
            names[each.step] = None
            left += each.beside
    return list(names)
