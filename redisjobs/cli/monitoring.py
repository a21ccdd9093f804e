"""The options of a long-running command for those who watch it: an HTTP port and a file."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from redisjobs.monitoring import Monitor


@dataclass(frozen=True, slots=True)
class Watch:
    """What was asked for. Where nothing was, nothing is started."""

    port: int | None
    host: str
    liveness_file: Path | None

    def monitor(self, role: str) -> Monitor:
        """What answers for this process.

        Raises:
            ConfigurationError: port, host or file cannot be used.
            PortTaken: another process listens there.
        """
        return Monitor(role, port=self.port, host=self.host, liveness_file=self.liveness_file)

    def of_process(self, number: int) -> Watch:
        """For one of several processes of a command, from 0: ports in a row, and after the first FILE.1, FILE.2."""
        if number == 0:
            return self
        port = self.port + number if self.port else self.port
        file = self.liveness_file and self.liveness_file.with_name(f"{self.liveness_file.name}.{number}")
        return Watch(port, self.host, file)


_OPTIONS = (
    click.option(
        "--http-port", type=int, metavar="PORT", envvar="REDISJOBS_HTTP_PORT",
        help="Serve /health, /ready and /metrics here, in the open; further processes at the ports that follow.",
    ),
    click.option(
        "--http-host", default="", metavar="ADDRESS", envvar="REDISJOBS_HTTP_HOST",
        help="Where --http-port listens; by default on all addresses.",
    ),
    click.option(
        "--liveness-file", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
        envvar="REDISJOBS_LIVENESS_FILE", help="Touched every second while the event loop and its rounds go on.",
    ),
)  # fmt: skip


def watch_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the command a `watch`."""

    @functools.wraps(function)
    def call(*args: Any, http_port: int | None, http_host: str, liveness_file: Path | None, **rest: Any) -> Any:
        return function(*args, watch=Watch(http_port, http_host, liveness_file), **rest)

    decorated: Callable[..., Any] = call
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
