"""The name of the sockets' folder for others: in the data folder, and so the same at each start.

The sockets themselves are in a new temporary folder each time: only that is sure to have a short name, and to be
reached by whomever the servers run as.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

NAME = "sockets"
LONGEST = 103  # bytes of a socket's path, which macOS takes; Linux four more
_FILE = ".s.PGSQL.5432"  # of the two sockets the one with the longer name


def name_of(data: Path) -> Path | None:
    """Where the sockets of this data folder are reached; None: its own name is too long, or libpq splits it."""
    named = data.absolute() / NAME
    fits = len(os.fsencode(named / _FILE)) <= LONGEST and "," not in str(named)
    return named if fits else None


def make(data: Path, sockets: Path) -> Path:
    """Give the sockets their name, which one that was killed may have left; the path to tell others.

    Call it under the lock of the data folder. What is no link of ours stays, and so does the sockets' own path.
    """
    named = name_of(data)
    if named is None:
        return sockets
    with contextlib.suppress(OSError):  # also a file system without links
        remove(data)
        named.symlink_to(sockets)
        return named
    return sockets


def remove(data: Path) -> None:
    """Take the name away; what is no link stays."""
    if (data / NAME).is_symlink():
        (data / NAME).unlink(missing_ok=True)
