"""How far a body has come, as it says itself: `ctx.progress(done, total, note)`."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar, cast

from redisjobs.errors import OptionError

T = TypeVar("T")

NOTE_CHARS = 200
_LARGEST = 2.0**63


class Reporter(Protocol):
    """Who passes on what a body reports: the attempt that it belongs to."""

    def report(self, text: bytes) -> None:
        """Take the latest report; may be called from any thread, and never waits."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """The latest that a body reported.

    Args:
        done: so much of `total`, in units of the body's own. total: None where it is not known.
        note: at most 200 characters.
        at: when Redis was told, by its clock.
        start: which start of the job reported it; lower than the job's starts: an earlier attempt did.
    """

    done: float
    total: float | None = None
    note: str = ""
    at: datetime | None = None
    start: int = 0

    @property
    def share(self) -> float | None:
        """From 0 to 1; None where the total is not known, or is 0."""
        return self.done / self.total if self.total else None

    def __str__(self) -> str:
        of = "" if self.total is None else f" of {self.total:g}"
        share = "" if self.share is None else f" ({int(100 * self.done / (self.total or 1))} %)"
        return f"{self.done:g}{of}{share}" + (f", {self.note}" if self.note else "")


class Reports(Generic[T]):
    """The latest report of each that told of its progress, until somebody takes them along."""

    def __init__(self) -> None:
        self._latest: dict[T, bytes] = {}
        self._lock = threading.Lock()  # bodies report from threads, and the heartbeat takes from its own

    def put(self, by: T, text: bytes) -> None:
        """Keep the latest."""
        with self._lock:
            self._latest[by] = text

    def take(self) -> dict[T, bytes]:
        """All that came since the last time."""
        if not self._latest:
            return {}
        with self._lock:
            taken, self._latest = self._latest, {}
        return taken

    def put_back(self, untold: dict[T, bytes]) -> None:
        """These could not be told; what came meanwhile is later, and stays."""
        with self._lock:
            self._latest = untold | self._latest


def write(done: float, total: float | None, note: str) -> bytes:
    """A report as it travels; the note is cut after 200 characters.

    Raises:
        OptionError: a number that is none, not finite, below 0 or above the total; a note that is no text.
    """
    _check("done", done)
    if total is not None:
        _check("total", total)
        if done > total:
            raise OptionError("done", done, f"is above total ({total:g}): pass a total that grows too, or None")
    if not isinstance(cast(object, note), str):
        raise OptionError("note", note, f"is a {type(note).__name__}: pass a text")
    cut = note if len(note) <= NOTE_CHARS else note[: NOTE_CHARS - 1] + "…"
    return json.dumps([done, total, cut.encode("utf-8", "backslashreplace").decode()], separators=(",", ":")).encode()


def read(stored: bytes) -> Progress | None:
    """The progress in what Redis keeps of a run; None: there is none that can be read."""
    _, _, report = stored.partition(b"\n")
    try:
        start, at_ms, text = report.split(b" ", 2)
        done, total, note = cast("list[Any]", json.loads(text))
        return Progress(done, total, note, datetime.fromtimestamp(int(at_ms) / 1000, UTC), int(start))
    except (ValueError, TypeError, OverflowError):
        return None


def _check(name: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise OptionError(name, number, f"is a {type(number).__name__}: pass a number")
    if math.isnan(number) or not 0 <= number <= _LARGEST:
        raise OptionError(name, number, "is no amount: pass a number from 0, such as the rows that are done")
