"""When each job started: a shared file that jobs write to and the measuring process reads."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PLACE = "REDISJOBS_BENCH_PROBE"
"""The environment variable that tells a worker's process where the file is."""


class Probe:
    """One moment for each job, as seconds since 1970; 0 where it has not started.

    Args:
        count: makes the file anew, for so many jobs. None: the file is there.
    """

    def __init__(self, path: Path, count: int | None = None) -> None:
        self.path = path
        if count is not None:
            with path.open("wb") as file:
                file.truncate(8 * (count + 1))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._cells = memoryview(self._memory).cast("d")
        self.count = len(self._cells) - 1

    @classmethod
    def of_environment(cls) -> Probe | None:
        """The probe that this process was given, if any."""
        path = os.environ.get(PLACE)
        return cls(Path(path)) if path else None

    def hit(self, number: int) -> None:
        """The job of this number has started. The first cell counts, as a hint for the reader."""
        cells = self._cells
        cells[number + 1] = time.time()
        cells[0] += 1

    @property
    def hits(self) -> int:
        """How many have started; one that ran twice counts twice."""
        return int(self._cells[0])

    def wait_for(self, count: int, seconds: float = 120.0) -> None:
        """Wait until so many have started.

        Raises:
            TimeoutError: they have not in time.
        """
        ends_at = time.monotonic() + seconds
        while self.hits < count:
            if time.monotonic() > ends_at:
                raise TimeoutError(f"{self.hits} jobs of {count} have started within {seconds:g} s")
            time.sleep(0.002)

    def starts(self) -> list[float]:
        """When each started, by its number."""
        return list(self._cells[1:])

    def close(self) -> None:
        """Give the memory back."""
        self._cells.release()
        self._memory.close()


@contextmanager
def probing(folder: Path, count: int) -> Iterator[Probe]:
    """A new probe, which worker processes started inside the block report to."""
    probe = Probe(folder / "probe", count)
    os.environ[PLACE] = str(probe.path)
    try:
        yield probe
    finally:
        del os.environ[PLACE]
        probe.close()
