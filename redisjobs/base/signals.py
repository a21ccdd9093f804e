"""SIGTERM, SIGINT and SIGTSTP, taken over for a while and then given back as they were."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from types import FrameType
from typing import TypeAlias

from redisjobs.base import copies, stops

_Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None


class Signals:
    """The stop signals of a process while it works, and the words of a parent that passes its own on (`stops`).

    Args:
        came: called in the loop at each stop: as often as SIGTERM and SIGINT came, or as the parent said so, whichever
            is more.
        quiet: called at each SIGTSTP; None: that one is left alone.
    """

    def __init__(self, came: Callable[[], None], quiet: Callable[[], None] | None = None) -> None:
        self._came = came
        self._calls: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGTERM: self._signalled,
            signal.SIGINT: self._signalled,
        }
        if quiet is not None:
            self._calls[signal.SIGTSTP] = quiet
        self._before: dict[signal.Signals, _Handler] = {}
        self._parent = stops.parent()
        self._own = self._of_parent = self._counted = 0

    def take_over(self) -> None:
        """From now on the signals call. Only in the main thread: nowhere else do signals arrive."""
        loop = asyncio.get_running_loop()
        for each, call in self._calls.items():
            before = signal.getsignal(each)
            loop.add_signal_handler(each, call)
            self._before[each] = before
        copies.take(self._calls)
        if self._parent is not None:
            self._parent.listen(self._told)

    def give_back(self) -> None:
        """The handlers are as they were."""
        loop = asyncio.get_running_loop()
        if self._parent is not None:
            self._parent.ignore()
        for each, before in self._before.items():
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL if before is None else before)
        copies.give_back(self._before)
        self._before.clear()

    def _signalled(self) -> None:
        self._own += 1
        self._count()

    def _told(self, times: int) -> None:
        self._of_parent = times
        self._count()

    def _count(self) -> None:
        while self._counted < max(self._own, self._of_parent):
            self._counted += 1
            self._came()
