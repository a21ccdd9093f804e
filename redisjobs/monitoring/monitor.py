"""One process as those see it who watch it: its HTTP server and its liveness file."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Self

from redisjobs.base.durations import whole
from redisjobs.base.service import Part
from redisjobs.logs import event
from redisjobs.monitoring.liveness import LivenessFile
from redisjobs.monitoring.pulse import Pulse
from redisjobs.monitoring.server import Page, Pages, Server

log = logging.getLogger("redisjobs.monitoring")


class Monitor:
    """Answers `/health` and `/ready`, and touches a file, for one worker or relay of this process.

    It answers from the moment it is entered; until `watching` it says that the role is starting.

    Args:
        role: worker, relay.
        port: of the HTTP server; None: there is none. 0: any that is free.
        host: where it listens; empty: on all addresses.
        liveness_file: touched every second while the role lives.

    Raises:
        ConfigurationError: port, host or file cannot be used.
        PortTaken: another process listens there.
    """

    def __init__(
        self, role: str, *, port: int | None = None, host: str = "", liveness_file: Path | None = None
    ) -> None:
        self.role = role
        self.pulse = Pulse()
        self._server: Server | None = None
        if port is not None:
            self._server = Server(host, whole("http_port", port, least=0, most=65_535), self._pages())
        self._file = None if liveness_file is None else LivenessFile(liveness_file, self.pulse)

    @property
    def port(self) -> int | None:
        """Where the HTTP server listens."""
        return None if self._server is None else self._server.port

    def __enter__(self) -> Self:
        if self._server is not None:
            self._server.start()
            event(log, logging.INFO, "http.serving", port=self._server.port)
        if self._file is not None:
            self._file.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.stop()
        if self._server is not None:
            self._server.stop()

    @contextlib.asynccontextmanager
    async def watching(self, part: Part) -> AsyncGenerator[None]:
        """Inside the block it speaks for this part, which runs in this event loop."""
        if self._server is None and self._file is None:
            yield
            return
        self.pulse.start(part)
        try:
            yield
        finally:
            self.pulse.stop()

    def _pages(self) -> Pages:
        return {"/health": lambda _: self._health(), "/ready": lambda _: self._readiness()}

    def _health(self) -> Page:
        verdict = self.pulse.verdict()
        status = "alive" if verdict.live else "hangs"
        return Page.json(200 if verdict.live else 503, self._told(status, verdict.sick))

    def _readiness(self) -> Page:
        verdict = self.pulse.verdict()
        status = "ready" if verdict.ready else "not ready"
        return Page.json(200 if verdict.ready else 503, self._told(status, verdict.sick + verdict.busy))

    def _told(self, status: str, why: tuple[str, ...]) -> dict[str, object]:
        return {"role": self.role, "status": status, "why": list(why)}
