"""What every measurement of a contestant is given: its programs on empty servers, and its probes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import programs as waiting
from benchmarks.peers import ledger
from benchmarks.peers.fleet import Fleet, Programs
from benchmarks.peers.plan import Scale
from benchmarks.peers.servers import RaceServers
from benchmarks.peers.table import Contestant
from benchmarks.probe import PLACE, Probe

Found = dict[str, float | str | None]
"""What a measurement found: a figure for each word; None where there is none."""

START_S = 60.0
"""Within which a worker has to start its first job."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One contestant on the servers.

    Args:
        python: of its environment.
        facts: what its driver says of itself.
        folder: for what lies between processes.
    """

    servers: RaceServers
    scale: Scale
    contestant: Contestant
    python: Path
    facts: dict[str, Any]
    folder: Path

    @property
    def programs(self) -> Programs:
        """Its programs, on the database that is measured with."""
        return self._programs({})

    def clear(self) -> None:
        """Empty servers with its tables."""
        self.servers.clear(self.contestant, lambda name: self._programs(self.servers.environment(name)).ask("prepare"))

    def fill(self, count: int, *, what: str = "many", hold: float = 0.0) -> int:
        """Enqueue so many jobs before any worker runs; answers how many were in time."""
        words = ("--what", what, "--count", count, "--hold", hold, "--seconds", self.scale.fill_s)
        filled = int(self.programs.ask("produce", *words)["count"])
        self.servers.known(self.contestant)
        return filled

    def fleet(self, slots: int) -> Fleet:
        """Its worker, and what runs beside it."""
        return Fleet(self.programs, slots, beside=bool(self.facts["beside"]))

    @contextmanager
    def probing(self, count: int, name: str = "probe") -> Iterator[Probe]:
        """A new probe that its jobs report to."""
        probe = Probe(self.folder / name, count)
        with self._told(PLACE, probe.path):
            yield probe
        probe.close()

    @contextmanager
    def book(self) -> Iterator[ledger.Ledger]:
        """A new ledger that its held jobs write into."""
        path = self.folder / "ledger"
        path.unlink(missing_ok=True)
        book = ledger.Ledger(path)
        with self._told(ledger.PLACE, path):
            yield book
        book.close()

    def wait_for_first(self, probe: Probe, count: int = 1) -> None:
        """Wait until so many jobs have started.

        Raises:
            TimeoutError: they have not; with the worker's last words.
        """
        try:
            waiting.wait_for(lambda: started(probe) >= count, f"{count} jobs to start", START_S)
        except TimeoutError as error:
            log = self.folder / f"{self.contestant.name}.log"
            said = log.read_text(errors="replace")[-2000:] if log.exists() else ""
            raise TimeoutError(f"{self.contestant.name}: {error}\n{said}") from None

    def _programs(self, environment: dict[str, str]) -> Programs:
        told = self.servers.environment() | {"REDISJOBS_PEERS_LEASE_S": f"{self.scale.lease_s:g}"} | environment
        return Programs(self.contestant, self.python, told, self.folder / f"{self.contestant.name}.log")

    @contextmanager
    def _told(self, name: str, path: Path) -> Iterator[None]:
        with ExitStack() as stack:
            os.environ[name] = str(path)
            stack.callback(os.environ.pop, name)
            yield


def started(probe: Probe) -> int:
    """How many jobs have started: counted, for workers with several processes or threads do not count well."""
    return sum(moment > 0 for moment in probe.starts())
