"""Whether anybody still needs the servers."""

from __future__ import annotations

import os
import select
import signal
import sys
from types import FrameType

GLANCE = 0.5  # seconds between two looks at the parent, where the system cannot tell when it ends


class Unwanted(Exception):
    """Nobody needs the servers any longer; the message says why."""


class Watch:
    """Waits, and notices at once when the application ends or a child does.

    The end of standard input alone would not do: a process that the application forked may hold
    the other end of it open.

    Args:
        parent: process id of the application.
    """

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._wakeup, wake = os.pipe()
        for end in (self._wakeup, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._stopped = False
        for ignored in (signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGCHLD, _wake_up)
        self._process = _handle_of(parent)

    def wait(self, seconds: float | None = None) -> None:
        """Return after so many seconds, or when a child has ended; it may be earlier.

        Raises:
            Unwanted: the application has ended or let go of the servers, or we got SIGTERM.
        """
        looked_at = [0, self._wakeup] + ([self._process] if self._process is not None else [])
        if self._process is None:
            seconds = GLANCE if seconds is None else min(seconds, GLANCE)
        readable, _, _ = select.select(looked_at, [], [], seconds)
        if self._wakeup in readable:
            os.read(self._wakeup, 512)
        if self._stopped:
            raise Unwanted("SIGTERM")
        if self._process in readable or os.getppid() != self._parent:
            raise Unwanted(f"the application, process {self._parent}, has ended")
        if 0 in readable and not os.read(0, 512):
            raise Unwanted(f"the application, process {self._parent}, let go")

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopped = True


def _wake_up(_number: int, _frame: FrameType | None) -> None:
    """A signal with a handler, even an idle one, is written to the wake-up descriptor."""


def _handle_of(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None where there are none (before Linux 5.3)."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
