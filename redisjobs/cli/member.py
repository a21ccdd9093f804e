"""What a process of a fleet knows of itself: its number, and the parent that it does not outlive."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

VARIABLE = "REDISJOBS_MEMBER"
"""Set by the parent for its processes: `number parent`."""

_PR_SET_PDEATHSIG = 1


def number() -> int | None:
    """Which process of its fleet this is, from 1; None: it is a process of its own."""
    first = os.environ.get(VARIABLE, "").partition(" ")[0]
    return int(first) if first.isdecimal() else None


def join() -> None:
    """From now on this process is told to stop when its parent is gone, however that ended. Alone, nothing happens."""
    parent = os.environ.get(VARIABLE, "").partition(" ")[2]
    if not parent:
        return
    with contextlib.suppress(OSError, AttributeError):  # Linux alone has it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if os.getppid() != int(parent):  # it ended before we asked
        raise SystemExit(0)


def environment(of: int) -> dict[str, str]:
    """What the process of this number is told."""
    return {VARIABLE: f"{of} {os.getpid()}"}
