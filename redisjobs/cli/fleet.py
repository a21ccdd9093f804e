"""A parent that keeps processes of one command running, and ends with all of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence

from redisjobs.base.signals import Signals
from redisjobs.base.stops import StopLine
from redisjobs.cli import member
from redisjobs.cli.exits import CONFIGURATION, UNAVAILABLE
from redisjobs.cli.fleet_notices import FleetNotices
from redisjobs.drain import HANDED_BACK
from redisjobs.logs import event

STEADY_S = 10.0
"""A process that lived for so long did not die at once."""
TRIES = 5
"""So many deaths at once in a row, and the parent gives up."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
KILL_S = 20.0
"""How long a process may take to make room for its successor."""
SEVERITY = (0, HANDED_BACK, UNAVAILABLE, CONFIGURATION)
"""Exit codes from good to bad; all others are worse."""
HOPELESS = (2, CONFIGURATION)
"""What no restart puts right: wrong usage, wrong configuration."""
STOPPED_BY = (-signal.SIGTERM, -signal.SIGINT)

log = logging.getLogger("redisjobs.fleet")


def worst(codes: Sequence[int]) -> int:
    """The exit code of all: the worst of them."""
    return max(codes, key=lambda code: SEVERITY.index(code) if code in SEVERITY else len(SEVERITY), default=0)


def this_command() -> list[str]:
    """The command line of this process, to be run again."""
    return [sys.executable, *sys.orig_argv[1:]]


class Fleet:
    """Runs a command in several processes until a signal, or until one of them cannot be kept alive.

    Each process has a process group of its own, so that Ctrl-C in a terminal reaches it once, through the parent.
    SIGTERM and SIGINT are passed on in words (`stops`), each time that they come; SIGTSTP as it is.

    Args:
        command: what each process runs; `member.number()` tells them apart.
        env: on top of this process's environment.
        ends: a process that ends with 0 has done its work, and is not started again.
        waits_for_change: one that ends in an error is not tried again before `restart`, and nobody gives up.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        env: Mapping[str, str] | None = None,
        *,
        ends: bool = False,
        waits_for_change: bool = False,
    ) -> None:
        self.count = count
        self._command = list(command)
        self._env = dict(env or {})
        self._ends = ends
        self._notices = FleetNotices(count)
        self._waits_for_change = waits_for_change
        self._running: dict[int, Running] = {}
        self._stopping, self._changed = asyncio.Event(), asyncio.Event()

    async def run(self) -> int:
        """Return the worst exit code, once every process has ended."""
        signals = Signals(self.stop, lambda: self._pass_on(signal.SIGTSTP))
        signals.take_over()
        try:
            with self._notices:
                return worst(await asyncio.gather(*(self._keep(number) for number in range(1, self.count + 1))))
        finally:
            signals.give_back()

    def stop(self) -> None:
        """Start nothing more and have every process stop; a second time: at once."""
        self._stopping.set()
        self._notices.stopping()
        self._changed.set()
        self._stop_all()

    def restart(self) -> None:
        """Stop every process, and start it again as soon as it has ended."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._stop_all()
        asyncio.get_running_loop().call_later(KILL_S, self._kill, list(self._running.values()))

    def _kill(self, processes: list[Running]) -> None:
        for each in processes:
            each.signal(signal.SIGKILL)

    def _stop_all(self) -> None:
        for each in self._running.values():
            each.stop()

    def _pass_on(self, number: signal.Signals) -> None:
        for each in self._running.values():
            each.signal(number)

    async def _keep(self, number: int) -> int:
        """Keep one process running; its last exit code."""
        deaths = 0
        while True:
            changed, began = self._changed, time.monotonic()
            code = await self._one_life(number, changed)
            if self._stopping.is_set():
                return 0 if code in STOPPED_BY else _as_exit_code(code)  # told before it listened: it had taken nothing
            if self._ends and code == 0:
                return code
            if changed.is_set():
                deaths = 0
                continue
            deaths = deaths + 1 if time.monotonic() - began < STEADY_S else 1
            if not self._waits_for_change and (code in HOPELESS or deaths >= TRIES):
                return self._give_up(number, code, deaths)
            await self._pause(number, code, deaths, changed)
            if self._stopping.is_set():
                return 0

    async def _one_life(self, number: int, changed: asyncio.Event) -> int:
        line = StopLine()
        env = os.environ | self._env | self._notices.environment(number) | member.environment(number, line.fd)
        try:
            process = await asyncio.create_subprocess_exec(*self._command, env=env, process_group=0, pass_fds=[line.fd])
            line.handed_over()
            running = self._running[number] = Running(process, line)
            if self._stopping.is_set() or changed.is_set():  # all were told while this one started
                running.stop()
            return await process.wait()
        finally:
            self._running.pop(number, None)
            line.close()
            self._notices.gone(number)

    async def _pause(self, number: int, code: int, deaths: int, changed: asyncio.Event) -> None:
        if self._waits_for_change and code > 0:
            event(log, logging.WARNING, "fleet.waiting_for_change", code=code, remedy="save a file once it is mended")
            await changed.wait()
            return
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(deaths - 1, 10))
        event(log, logging.WARNING, "fleet.process_restarts", process=number, ended_with=told(code), pause_s=pause)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), pause)

    def _give_up(self, number: int, code: int, deaths: int) -> int:
        why = "no restart puts that right" if code in HOPELESS else f"{deaths} times in a row within {STEADY_S:g} s"
        event(
            log, logging.ERROR, "fleet.gave_up", process=number, ended_with=told(code), why=why,
            remedy="mend what its last lines say; the other processes are stopped",
        )  # fmt: skip
        self.stop()
        return _as_exit_code(code)


class Running:
    """One process, and the line to it."""

    def __init__(self, process: asyncio.subprocess.Process, line: StopLine) -> None:
        self._process = process
        self._line = line

    def stop(self) -> None:
        """Have it stop; a second time: at once."""
        if not self._line.stop():
            self.signal(signal.SIGTERM)

    def signal(self, number: signal.Signals) -> None:
        """Signal it, unless it has ended."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)  # Process.send_signal polls, and may reap what asyncio waits for


def _as_exit_code(code: int) -> int:
    """As a shell tells of a process that a signal ended."""
    return code if code >= 0 else 128 - code


def told(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
