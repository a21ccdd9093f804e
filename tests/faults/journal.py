"""What bodies write down about themselves, in a file: it stands apart from both stores, which these tests take away.

A body does

    with journal.run(ctx, "note"):
        ...

and a line is in the file before it goes on. The answers are for the test. Times are those of the machine's
monotonic clock, which all processes share.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from redisjobs import Context

_PATH = "REDISJOBS_TEST_JOURNAL"


@dataclass(slots=True)
class Run:
    """One start of a body.

    Attributes:
        ended: None where the process was killed, or where it still runs.
        how: `returned`, or the name of the exception.
    """

    job: str
    attempt: int
    pid: int
    note: str
    started: float
    ended: float | None = None
    how: str | None = None


class Journal:
    """The runs in one file.

    Attributes:
        gate: a file that is there while the gate is open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.gate = path.with_suffix(".gate")
        self._numbers = itertools.count()

    @classmethod
    def of_env(cls) -> Journal:
        """The journal that the test handed to this process."""
        return cls(Path(os.environ[_PATH]))

    @property
    def env(self) -> dict[str, str]:
        """Environment for a process whose bodies shall write here."""
        return {_PATH: str(self.path)}

    @contextlib.contextmanager
    def run(self, ctx: Context, note: str = "") -> Iterator[None]:
        """Write down the start now, and the end at the end."""
        run, how = f"{os.getpid()}-{next(self._numbers)}", "returned"
        self._write("S", run, ctx.job_id, str(ctx.attempt), str(os.getpid()), note)
        try:
            yield
        except BaseException as error:
            how = type(error).__name__
            raise
        finally:
            self._write("E", run, how)

    def open_gate(self) -> None:
        """Let those bodies go on that wait for it."""
        self.gate.touch()

    def close_gate(self) -> None:
        self.gate.unlink(missing_ok=True)

    def gate_is_open(self) -> bool:
        return self.gate.exists()

    def runs(self, job: str | None = None) -> list[Run]:
        """All runs, or those of one job, in the order of their starts."""
        found: dict[str, Run] = {}
        for line in self.path.read_text().splitlines() if self.path.exists() else []:
            kind, at, run, *rest = line.split("\t")
            if kind == "S":
                found[run] = Run(rest[0], int(rest[1]), int(rest[2]), rest[3], float(at))
            else:
                found[run].ended, found[run].how = float(at), rest[0]
        return sorted((run for run in found.values() if job in (None, run.job)), key=lambda run: run.started)

    def starts(self, job: str) -> int:
        """How often the job's body was started."""
        return len(self.runs(job))

    def started(self) -> set[str]:
        """The jobs that were started at least once."""
        return {run.job for run in self.runs()}

    def running(self) -> list[Run]:
        """Those without an end."""
        return [run for run in self.runs() if run.ended is None]

    def extra_starts(self) -> Counter[str]:
        """Jobs of which an attempt was started more than once, and how often more; a retry is another attempt."""
        counted = Counter((run.job, run.attempt) for run in self.runs())
        extra = Counter[str]()
        for (job, _), count in counted.items():
            extra[job] += count - 1
        return +extra

    def _write(self, kind: str, *words: str) -> None:
        line = "\t".join((kind, f"{time.monotonic():.6f}", *words)) + "\n"
        with self.path.open("ab", buffering=0) as file:  # one write, so lines of many processes do not mix
            file.write(line.encode())
