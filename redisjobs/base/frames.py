"""Messages between two processes over a stream socket: a length, then msgpack of plain values."""

from __future__ import annotations

import os
import socket
import struct
import threading
from typing import Any, TypeAlias

import msgpack

Message: TypeAlias = dict[str, Any]

_LENGTH = struct.Struct("!I")


class Frames:
    """One end. Any thread may send; one reads."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._owner = os.getpid()
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """For polling."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send one message, whole. A process that was forked off here has no say: it would talk in between.

        Raises:
            OSError: the other end is gone.
        """
        if os.getpid() != self._owner:
            return
        packed: bytes = msgpack.packb(message, default=str, unicode_errors="surrogatepass")
        with self._sending:
            self._socket.sendall(_LENGTH.pack(len(packed)) + packed)

    def receive(self) -> Message | None:
        """The next message; None: the other end is gone."""
        head = self._exactly(_LENGTH.size)
        body = None if head is None else self._exactly(_LENGTH.unpack(head)[0])
        if body is None:
            return None
        message: Message = msgpack.unpackb(body, unicode_errors="surrogatepass", strict_map_key=False)
        return message

    def close(self) -> None:
        """Let the other end read that this one is gone."""
        self._socket.close()

    def _exactly(self, size: int) -> bytes | None:
        parts: list[bytes] = []
        while size > 0:
            try:
                part = self._socket.recv(min(size, 1 << 20))
            except OSError:
                return None
            if not part:
                return None
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
