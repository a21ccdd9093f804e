"""What bodies and producers write down: lines of JSON in files that no fault touches, each written whole by one call.

A file and not a table: no fault of a server, a link or a process can take from it, delay it or add to it what has been
written, and no connection of its own disturbs the process that writes. All times are of the machine's monotonic clock,
which all processes share.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = "PROGRAMME_BOOKS"
"""The variable that names the folder of a trial's books."""


class Book:
    """One process's lines; those of its former lives stand before them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    @classmethod
    def of_env(cls, name: str) -> Book:
        """The book of this part of the trial that this process belongs to."""
        return cls(Path(os.environ[FOLDER]) / f"{name}.jsonl")

    def write(self, word: str, **said: Any) -> float:
        """One line, and its time; once this returns it stands, whatever becomes of the process."""
        at = time.monotonic()
        line = json.dumps({"word": word, "at": at, **said}).encode() + b"\n"
        written = os.write(self._file, line)
        assert written == len(line), f"only {written} of {len(line)} bytes were written: is the disk full?"
        return at

    def lines(self) -> Iterator[dict[str, Any]]:
        """All that stands in it."""
        return lines(self._path.parent, self._path.stem)


def lines(folder: Path, names: str) -> Iterator[dict[str, Any]]:
    """All lines of the books of this pattern, each with the `book` that it stands in."""
    for path in sorted(folder.glob(f"{names}.jsonl")):
        for line in path.read_text().splitlines():
            yield json.loads(line) | {"book": path.stem}
