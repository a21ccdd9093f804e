"""SIGTERM, SIGINT and SIGTSTP, taken over for a while and then given back as they were."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from types import FrameType
from typing import TypeAlias

_Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None


class Signals:
    """The stop signals of a process while it works.

    Args:
        came: called in the loop at each SIGTERM and SIGINT.
        quiet: called at each SIGTSTP; None: that one is left alone.
    """

    def __init__(self, came: Callable[[], None], quiet: Callable[[], None] | None = None) -> None:
        self._calls = {signal.SIGTERM: came, signal.SIGINT: came}
        if quiet is not None:
            self._calls[signal.SIGTSTP] = quiet
        self._before: dict[signal.Signals, _Handler] = {}

    def take_over(self) -> None:
        """From now on the signals call. Only in the main thread: nowhere else do signals arrive."""
        loop = asyncio.get_running_loop()
        for each, call in self._calls.items():
            before = signal.getsignal(each)
            loop.add_signal_handler(each, call)
            self._before[each] = before

    def give_back(self) -> None:
        """The handlers are as they were."""
        loop = asyncio.get_running_loop()
        for each, before in self._before.items():
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL if before is None else before)
        self._before.clear()
