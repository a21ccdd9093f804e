"""Tells systemd of a fleet as of one service: ready when all are, alive while none hangs, stopping once."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import time
from pathlib import Path
from typing import Self

from redisjobs.cli.supervisor import Notices, watchdog


class FleetNotices:
    """Stands between systemd and the processes, each of which speaks to a socket of its own here.

    Where NOTIFY_SOCKET is not set, nothing happens.
    """

    def __init__(self, count: int) -> None:
        address = os.environ.get("NOTIFY_SOCKET")
        self._count = count
        self._systemd = Notices(address) if address else None
        self._watchdog = watchdog()
        self._ready: set[int] = set()
        self._heard_at: dict[int, float] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._beating: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        if self._systemd is None:
            return self
        self._folder = tempfile.TemporaryDirectory(prefix="redisjobs-")
        for number in range(1, self._count + 1):
            listening = self._sockets[number] = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            listening.settimeout(0)
            listening.bind(self._path(number))
            asyncio.get_running_loop().add_reader(listening, self._hear, number)
        if self._watchdog is not None:
            self._beating = asyncio.create_task(self._beat(self._systemd, self._watchdog), name="watchdog of all")
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping()
        if self._beating is not None:
            self._beating.cancel()
        for listening in self._sockets.values():
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        if self._folder is not None:
            self._folder.cleanup()
        if self._systemd is not None:
            self._systemd.close()

    def environment(self, number: int) -> dict[str, str]:
        """To whom the process of this number speaks; it feeds the watchdog although it is not the main process."""
        return {} if self._systemd is None else {"NOTIFY_SOCKET": self._path(number), "WATCHDOG_PID": ""}

    def gone(self, number: int) -> None:
        """A process has ended: until the next one speaks, nobody waits for it."""
        self._heard_at.pop(number, None)

    def stopping(self) -> None:
        """All are told to stop."""
        if self._systemd is not None:
            self._systemd.once("STOPPING=1")

    def _path(self, number: int) -> str:
        return str(Path(self._folder.name if self._folder else "") / str(number))

    def _hear(self, number: int) -> None:
        try:
            word = self._sockets[number].recv(4096)
        except OSError:
            return
        if word == b"WATCHDOG=1":
            self._heard_at[number] = time.monotonic()
        elif word == b"READY=1":
            self._ready.add(number)
            if len(self._ready) == self._count and self._systemd is not None:
                self._systemd.once("READY=1")

    async def _beat(self, systemd: Notices, limit: float) -> None:
        while True:
            await asyncio.sleep(limit / 3)
            if all(time.monotonic() - heard < limit for heard in self._heard_at.values()):
                systemd.say("WATCHDOG=1")
