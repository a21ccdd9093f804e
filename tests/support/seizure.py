"""A process that is seized by a signal: its main thread, or all of its threads, stand still for a while.

What a body does that blocks, but at a moment which the test chooses. The program calls `install()` in its main thread;
the test asks `seize(pid, "loop", seconds)`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import Literal, TypeAlias

Seized: TypeAlias = Literal["loop", "gil"]

_SIGNALS: dict[Seized, int] = {"loop": signal.SIGRTMIN + 4, "gil": signal.SIGRTMIN + 5}
_keeping_the_gil = ctypes.PyDLL(None)
"""Its functions are called without giving up the interpreter's lock."""


def install() -> None:
    """Be seized whenever somebody asks for it."""
    for number in _SIGNALS.values():
        signal.signal(number, _seized)


def seize(pid: int, what: Seized, seconds: float) -> None:
    """Seize a process that has called `install`; any other is ended by it.

    Args:
        what: `loop`: the main thread sleeps, others go on. `gil`: no thread of Python goes on.
    """
    _length(pid).write_text(f"{seconds:g}")
    os.kill(pid, _SIGNALS[what])


def _seized(number: int, _: FrameType | None) -> None:
    length = _length(os.getpid())
    seconds = float(length.read_text())
    length.unlink()
    if number == _SIGNALS["gil"]:
        _keeping_the_gil.usleep(int(seconds * 1_000_000))
    else:
        time.sleep(seconds)


def _length(pid: int) -> Path:
    """Where it is written for how long; a signal cannot carry it."""
    return Path(tempfile.gettempdir()) / f"redisjobs-seizure-{pid}"
