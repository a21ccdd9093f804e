"""How far the demo is, in numbers and in plain lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

LINE_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """One look.

    Args:
        elapsed: seconds since the shop opened.
        jobs: the orders that will commit.
        running, retrying, done, dead: orders by their mail, as the ledger has it.
        waiting: live jobs, those that run included.
    """

    elapsed: float = 0.0
    jobs: int = 0
    committed: int = 0
    rolled_back: int = 0
    done: int = 0
    running: int = 0
    retrying: int = 0
    dead: int = 0
    waiting: int = 0

    @property
    def ended(self) -> int:
        """Orders whose mail has come to its end."""
        return self.done + self.dead

    def moved(self, other: Progress) -> bool:
        """Whether anything was committed, ended or settled since that look."""
        return (self.committed, self.ended, self.waiting) != (other.committed, other.ended, other.waiting)


class Screen(Protocol):
    """Who shows the demo while it runs."""

    def show(self, progress: Progress) -> None:
        """How far it is."""

    def tell(self, what: str) -> None:
        """Something happened."""


class Lines:
    """A line a second, and one for each thing that happens: for whatever is no terminal.

    Args:
        write: takes a line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._began = time.monotonic()
        self._next = 0.0
        self._last = Progress()

    def show(self, progress: Progress) -> None:
        """How far it is."""
        if progress.elapsed < self._next:
            return
        self._next = progress.elapsed + LINE_EVERY_S
        rate = (progress.ended - self._last.ended) / max(0.001, progress.elapsed - self._last.elapsed)
        self._last = progress
        self._line(
            f"committed {progress.committed}, rolled back {progress.rolled_back}, done {progress.done}, "
            f"running {progress.running}, retrying {progress.retrying}, dead {progress.dead}; {rate:.0f} mails/s"
        )

    def tell(self, what: str) -> None:
        """Something happened."""
        self._line(f"* {what}")

    def _line(self, text: str) -> None:
        self._write(f"{time.monotonic() - self._began:5.1f} s  {text}")
