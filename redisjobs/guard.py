"""A process that outlives a killed worker for a moment, to kill what the bodies in processes have started.

The kernel ends the process of a body together with the worker, and nobody those that the body has started. They are in
its process group; the guard is told of each group, and kills those that are left when the worker is gone. Run as a
script, this file is the guard: it imports the standard library alone, and is deaf to stop signals, which may be sent
to all processes of a unit.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys

DEAF_TO = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Guard:
    """The worker's side. For threads; that the guard itself was killed changes nothing here."""

    def __init__(self) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, DEAF_TO)  # the process inherits it
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and this file
                [sys.executable, "-I", "-S", __file__, str(os.getpid())],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                cwd="/", start_new_session=True, bufsize=0,
            )  # fmt: skip
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def watch(self, group: int) -> None:
        """Kill this process group if the worker ends without a word."""
        self._say(f"+{group}\n")

    def forget(self, group: int) -> None:
        """It is gone: its number may be given to others."""
        self._say(f"-{group}\n")

    def close(self) -> None:
        """End the guard: every group was forgotten."""
        self._process.kill()
        self._process.communicate()

    def _say(self, line: str) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # the guard is gone, or closed
                self._process.stdin.write(line.encode())


def _main(worker: int) -> None:
    groups: set[int] = set()
    said = b""
    ends = [0]
    with contextlib.suppress(OSError, AttributeError):  # else the end of the pipe must do, which a fork may hold open
        handle = os.pidfd_open(worker)
        if os.getppid() == worker:
            ends.append(handle)
    while True:
        ready, _, _ = select.select(ends, [], [])
        if 0 not in ready:
            break
        piece = os.read(0, 4096)
        if not piece:
            break
        *lines, said = (said + piece).split(b"\n")
        for line in lines:
            (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
