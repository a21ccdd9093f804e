"""Copies of this process that a body forks off: a signal means to them what it means to any program, and they do none
of this process's work.

A copy has the handlers of the process, and an event loop hears of signals through a pipe that both have: without
this, a body that ends its copy, as a pool of `multiprocessing` does, would stop the worker, or would not end the copy.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterable
from typing import NoReturn

_taken: set[signal.Signals] = set()
_masks = threading.local()


def take(signals: Iterable[signal.Signals]) -> None:
    """These have handlers that are of this process alone, until `give_back`."""
    _taken.update(signals)


def give_back(signals: Iterable[signal.Signals]) -> None:
    """Copies inherit their handlers again."""
    _taken.difference_update(signals)


def end(error: BaseException | None) -> NoReturn:
    """End a copy that came back from the body, as a program ends that returns or raises this."""
    code = 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        code = 1
    with contextlib.suppress(BaseException):  # whatever its streams and its error are, it ends
        if error is not None and not isinstance(error, SystemExit):
            traceback.print_exception(error)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    os._exit(code & 0xFF)


def _before() -> None:
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, _taken)  # until the copy has handlers of its own


def _in_process() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _in_copy() -> None:
    if _taken:
        signal.set_wakeup_fd(-1)
    for each in _taken:
        signal.signal(each, signal.SIG_DFL)  # Python's for SIGINT raises, which a hook would swallow
    _taken.clear()
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_process, after_in_child=_in_copy)
