"""Sends one request and reads a bounded answer: no redirects, no proxies, no cookies, nothing unpacked, no repeats."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

import httpcore2

from redisjobs.webhooks.addresses import Allowed
from redisjobs.webhooks.answers import KEPT_BYTES, Answer, NoAnswer
from redisjobs.webhooks.guard import Guard, Resolve, resolve
from redisjobs.webhooks.sender import Sender
from redisjobs.webhooks.target import Target

KEPT_OPEN_S = 30.0
MOST_KEPT_OPEN = 50
MOST_OPEN = 10_000
"""The slots of the worker are the limit; this one never is."""

_FAILURES = (
    httpcore2.NetworkError, httpcore2.TimeoutException, OSError, ssl.SSLError, UnicodeError, EOFError,
)  # fmt: skip


class HttpSender(Sender):
    """Over HTTP/1.1, with connections that are kept open for a while.

    httpcore2 does what httpx2 would do, one layer below: httpx2 writes every URL into the log, and a webhook's URL
    may hold a secret.

    Args:
        tls: the authorities that are trusted; None: those of this machine.
    """

    def __init__(self, allowed: Allowed, tls: ssl.SSLContext | None = None, resolve: Resolve = resolve) -> None:
        context = tls or ssl.create_default_context()
        self._pools = {
            "https": _pool(Guard(allowed, resolve=resolve), context),
            "http": _pool(Guard(allowed, only_listed=True, resolve=resolve), context),
        }

    async def post(self, target: Target, headers: Mapping[str, str], body: bytes, timeout: float) -> Answer:
        """As `Sender.post`."""
        try:
            async with asyncio.timeout(timeout):
                return await self._post(target, headers, body, timeout)
        except TimeoutError:
            raise NoAnswer(f"no whole answer within {timeout:g} s") from None
        except httpcore2.ProtocolError as error:  # behind a colon it has bytes that came, and these are for no log
            raise NoAnswer(f"its answer is no HTTP, or broke off: {str(error).partition(':')[0]}") from None
        except _FAILURES as error:
            raise NoAnswer(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None

    async def close(self) -> None:
        """As `Sender.close`."""
        for pool in self._pools.values():
            await pool.aclose()

    async def _post(self, target: Target, headers: Mapping[str, str], body: bytes, timeout: float) -> Answer:
        url = httpcore2.URL(
            scheme=target.scheme.encode(), host=target.host.encode(), port=target.port, target=target.path.encode()
        )
        sent = [("Host", target.host_header), *headers.items(), ("Content-Length", str(len(body)))]
        pieces = [(name.encode("ascii"), value.encode("ascii")) for name, value in sent]
        limits = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), timeout)}
        pool = self._pools[target.scheme]
        async with pool.stream(b"POST", url, headers=pieces, content=body, extensions=limits) as response:
            received = bytearray()
            async for piece in response.aiter_stream():
                received += piece
                if len(received) >= KEPT_BYTES:
                    break
        return Answer(response.status, _first_of_each(response.headers), bytes(received[:KEPT_BYTES]))


def _pool(guard: Guard, context: ssl.SSLContext) -> httpcore2.AsyncConnectionPool:
    return httpcore2.AsyncConnectionPool(
        ssl_context=context,
        max_connections=MOST_OPEN,
        max_keepalive_connections=MOST_KEPT_OPEN,
        keepalive_expiry=KEPT_OPEN_S,
        network_backend=guard,
    )


def _first_of_each(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers:
        found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return found
