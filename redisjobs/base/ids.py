"""Job ids: UUIDs of version 7, rising within a process, from any thread, and after a fork."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime
from uuid import UUID

from redisjobs.errors import OptionError

_COUNTER_BITS = 42
_VERSION = 7 << 76
_VARIANT = 2 << 62


class Maker:
    """Makes ids that rise: 48 bits of milliseconds, 42 of a counter, 32 at random (RFC 9562, 6.2, method 1).

    The clock standing still or stepping back makes no id smaller than the one before.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._millis = -1
        self._counter = 0

    def next(self) -> UUID:
        """An id above every earlier one of this maker."""
        now = time.time_ns() // 1_000_000
        with self._lock:
            if now > self._millis:
                self._millis, self._counter = now, self._fresh_counter()
            else:
                self._counter += 1
                if self._counter >> _COUNTER_BITS:
                    self._millis, self._counter = self._millis + 1, self._fresh_counter()
            millis, counter = self._millis, self._counter
        return UUID(int=_assemble(millis, counter, int.from_bytes(os.urandom(4))))

    def forked(self) -> None:
        """Begin anew in a child: its parent's lock may be held for ever, and its counter is the parent's too."""
        self._lock = threading.Lock()
        self._counter = self._fresh_counter()
        self._millis += 1

    @staticmethod
    def _fresh_counter() -> int:
        return int.from_bytes(os.urandom(6)) >> (48 - _COUNTER_BITS + 1)  # the upper half is room to count in


def _assemble(millis: int, counter: int, tail: int) -> int:
    high, low = counter >> 30, counter & 0x3FFF_FFFF
    return (millis & 0xFFFF_FFFF_FFFF) << 80 | _VERSION | high << 64 | _VARIANT | low << 32 | tail


_maker = Maker()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_maker.forked)


def new_id() -> UUID:
    """A new job id, above every earlier one of this process."""
    return _maker.next()


def parse_id(text: object, name: str = "job_id") -> UUID:
    """The id that a caller wrote as text, as a UUID or as its 16 bytes.

    Raises:
        OptionError: it is not a UUID.
    """
    if isinstance(text, UUID):
        return text
    try:
        return UUID(bytes=text) if isinstance(text, bytes) else UUID(str(text))
    except ValueError:
        raise OptionError(name, str(text)[:60], "is not a job id: pass a UUID as enqueue answered it") from None


def made_at(job_id: UUID) -> datetime | None:
    """When an id was made, by the clock of whoever made it; None: ids of this version do not tell."""
    if job_id.version != 7:
        return None
    try:
        return datetime.fromtimestamp((job_id.int >> 80) / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # 48 bits of milliseconds reach beyond the year 9999
        return None
