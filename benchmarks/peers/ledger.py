"""When held jobs started and ended: a file that all workers append to, and what can be told from it.

A line is `start NUMBER SECONDS` or `end NUMBER SECONDS`, seconds since 1970. Appending one is atomic, so a worker that
is killed leaves whole lines only.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PLACE = "REDISJOBS_PEERS_LEDGER"
"""The environment variable that tells a worker's process where the file is."""


class Ledger:
    """The file, for writing and for reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    @classmethod
    def of_environment(cls) -> Ledger | None:
        """The ledger that this process was given, if any."""
        path = os.environ.get(PLACE)
        return cls(Path(path)) if path else None

    def note(self, what: str, number: int) -> None:
        """A job of this number has started ("start") or ended ("end")."""
        os.write(self._file, f"{what} {number} {time.time():.6f}\n".encode())

    def read(self) -> Account:
        """All that was noted so far."""
        return Account.of(self.path.read_text().splitlines())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


@dataclass(frozen=True, slots=True)
class Account:
    """What became of jobs.

    Attributes:
        starts: a job's number to the moments of its starts, in order.
        ends: likewise.
    """

    starts: dict[int, list[float]]
    ends: dict[int, list[float]]

    @classmethod
    def of(cls, lines: Iterable[str]) -> Account:
        """From the lines of a ledger."""
        found: dict[str, defaultdict[int, list[float]]] = {"start": defaultdict(list), "end": defaultdict(list)}
        for line in lines:
            what, number, moment = line.split()
            found[what][int(number)].append(float(moment))
        return cls(dict(found["start"]), dict(found["end"]))

    def ended(self, numbers: Iterable[int]) -> int:
        """How many of these have ended at least once."""
        return sum(number in self.ends for number in numbers)

    def missing(self, numbers: Iterable[int]) -> int:
        """How many of these have not ended."""
        return sum(number not in self.ends for number in numbers)

    def doubled(self, numbers: Iterable[int]) -> int:
        """How many of these ended more than once."""
        return sum(len(self.ends.get(number, ())) > 1 for number in numbers)

    def interrupted(self, at: float) -> list[int]:
        """Those that ran at that moment."""
        return [number for number, starts in self.starts.items() if starts[0] <= at and not self._ended_by(number, at)]

    def waits(self, at: float) -> list[float]:
        """For each job that was interrupted at that moment and has started again: seconds until it did."""
        again = ([moment for moment in self.starts[number] if moment > at] for number in self.interrupted(at))
        return [moments[0] - at for moments in again if moments]

    def wait(self, at: float) -> float | None:
        """The median of `waits`; None where none has started again."""
        waits = self.waits(at)
        return statistics.median(waits) if waits else None

    def done(self, numbers: Iterable[int], at: float) -> float | None:
        """Seconds from that moment until each of these had ended once; None where one has not."""
        firsts = [self.ends[number][0] if number in self.ends else None for number in numbers]
        moments = [moment for moment in firsts if moment is not None]
        return max(moments) - at if moments and len(moments) == len(firsts) else None

    def first_start_after(self, at: float) -> float | None:
        """Seconds from that moment until any job starts."""
        later = [moment for starts in self.starts.values() for moment in starts if moment > at]
        return min(later) - at if later else None

    def _ended_by(self, number: int, at: float) -> bool:
        return any(moment <= at for moment in self.ends.get(number, ()))
