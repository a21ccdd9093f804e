"""A command on a terminal: what it draws, and keys that are pressed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.support.eventually import eventually_now

CHECKOUT = Path(__file__).parents[2]
_PROGRAM = """
import contextlib, fcntl, termios
with contextlib.suppress(OSError):  # the process that it starts again has it already
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from redisjobs.cli import main
main()
"""
"""The terminal is the one that sends signals for keys."""
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


class Terminal:
    """`redisjobs …` on a terminal of its own, killed at the end if it still runs.

    Args:
        env: on top of this process's own.
        size: columns and lines.
    """

    def __init__(self, *arguments: object, env: Mapping[str, str], size: tuple[int, int] = (80, 24)) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        command = [sys.executable, "-c", _PROGRAM, *map(str, arguments)]
        self._process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), "TERM": "xterm", **env},
        )  # fmt: skip
        os.close(theirs)
        self._drawn = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._ours, 65_536)
            except OSError:
                return
            if not piece:
                return
            self._drawn += piece

    def text(self) -> str:
        """All that was drawn so far, without the sequences that move and colour."""
        return _SEQUENCE.sub("", bytes(self._drawn).decode(errors="replace"))

    def screens(self) -> list[str]:
        """What was drawn between the movements back to the top."""
        return [_SEQUENCE.sub("", each) for each in bytes(self._drawn).decode(errors="replace").split("\x1b[H")]

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def shows(self, text: str, within: float = 30) -> str:
        """Wait until it has drawn this."""
        eventually_now(lambda: text in self.text() or self._process.poll() is not None, f"it shows {text!r}", within)
        assert text in self.text(), (
            f"it ended with {self._process.returncode}, and never showed {text!r}:\n{self.text()}"
        )
        return self.text()

    def code(self, within: float = 30) -> int:
        """Wait until it ends; its exit code."""
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.text()[-2000:]}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join(5)
        os.close(self._ours)
