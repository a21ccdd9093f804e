"""Exit codes, after sysexits.h, and how an error is told to a person."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import IO, Any

import click

from redisjobs.cli.hints import hint
from redisjobs.errors import ConfigurationError, PortTaken, RedisjobsError, StoreUnavailable

FAILED = 1
UNAVAILABLE = 69
CONFIGURATION = 78
INTERRUPTED = 130


class Fault(click.ClickException):
    """What goes wrong in front of a user: a text that says what to do, and an exit code; never a traceback."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        setattr(self, "exit_code", code)  # noqa: B010 - click declares it for the class, and reads it from the instance

    def show(self, file: IO[Any] | None = None) -> None:
        """Write it to stderr."""
        click.echo(f"Error: {self.format_message()}", file=file, err=True)


@contextlib.contextmanager
def in_exit_codes() -> Generator[None]:
    """Turns the errors of the library into texts and exit codes: once, here."""
    try:
        yield
    except RedisjobsError as error:
        raise Fault(hint(str(error)), code_of(error)) from error
    except click.ClickException as error:
        setattr(error, "message", hint(error.message))  # noqa: B010 - click declares it as final, and shows the instance's
        raise


def code_of(error: RedisjobsError) -> int:
    """The exit code that an error ends the command with."""
    if isinstance(error, ConfigurationError):
        return CONFIGURATION
    return UNAVAILABLE if isinstance(error, (StoreUnavailable, PortTaken)) else FAILED
