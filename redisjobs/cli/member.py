"""What a process of a fleet knows of itself: its number, and the parent that it does not outlive."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

from redisjobs.base import stops

VARIABLE = "REDISJOBS_MEMBER"
"""Set by the parent for its processes: `number parent fd`, the last for `stops`."""

_PR_SET_PDEATHSIG = 1
_joined: list[int] = []


def number() -> int | None:
    """Which process of its fleet this is, from 1; None: it is a process of its own."""
    first = os.environ.get(VARIABLE, "").partition(" ")[0]
    return int(first) if first.isdecimal() else next(iter(_joined), None)


def join() -> None:
    """From now on this process is told to stop when its parent is, or is gone, however that ended.

    Alone, nothing happens. What the process starts is no member.
    """
    mine, told = number(), os.environ.pop(VARIABLE, "").split()
    if mine is None or not told:
        return
    _joined[:] = [mine]
    _, parent, fd = told
    with contextlib.suppress(OSError, AttributeError):  # Linux alone has it; elsewhere the end of the socket must do
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if os.getppid() != int(parent):  # it ended before we asked
        raise SystemExit(0)
    stops.obey(int(fd))


def environment(of: int, fd: int) -> dict[str, str]:
    """What the process of this number is told, and by what descriptor it hears of stops."""
    return {VARIABLE: f"{of} {os.getpid()} {fd}"}
