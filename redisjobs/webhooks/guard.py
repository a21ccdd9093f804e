"""Connects a delivery: the name is resolved once, each address is judged, and what was judged is connected to."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from httpcore2 import AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream, ConnectError, ConnectTimeout

from redisjobs.webhooks.addresses import Address, Allowed
from redisjobs.webhooks.answers import AddressRefused

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

MOST_ADDRESSES = 8
"""Addresses of one name that are tried."""


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, in the order in which this machine prefers them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Guard(AsyncNetworkBackend):
    """Opens connections to allowed addresses, and to no others.

    A name may answer with another address each time it is asked (rebinding): so it is asked once, and the connection
    goes to an address of that answer. One closed address in the answer refuses all of it.

    Args:
        only_listed: public addresses are closed too; for `http://`, which shows a delivery to everybody on its way.
        resolve: how names become addresses.
    """

    def __init__(self, allowed: Allowed, *, only_listed: bool = False, resolve: Resolve = resolve) -> None:
        self._allowed = allowed
        self._only_listed = only_listed
        self._resolve = resolve
        self._network = AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> AsyncNetworkStream:
        """Connect to the first address of the host that answers.

        Raises:
            AddressRefused: an address of it is closed to webhooks; nothing was sent.
            ConnectError, ConnectTimeout: it has none, or none answers.
        """
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._checked(host, port)
                return await self._connect(addresses, port, local_address, socket_options)
        except TimeoutError:
            raise ConnectTimeout(f"no connection to {host} within {timeout:g} s") from None

    async def _checked(self, host: str, port: int) -> list[str]:
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise ConnectError(f"the name {host} cannot be resolved: {error}") from None
        for text in found:
            why = self._refusal(text)
            if why is not None:
                raise AddressRefused(f"{host} is {text}, {why}")
        if not found:
            raise ConnectError(f"the name {host} has no address")
        return found[:MOST_ADDRESSES]

    def _refusal(self, text: str) -> str | None:
        try:
            address: Address = ipaddress.ip_address(text)
        except ValueError:
            return "which is no address"
        why = self._allowed.refusal(address)
        if why is not None:
            return f"{why}: webhooks go to public addresses, and to networks that allow=[…] names"
        if self._only_listed and not self._allowed.names(address):
            return "and http:// is not encrypted: use https://, or name its network in allow=[…]"
        return None

    async def _connect(
        self, addresses: list[str], port: int, local_address: str | None, options: Iterable[Any] | None
    ) -> AsyncNetworkStream:
        last: Exception = ConnectError("no address was tried")
        for address in addresses:
            try:
                return Stream(
                    await self._network.connect_tcp(address, port, local_address=local_address, socket_options=options)
                )
            except ConnectError as error:
                last = ConnectError(f"{address} port {port}: {error}")
        raise last


class Stream(AsyncNetworkStream):
    """A connection that is closed also where a timeout cancels its TLS handshake; without this it would stay open."""

    def __init__(self, inner: AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> AsyncNetworkStream:
        try:
            return await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            await self._inner.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
