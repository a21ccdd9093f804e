"""Why a job does not go on, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job does not go on.

    Args:
        code: stable, for machines.
        remedy: a command that takes the reason away, where there is one.
    """

    code: str
    text: str
    remedy: str | None = None
