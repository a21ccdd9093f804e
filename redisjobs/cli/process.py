"""What every long-running command does around its work: early signals, a process 1 of its own, an end that comes."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from redisjobs.base import stops
from redisjobs.base.stops import StopLine
from redisjobs.cli import member
from redisjobs.errors import ConfigurationError

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_FORWARDED = (*STOP_SIGNALS, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGUSR1, signal.SIGUSR2)
END_S = 5.0
"""How long the interpreter may take to end once the work is over: threads of bodies can hold it for ever."""


def prepare() -> None:
    """Obey stop signals from now on: before anything was taken, they end the command with 0.

    As process 1, whose default is to ignore signals and whose duty is to reap orphans, the work is done in a child;
    this function returns only there.
    """
    for each in STOP_SIGNALS:
        signal.signal(each, _end_at_once)
    member.join()
    if os.getpid() == 1:
        _be_process_one()


class Stopped(SystemExit):
    """A stop signal came before anything was taken."""


def _end_at_once(*_: object) -> None:
    raise Stopped(0)


def _be_process_one() -> None:
    watched = {*_FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    line = StopLine()
    child = os.fork()
    if child == 0:
        stops.obey(line.taken())
        os.setpgid(0, 0)  # a Ctrl-C of the terminal reaches it once, through us
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    line.handed_over()
    while True:
        number = signal.sigwait(watched)
        if number in STOP_SIGNALS and line.stop():
            continue
        if number != signal.SIGCHLD:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
        elif (code := _reap(child)) is not None:
            os._exit(code)


def _reap(child: int) -> int | None:
    """Reap whatever has ended; the exit code of the child, once it has."""
    found: int | None = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                found = code if code >= 0 else 128 - code
    return found


def run(work: Coroutine[Any, Any, int], *, uvloop: bool | None = False) -> int:
    """Run the work in an event loop; its exit code.

    Args:
        uvloop: None: where it is installed.

    Raises:
        ConfigurationError: uvloop is asked for and not there.
    """
    factory = _loop_factory(uvloop)
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


def _loop_factory(wanted: bool | None) -> Callable[[], asyncio.AbstractEventLoop] | None:  # noqa: FBT001 - three-valued
    if wanted is False:
        return None
    if importlib.util.find_spec("uvloop") is None:
        if wanted:
            raise ConfigurationError("--uvloop: uvloop is not installed: pip install 'redisjobs-pg[uvloop]'")
        return None
    module: Any = importlib.import_module("uvloop")
    factory: Callable[[], asyncio.AbstractEventLoop] = module.new_event_loop
    return factory


def end_soon(code: int, within: float = END_S) -> None:
    """From now on the process ends in so many seconds, whatever thread would keep it."""

    def end() -> None:
        _flush()
        os._exit(code)

    if within <= 0:
        end()
    timer = threading.Timer(within, end)
    timer.daemon = True
    timer.start()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
