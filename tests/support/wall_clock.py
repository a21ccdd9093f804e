"""A wall clock that is wrong, and can be set while its program runs.

    clock = WallClock(tmp_path / "clock", seconds=-600)
    processes.redisjobs("relay", env=clock.env)
    clock.set(0)                                       # it jumps ahead by ten minutes

The monotonic clock is true all the time. libfaketime makes Python's `time.sleep` fail with EINVAL; waits on events,
locks and loops are right.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.binaries import faketime


class WallClock:
    """The clock of all programs that have its environment.

    Args:
        file: where it stands; made here.
        seconds: how far it is ahead of the true time, or behind.
    """

    def __init__(self, file: Path, seconds: float = 0.0) -> None:
        self._file = file
        self.set(seconds)

    @property
    def env(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(faketime()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",  # seconds; else every look at the clock opens the file
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, seconds: float) -> None:
        """So far from the true time, within a second."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+g}\n")
        new.replace(self._file)  # a program that looks meanwhile sees the old one or the new one, never none
