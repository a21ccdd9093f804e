"""Where requests and replies begin and end, in the protocols of Redis and of Postgres.

Enough for a proxy to say which reply belongs to which request: both servers answer in order.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from typing import Protocol

_STREAMING = {"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR", "SYNC", "PSYNC"}
_SSL_REQUEST, _GSS_REQUEST, _CANCEL_REQUEST = 80877103, 80877104, 80877102


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent, as far as one answer covers it.

    Attributes:
        raw: the bytes.
        words: for Redis the command and its arguments; for Postgres the texts of its statements.
        answered: the server will answer it.
    """

    raw: bytes
    words: tuple[bytes, ...] = ()
    answered: bool = True

    @property
    def command(self) -> str:
        """The first word in capitals: `XADD`, or `COMMIT`."""
        return self.words[0].split(None, 1)[0].decode(errors="replace").upper() if self.words else ""

    @property
    def sha(self) -> str:
        """The SHA-1 of the script that this request runs, or an empty string."""
        if self.command in ("EVALSHA", "EVALSHA_RO"):
            return self.words[1].decode().lower()
        if self.command in ("EVAL", "EVAL_RO"):
            return hashlib.sha1(self.words[1], usedforsecurity=False).hexdigest()
        return ""

    def __str__(self) -> str:
        return b" ".join(self.words[:3])[:120].decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server sent: an answer, a piece of one, or something that nobody asked for.

    Attributes:
        ends: an answer is complete with it.
        pushed: it belongs to no request.
    """

    raw: bytes
    ends: bool = True
    pushed: bool = False


class Wire(Protocol):
    """Cuts the bytes of one connection; what is incomplete stays inside until its rest comes."""

    def requests(self, data: bytes) -> list[Request]: ...

    def replies(self, data: bytes) -> list[Reply]: ...


class NoWire:
    """Bytes pass as they come."""

    def requests(self, data: bytes) -> list[Request]:
        return [Request(data, answered=False)]

    def replies(self, data: bytes) -> list[Reply]:
        return [Reply(data, pushed=True)]


class RedisWire:
    """RESP 2 and 3. A connection that subscribes or monitors is not cut any more."""

    def __init__(self) -> None:
        self._asked = _Buffer()
        self._told = _Buffer()
        self._words: list[bytes] = []
        self._missing = 0  # arguments of the request, or elements of the reply, still to come
        self._owed = 1
        self._streaming = False

    def requests(self, data: bytes) -> list[Request]:
        if self._streaming:
            return [Request(data, answered=False)]
        self._asked.feed(data)
        found = []
        while (request := self._request()) is not None:
            found.append(request)
            self._streaming = self._streaming or request.command in _STREAMING
        return found

    def _request(self) -> Request | None:
        buffer = self._asked
        while True:
            start = buffer.position
            line = buffer.line()
            if line is None:
                return None
            if not self._missing and not self._words:
                if not line.startswith(b"*"):
                    return Request(buffer.take(), tuple(line.split()))
                self._missing = int(line[1:])
                continue
            word = buffer.exactly(int(line[1:]) + 2)
            if word is None:
                buffer.position = start
                return None
            self._words.append(word[:-2])
            self._missing -= 1
            if not self._missing:
                words, self._words = tuple(self._words), []
                return Request(buffer.take(), words)

    def replies(self, data: bytes) -> list[Reply]:
        if self._streaming:
            rest, self._told = self._told.everything(), _Buffer()
            return [Reply(rest + data, pushed=True)]
        self._told.feed(data)
        found = []
        while (reply := self._reply()) is not None:
            found.append(reply)
        return found

    def _reply(self) -> Reply | None:
        buffer = self._told
        while self._owed:
            start = buffer.position
            line = buffer.line()
            if line is None:
                return None
            kind, size = line[:1], line[1:]
            if kind in b"$=!" and int(size) >= 0 and buffer.exactly(int(size) + 2) is None:
                buffer.position = start
                return None
            self._owed += _elements(kind, size) - 1
        self._owed = 1
        raw = buffer.take()
        return Reply(raw, pushed=raw.startswith(b">"))


class PostgresWire:
    """The protocol of Postgres, unencrypted: an answer ends with ReadyForQuery."""

    def __init__(self) -> None:
        self._asked = _Buffer()
        self._told = _Buffer()
        self._started = False
        self._prepared: dict[bytes, bytes] = {}
        self._texts: list[bytes] = []

    def requests(self, data: bytes) -> list[Request]:
        self._asked.feed(data)
        found = []
        if not self._started and (first := self._startup()) is not None:
            found.append(first)
        while self._started and (request := self._request()) is not None:
            found.append(request)
        return found

    def _startup(self) -> Request | None:
        head = self._asked.peek(8)
        if head is None:
            return None
        size, code = struct.unpack("!II", head)
        assert code not in (_SSL_REQUEST, _GSS_REQUEST), "connect with sslmode=disable and gssencmode=disable"
        if self._asked.exactly(size) is None:
            return None
        self._started = True
        cancels = code == _CANCEL_REQUEST
        return Request(self._asked.take(), (b"CANCEL" if cancels else b"STARTUP",), answered=not cancels)

    def _request(self) -> Request | None:
        """The messages up to a Query or Sync; those that no answer follows go as they come."""
        while (message := self._message(self._asked)) is not None:
            kind, body = message
            self._remember(kind, body)
            if kind in b"QSF":
                words, self._texts = tuple(self._texts), []
                return Request(self._asked.take(), words)
            if kind not in b"PBDEC":
                return Request(self._asked.take(), answered=False)
        return None

    def _remember(self, kind: bytes, body: bytes) -> None:
        if kind == b"Q":
            self._texts.append(body.rstrip(b"\0"))
        elif kind == b"P":
            name, text = body.split(b"\0")[:2]
            self._prepared[name] = text
        elif kind == b"B":
            self._texts.append(self._prepared.get(body.split(b"\0")[1], b""))

    def replies(self, data: bytes) -> list[Reply]:
        self._told.feed(data)
        found = []
        while (message := self._message(self._told)) is not None:
            found.append(Reply(self._told.take(), ends=message[0] == b"Z"))
        return found

    @staticmethod
    def _message(buffer: _Buffer) -> tuple[bytes, bytes] | None:
        head = buffer.peek(5)
        if head is None:
            return None
        whole = buffer.exactly(struct.unpack("!I", head[1:])[0] + 1)
        return None if whole is None else (head[:1], whole[5:])


@dataclass(slots=True)
class _Buffer:
    """Bytes that came, and how far they have been read."""

    data: bytearray = field(default_factory=bytearray)
    position: int = 0

    def feed(self, data: bytes) -> None:
        self.data += data

    def line(self) -> bytes | None:
        end = self.data.find(b"\r\n", self.position)
        if end < 0:
            return None
        line, self.position = bytes(self.data[self.position : end]), end + 2
        return line

    def peek(self, size: int) -> bytes | None:
        end = self.position + size
        return bytes(self.data[self.position : end]) if end <= len(self.data) else None

    def exactly(self, size: int) -> bytes | None:
        found = self.peek(size)
        if found is not None:
            self.position += size
        return found

    def take(self) -> bytes:
        """What has been read since the last take."""
        taken = bytes(self.data[: self.position])
        del self.data[: self.position]
        self.position = 0
        return taken

    def everything(self) -> bytes:
        return bytes(self.data)


def _elements(kind: bytes, size: bytes) -> int:
    """How many replies follow inside of this one."""
    if kind in b"*~>":
        return max(int(size), 0)
    if kind == b"%":
        return 2 * int(size)
    if kind == b"|":
        return 2 * int(size) + 1
    return 0
