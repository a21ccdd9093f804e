"""Jobs that go on coming in: some peers look after a dead worker's only when something new comes."""

from __future__ import annotations

import os
import signal
import subprocess
from types import TracebackType
from typing import Self

from benchmarks.peers.fleet import Fleet
from benchmarks.peers.stage import Stage

PAUSE_S = 0.5
_MANY = 10_000


class Trickle:
    """A producer of one short job every half second beside a fleet, until the block ends.

    Args:
        first: the number of its first job; those of a second producer, after a first one that failed, are higher.
    """

    def __init__(self, stage: Stage, fleet: Fleet, first: int) -> None:
        self.fleet = fleet
        self._stage = stage
        self._first = first
        self._process = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def watch(self) -> None:
        """Start again whatever has ended by itself: this producer, the worker, or what runs beside it."""
        self.fleet.watch()
        if self._process.poll() is not None:
            self._first += _MANY
            self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        words = ("--what", "one", "--first", self._first, "--count", _MANY, "--pause", PAUSE_S, "--hold", 0.01)
        return self._stage.programs.start("produce", *words)
