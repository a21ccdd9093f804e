"""What is written down of an attempt: its error in bounded text, its result, its reason.

An error may be hostile: a text of megabytes, a lone surrogate, a `__str__` that raises, a traceback whose
frames hold the memory of the whole attempt. What leaves this module is short, valid UTF-8 without NUL.
"""

from __future__ import annotations

import traceback
from datetime import datetime
from types import TracebackType
from typing import Any, TypedDict

import msgpack

MESSAGE_CHARS = 2_000
TRACEBACK_CHARS = 8_000
NAME_CHARS = 200
FRAMES = 25
CHAIN = 4
_RUNNING = ("redisjobs.runner", "redisjobs.batches", "redisjobs.batch_run")


class ErrorRecord(TypedDict):
    """An attempt's error as it stands in Postgres."""

    attempt: int
    at: str
    type: str
    message: str
    traceback: str


def clean(text: str, limit: int) -> str:
    """Cut a text to its limit, and take out of it what Postgres or UTF-8 would refuse."""
    cut = str.__getitem__(text, slice(0, limit + 1))
    valid = str.encode(cut, "utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    return valid if len(valid) <= limit else valid[: limit - 1] + "…"


def message_of(error: BaseException, limit: int = MESSAGE_CHARS) -> str:
    """The text of an error, whatever its `__str__` does."""
    try:
        return clean(str(error), limit)
    except BaseException as second:  # noqa: BLE001 - a body's own class: nothing that it raises may reach the worker
        return f"(the text of this error cannot be read: its __str__ raised {type_of(second)})"


def type_of(error: BaseException) -> str:
    """The name of an error's class, with its module unless it is built in."""
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return clean(f"{module}{kind.__qualname__}", NAME_CHARS)


def describe(error: BaseException, attempt: int, at: datetime) -> ErrorRecord:
    """Write an error down; keeps no reference to it."""
    return ErrorRecord(
        attempt=attempt,
        at=at.isoformat(timespec="milliseconds"),
        type=type_of(error),
        message=message_of(error),
        traceback=traceback_of(error),
    )


def let_go(error: BaseException) -> None:
    """Drop the tracebacks of an error and of those behind it, so that their frames can be freed.

    The frames themselves are left alone: an error that is raised from a shared instance may carry the frame of
    a body that still runs.
    """
    for link in _chain(error, 100):
        link.__traceback__ = None
        for inner in getattr(link, "exceptions", ()):
            if isinstance(inner, BaseException):
                let_go(inner)


def pack(
    error: ErrorRecord | None = None,
    why: str = "",
    duration_ms: int | None = None,
    result: tuple[str, bytes] | None = None,
    keep: float | None = None,
    *,
    waits: bool = False,
    undone: bool = False,
) -> bytes:
    """The record of an outcome as it travels to Postgres: a msgpack map without its absent parts.

    Args:
        keep: seconds for which the ended job shall stay visible, if that is longer than the relay keeps all.
        waits: of a suspension: it is for an event or a child, and not for a time alone.
        undone: of the end of a run with undos: they have run, as far as they can. Without it the settler has them run.
    """
    parts: dict[str, Any] = {}
    if error is not None:
        parts["e"] = error
    if why:
        parts["why"] = clean(why, MESSAGE_CHARS)
    if duration_ms is not None:
        parts["ms"] = duration_ms
    if result is not None:
        parts["rc"], parts["r"] = result
    if keep is not None:
        parts["keep"] = keep
    if waits:
        parts["w"] = 1
    if undone:
        parts["u"] = 1
    packed: bytes = msgpack.packb(parts)
    return packed


def traceback_of(error: BaseException) -> str:
    """Where an error and those behind it came from, cut; of one that was raised in another process, as told there."""
    far = getattr(error, "far_traceback", None)
    if isinstance(far, str):
        return clean(far, TRACEBACK_CHARS)
    try:
        links = [_one(link) for link in _chain(error, CHAIN)]
    except Exception as second:  # noqa: BLE001 - source files that vanish, odd loaders: a record without its frames
        return f"(the traceback cannot be read: {type_of(second)})"
    text = "\n\nwhich led to:\n\n".join(reversed(links))
    # The end says most: what was raised, and where.
    return clean(text if len(text) <= TRACEBACK_CHARS else "…" + text[1 - TRACEBACK_CHARS :], TRACEBACK_CHARS)


def _one(error: BaseException) -> str:
    frames = traceback.format_tb(_beyond_the_runner(error.__traceback__), limit=-FRAMES)
    return clean("".join(frames), TRACEBACK_CHARS) + f"{type_of(error)}: {message_of(error, 300)}"


def _beyond_the_runner(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in _RUNNING:
        trace = trace.tb_next
    return trace


def _chain(error: BaseException, longest: int) -> list[BaseException]:
    links: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and len(links) < longest and not any(link is known for known in links):
        links.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return links
