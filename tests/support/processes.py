"""Programs that a test starts, disturbs and ends: `redisjobs worker`, `redisjobs relay`, any other.

Each has a session of its own and writes its output to a file, which is shown when the test fails.
What is still there at the end of the test is killed, whatever state it is in.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Self

from tests.support.binaries import faketime
from tests.support.eventually import eventually, eventually_now

CHECKOUT = Path(__file__).parents[2]
_SHOWN = 8000  # characters of a log in a failure's report


class Program:
    """A running program.

    Attributes:
        name: for messages.
        pid: also the number of its session.
    """

    def __init__(self, name: str, arguments: list[str], log: Path, env: dict[str, str], cwd: Path) -> None:
        self.name = name
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def log(self) -> str:
        """What it has written so far, stdout and stderr."""
        return self._log.read_text(errors="replace")

    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def code(self) -> int | None:
        """Its exit code, minus the signal where one ended it; None while it runs."""
        return self._process.poll()

    async def says(self, text: str, within: float = 30) -> str:
        """Wait until this is in its log, or it ends; the log."""
        await eventually(lambda: text in self.log() or not self.is_running(), f"{self.name} says {text!r}", within)
        return self._check(text)

    def says_now(self, text: str, within: float = 30) -> str:
        """`says` for sync tests."""
        eventually_now(lambda: text in self.log() or not self.is_running(), f"{self.name} says {text!r}", within)
        return self._check(text)

    def send(self, sig: signal.Signals) -> None:
        """Send a signal to this process alone, not to its children."""
        self._process.send_signal(sig)

    def freeze(self) -> None:
        """SIGSTOP, to it and its children."""
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.killpg(self.pid, signal.SIGCONT)

    def stop(self, sig: signal.Signals = signal.SIGTERM, within: float = 40) -> int:
        """Ask it to end and wait for that; its exit code.

        Raises:
            AssertionError: it did not end in time.
        """
        self.send(sig)
        return self.wait(within)

    def kill(self) -> None:
        """SIGKILL, to it and its children; returns when it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self, within: float = 40) -> int:
        """Wait until it ends by itself; its exit code."""
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end within {within:g} s: {self.name}") from None

    async def ended(self, within: float = 40) -> int:
        """`wait` for async tests."""
        await eventually(lambda: not self.is_running(), f"{self.name} ends", within)
        return self._process.returncode

    def _check(self, text: str) -> str:
        log = self.log()
        assert text in log, f"{self.name} ended with {self.code} and never said {text!r}:\n{log[-2000:]}"
        return log


class Processes:
    """Starts programs, and ends all of them at the end of a test.

    Args:
        folder: for logs and modules.

    Attributes:
        env: what every program gets on top of this process's environment.
        door: the statement by which the command `redisjobs` is come to, as `main`.
    """

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder = folder
        self.door = "from redisjobs.cli import main"
        self.env = env | {"PYTHONPATH": f"{folder}{os.pathsep}{CHECKOUT}", "PYTHONUNBUFFERED": "1"}
        self.started: list[Program] = []

    def module(self, name: str, source: str) -> str:
        """Write a module that the programs can import; its name.

        An app for workers: `processes.module("shop", "app = App(…)")`, then `--app shop:app`.
        """
        (self._folder / f"{name}.py").write_text(textwrap.dedent(source))
        return name

    def redisjobs(self, *arguments: str, env: dict[str, str] | None = None) -> Program:
        """Start the command `redisjobs …` of this checkout."""
        command = [sys.executable, "-c", f"{self.door}; main()", *arguments]
        return self._start(f"redisjobs {' '.join(arguments)}", command, env)

    def python(self, *arguments: str, env: dict[str, str] | None = None) -> Program:
        """Start this interpreter: `python("-m", "shop")`, `python("-c", "…")`."""
        return self._start(f"python {' '.join(arguments)}", [sys.executable, *arguments], env)

    def start(self, *arguments: str, env: dict[str, str] | None = None) -> Program:
        """Start any program."""
        return self._start(" ".join(arguments), list(arguments), env)

    def _start(self, name: str, arguments: list[str], env: dict[str, str] | None) -> Program:
        log = self._folder / f"{len(self.started) + 1}.log"
        program = Program(name, arguments, log, os.environ | self.env | (env or {}), self._folder)
        self.started.append(program)
        return program

    def report(self) -> str:
        """The names, states and last words of all programs."""
        return "\n".join(
            f"--- {program.name} (pid {program.pid}, exit code {program.code})\n{program.log()[-_SHOWN:]}"
            for program in self.started
        )

    def close(self) -> None:
        """Kill and reap what is left, and what they have started, in whatever group: nothing reaches the next test."""
        for program in self.started:
            program.kill()
        sessions = {program.pid for program in self.started}
        if sessions:
            eventually_now(lambda: not _killed_of(sessions), "no child of a program is left")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _killed_of(sessions: set[int]) -> list[int]:
    """SIGKILL to the processes of these sessions that are there; their numbers."""
    found = list[int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(session) in sessions and state not in "ZX":
                os.kill(int(stat.parent.name), signal.SIGKILL)
                found.append(int(stat.parent.name))
    return found


def other_clock(seconds: float) -> dict[str, str]:
    """Environment for a program whose wall clock is so far ahead (or behind); its monotonic clock is true."""
    return {"LD_PRELOAD": str(faketime()), "FAKETIME": f"{seconds:+g}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
