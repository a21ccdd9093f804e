"""Tells systemd (`Type=notify`) how a command is: ready once it works, alive while its loop turns, stopping."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncGenerator, Callable

from redisjobs.base.service import Part

LOOK_S = 0.2


@contextlib.asynccontextmanager
async def supervised(part: Part, works: Callable[[], bool]) -> AsyncGenerator[None]:
    """Inside the block the socket named in NOTIFY_SOCKET is told; where that is not set, nothing happens.

    Args:
        works: whether it does what it is for; READY is said when it does for the first time.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        yield
        return
    notices = Notices(address)
    following = asyncio.create_task(_follow(notices, part, works))
    try:
        yield
    finally:
        following.cancel()
        notices.once("STOPPING=1")
        notices.close()


async def _follow(notices: Notices, part: Part, works: Callable[[], bool]) -> None:
    limit = watchdog()
    pause = LOOK_S if limit is None else min(LOOK_S, limit / 3)
    beat_at = time.monotonic()
    while True:
        if part.state == "draining":
            notices.once("STOPPING=1")
        elif works():
            notices.once("READY=1")
        if limit is not None and time.monotonic() >= beat_at:
            notices.say("WATCHDOG=1")
            beat_at = time.monotonic() + limit / 3
        await asyncio.sleep(pause)


def watchdog() -> float | None:
    """Seconds after which a process that says nothing is taken for dead; None where nobody waits for us."""
    microseconds, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or int(microseconds) == 0 or pid not in ("", str(os.getpid())):
        return None
    return int(microseconds) / 1e6


class Notices:
    """The socket of systemd."""

    def __init__(self, address: str) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(0)
        self._said: set[str] = set()

    def once(self, word: str) -> None:
        """Say this, unless it was said before."""
        if word not in self._said:
            self._said.add(word)
            self.say(word)

    def say(self, word: str) -> None:
        """Say this."""
        with contextlib.suppress(OSError):  # a supervisor that does not listen must not cost the work
            self._socket.sendto(word.encode(), self._address)

    def close(self) -> None:
        """Give it back."""
        self._socket.close()
