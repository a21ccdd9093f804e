"""How a parent tells a process of its own to stop: in words over a socket, which no signal is mistaken for.

A signal to all processes of a unit, or to a whole group, reaches a process twice: by itself, and through its parent,
who passes on what it gets. Both tell of the same stop. So the process counts the signals that it sees and the words of
its parent apart, and the higher count is how often it was told (`Signals`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

_STOP, _LISTENS = b"s", b"l"


class StopLine:
    """The end of the parent, for one process."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.settimeout(0)
        self._listens = False

    @property
    def fd(self) -> int:
        """The other end, which a process that is started inherits and gives to `obey`."""
        return self._theirs.fileno()

    def taken(self) -> int:
        """`fd`, in a process that was forked off: the end of the parent is closed here."""
        self._ours.close()
        return self._theirs.detach()

    def handed_over(self) -> None:
        """The process has its end: the parent keeps none of it."""
        self._theirs.close()

    def stop(self) -> bool:
        """Tell it to stop, once more; False: it does not listen yet, so it needs a signal too."""
        with contextlib.suppress(OSError):  # it has ended
            self._ours.send(_STOP)
            self._listens = self._listens or self._ours.recv(1) == _LISTENS
        return self._listens

    def close(self) -> None:
        """The process has ended, or was never started."""
        self._ours.close()
        self._theirs.close()


class Parent:
    """The end of the process.

    Args:
        fd: from the parent; what this process starts does not get it.
    """

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.set_inheritable(inheritable=False)
        self._socket.settimeout(0)
        self._told = 0

    def listen(self, told: Callable[[int], None]) -> None:
        """From now on `told` hears in the loop how often the parent has said so; its own end counts as once."""
        asyncio.get_running_loop().add_reader(self._socket, self._hear, told)
        with contextlib.suppress(OSError):  # it has ended: that is read
            self._socket.send(_LISTENS)

    def ignore(self) -> None:
        """Hear nothing more."""
        asyncio.get_running_loop().remove_reader(self._socket)

    def _hear(self, told: Callable[[int], None]) -> None:
        try:
            words = self._socket.recv(64)
        except BlockingIOError:
            return
        except OSError:
            words = b""
        if not words:
            self.ignore()
        self._told = self._told + len(words) if words else max(1, self._told)
        told(self._told)


_parents: list[Parent] = []


def obey(fd: int) -> None:
    """The process that has the other end of this socket tells this one when to stop."""
    _parents[:] = [Parent(fd)]


def parent() -> Parent | None:
    """Who tells this process to stop, beside signals."""
    return _parents[0] if _parents else None
