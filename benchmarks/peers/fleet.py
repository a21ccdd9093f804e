"""A contestant's processes: its producers, its worker, and what it runs beside that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.machine import below, cpu_seconds, resident_mb
from benchmarks.peers.table import Contestant

_ROOT = Path(__file__).parents[2]


class Programs:
    """Starts programs of one contestant.

    Args:
        python: of its environment.
        environment: what its programs are told, such as where the servers are.
        log: a file for what workers say.
    """

    def __init__(self, contestant: Contestant, python: Path, environment: dict[str, str], log: Path) -> None:
        self.contestant = contestant
        self.environment = os.environ | environment | {"PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        self.log = log
        self._python = python

    def ask(self, role: str, *words: object, seconds: float = 600, **environment: str) -> dict[str, Any]:
        """Run a program to its end, and answer what it says.

        Raises:
            RuntimeError: it failed; with what it said.
        """
        done = subprocess.run(
            self._command(role, *words),
            check=False, cwd=_ROOT, env=self.environment | environment, capture_output=True, text=True, timeout=seconds,
        )  # fmt: skip
        lines = done.stdout.splitlines()
        if done.returncode != 0 or not lines or not lines[-1].startswith("{"):
            raise RuntimeError(
                f"{self.contestant.name}: {role} {words} ended with {done.returncode}: {done.stderr[-2000:]}"
            )
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer

    def start(self, role: str, *words: object) -> subprocess.Popen[bytes]:
        """Start a program that runs on, in a group of its own."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._command(role, *words),
                cwd=_ROOT, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def _command(self, role: str, *words: object) -> list[str]:
        name = self.contestant.name
        return [str(self._python), "-m", "benchmarks.peers.program", role, name, *map(str, words)]


class Fleet:
    """One worker, and what runs beside it, until the block ends; then both are killed.

    Args:
        beside: whether something runs beside the worker.
    """

    def __init__(self, programs: Programs, slots: int, *, beside: bool) -> None:
        self._programs = programs
        self._slots = slots
        self._has_beside = beside
        self._worker: subprocess.Popen[bytes] | None = None
        self._beside: subprocess.Popen[bytes] | None = None
        self.ended = 0

    def __enter__(self) -> Self:
        if self._has_beside:
            self._beside = self._programs.start("beside")
        self.start_worker()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill_worker()
        if self._beside is not None:
            _kill(self._beside)

    def start_worker(self) -> None:
        """A worker, while there is none."""
        self._worker = self._programs.start("work", "--slots", self._slots)

    def kill_worker(self) -> None:
        """SIGKILL to the worker with all of its processes."""
        if self._worker is not None:
            _kill(self._worker)

    def watch(self) -> None:
        """Start again what has ended by itself, as a supervisor does; `ended` counts how often."""
        if self._worker is not None and self._worker.poll() is not None:
            self.ended += 1
            self.start_worker()
        if self._beside is not None and self._beside.poll() is not None:
            self.ended += 1
            self._beside = self._programs.start("beside")

    def cpu(self) -> float:
        """Seconds that these processes have used."""
        return sum(cpu_seconds(each.pid) for each in self._running())

    def resident_mb(self) -> float:
        """The memory that the worker has, its own processes included."""
        assert self._worker is not None
        return resident_mb(self._worker.pid, children=True)

    def _running(self) -> list[subprocess.Popen[bytes]]:
        return [each for each in (self._worker, self._beside) if each is not None and each.poll() is None]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to all of it at once, as when a machine or a container ends; a child may have a group of its own."""
    for pid in (process.pid, *below(process.pid)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
