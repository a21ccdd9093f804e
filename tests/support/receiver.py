"""A receiver of webhooks that answers as it is told, byte for byte, and remembers what came."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Behaviour: TypeAlias = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Received:
    """A request. `at` is its moment in seconds of the monotonic clock."""

    line: str
    headers: dict[str, str]
    body: bytes
    at: float = field(default_factory=time.monotonic)


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """A whole answer; `retry_after="5"` is the header retry-after."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class Receiver:
    """Listens on 127.0.0.1. The first answer is for the first request, the last one for all that follow.

    Attributes:
        received: the requests, in order.
        open: how many requests are being answered now, and `most_open`: at the same time.
    """

    def __init__(self, *answers: Behaviour, tls: ssl.SSLContext | None = None) -> None:
        self.answers: list[Behaviour] = list(answers) or [answer(204)]
        self.received: list[Received] = []
        self.connections = self.open = self.most_open = 0
        self._tls = tls
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/hook"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                await self._one(reader, writer)
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.received.append(Received(head[0], headers, body))
        behaviour = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            if isinstance(behaviour, bytes):
                writer.write(behaviour)
                await writer.drain()
            else:
                await behaviour(writer)
        finally:
            self.open -= 1


def certificate(folder: Path, name: str = "localhost", *, days: int = 1) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS for a server whose certificate bears this name, and for a client that trusts it; below 0 it is over."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / f"{name}.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    client = ssl.create_default_context(cafile=str(pem))
    return server, client
