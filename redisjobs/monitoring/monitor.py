"""One process as those see it who watch it: its HTTP server, its metrics and its liveness file."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from redisjobs.base.durations import whole
from redisjobs.base.service import Part
from redisjobs.logs import event
from redisjobs.monitoring.family import Family, Sample
from redisjobs.monitoring.liveness import LivenessFile
from redisjobs.monitoring.pulse import Pulse
from redisjobs.monitoring.server import Page, Pages, Server

NO_METRICS = "install them: pip install 'redisjobs-pg[metrics]'"

log = logging.getLogger("redisjobs.monitoring")


class Monitor:
    """Answers `/health`, `/ready` and `/metrics`, and touches a file, for one worker or relay of this process.

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
        self._tell: Callable[[], Iterable[Family]] = tuple[Family, ...]
        self._exposition: Any = None
        if port is not None and importlib.util.find_spec("prometheus_client") is not None:
            self._exposition = importlib.import_module("redisjobs.monitoring.exposition").Exposition(self._families)
        self._server: Server | None = None
        if port is not None:
            self._server = Server(host, whole("http_port", port, least=0, most=65_535), self._pages())
        self._file = None if liveness_file is None else LivenessFile(liveness_file, self.pulse)

    @property
    def port(self) -> int | None:
        """Where the HTTP server listens."""
        return None if self._server is None else self._server.port

    @property
    def serves_metrics(self) -> bool:
        """Whether metrics are served, so that counting is worth it."""
        return self._exposition is not None

    def __enter__(self) -> Self:
        if self._server is not None:
            self._server.start()
            event(
                log,
                logging.INFO,
                "http.serving",
                port=self._server.port,
                metrics="on" if self.serves_metrics else NO_METRICS,
            )
        if self._file is not None:
            self._file.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.stop()
        if self._server is not None:
            self._server.stop()

    @contextlib.asynccontextmanager
    async def watching(self, part: Part, tell: Callable[[], Iterable[Family]] | None = None) -> AsyncGenerator[None]:
        """Inside the block it speaks for this part, which runs in this event loop.

        Args:
            tell: the metrics of the part, asked at each scrape, in another thread.
        """
        if self._server is None and self._file is None:
            yield
            return
        self.pulse.start(part)
        self._tell = tell or self._tell
        try:
            yield
        finally:
            self.pulse.stop()

    def _pages(self) -> Pages:
        return {"/health": lambda _: self._health(), "/ready": lambda _: self._readiness(), "/metrics": self._metrics}

    def _health(self) -> Page:
        verdict = self.pulse.verdict()
        status = "alive" if verdict.live else "hangs"
        return Page.json(200 if verdict.live else 503, self._told(status, verdict.sick))

    def _readiness(self) -> Page:
        verdict = self.pulse.verdict()
        status = "ready" if verdict.ready else "not ready"
        return Page.json(200 if verdict.ready else 503, self._told(status, verdict.sick + verdict.busy))

    def _metrics(self, accept: str) -> Page:
        if self._exposition is None:
            return Page(501, f"{NO_METRICS}\n".encode())
        return Page(200, *self._exposition.page(accept))

    def _families(self) -> Iterator[Family]:
        named = ((self.role, version("redisjobs-pg")), 1.0)
        yield Family("redisjobs_build_info", "gauge", "Which redisjobs this is.", ("role", "version"), [named])
        ready: Sample = ((self.role,), self.pulse.verdict().ready)
        text = "1 while its stores answer, and it neither starts nor drains."
        yield Family("redisjobs_ready", "gauge", text, ("role",), [ready])
        yield from self._tell()

    def _told(self, status: str, why: tuple[str, ...]) -> dict[str, object]:
        return {"role": self.role, "status": status, "why": list(why)}
