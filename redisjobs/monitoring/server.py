"""A small HTTP server in threads of its own: it answers also while the event loop of its process hangs."""

from __future__ import annotations

import errno
import json
import logging
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from redisjobs.errors import ConfigurationError, PortTaken
from redisjobs.logs import event

REQUEST_S = 5.0
"""How long a client may be silent in the midst of a request."""
AT_ONCE = 16
"""Requests at the same time; what comes beyond is closed unanswered."""
LOOK_S = 0.1

log = logging.getLogger("redisjobs.monitoring")


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    status: int
    body: bytes
    kind: str = "text/plain; charset=utf-8"

    @classmethod
    def json(cls, status: int, document: Mapping[str, object]) -> Page:
        """A document."""
        return cls(status, json.dumps(document).encode() + b"\n", "application/json")


Pages: TypeAlias = Mapping[str, Callable[[str], Page]]
"""What answers a path, given the request's `Accept`."""


class Server:
    """Serves pages from `start` to `stop`.

    The port is taken when it is made, so that a mistake is known before any work begins.

    Args:
        host: a name or address of this machine; empty: all of them.
        port: 0: any that is free.

    Raises:
        ConfigurationError: this host or port cannot be listened on.
        PortTaken: another process does.
    """

    def __init__(self, host: str, port: int, pages: Pages) -> None:
        try:
            self._http = _Http(host, port, pages)
        except (OSError, OverflowError) as error:
            raise _in_our_words(host, port, error) from error
        self.port: int = self._http.server_address[1]
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to answer."""
        serve = self._http.serve_forever
        self._thread = threading.Thread(target=serve, args=(LOOK_S,), name="redisjobs-http", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Give the port back."""
        if self._thread is not None:
            self._http.shutdown()
            self._thread.join()
            self._thread = None
        self._http.server_close()


def _in_our_words(host: str, port: int, error: Exception) -> ConfigurationError | PortTaken:
    place = f"{host or 'any address'}, port {port}"
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return PortTaken(f"--http-port: another process listens on {place}: end it, or pass another port")
    if isinstance(error, PermissionError):
        return ConfigurationError(f"--http-port: this user may not listen on {place}: pass a port above 1023")
    return ConfigurationError(f"--http-host: cannot listen on {place}: {error}: pass an address of this machine")


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_port = False  # a second process on the same port must fail, and not get every other request

    def __init__(self, host: str, port: int, pages: Pages) -> None:
        self.pages = pages
        self._room = threading.BoundedSemaphore(AT_ONCE)
        if not host and socket.has_dualstack_ipv6():  # one socket for both kinds of addresses
            host = "::"
        self.address_family = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)[0][0]  # noqa: S104
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        if self.server_address[0] == "::":
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # that of HTTPServer looks the machine's name up in the DNS, which may take its time
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        level = logging.DEBUG if isinstance(error, OSError) else logging.ERROR  # a client that has gone is nothing
        event(log, level, "http.request_failed", error=f"{type(error).__name__}: {error}", exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_S
    server_version, sys_version = "redisjobs", ""
    server: _Http  # pyright: ignore[reportIncompatibleVariableOverride]  # it is made by this server alone

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        make = self.server.pages.get(urlsplit(self.path).path)
        here = ", ".join(self.server.pages)
        page = make(self.headers.get("Accept", "")) if make else Page(404, f"not here; there are {here}\n".encode())
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_body:
            self.wfile.write(page.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server gives it
        """Probes come every few seconds, and say nothing new."""
