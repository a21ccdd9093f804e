"""Temporary folders with short names, and those that a killed host has left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

from redisjobs.embedded.host.plan import MARKER
from redisjobs.errors import ConfigurationError

LONGEST = 60  # bytes of the folder around ours: a socket's whole path has to stay under 104
OTHERS = ("/tmp", "/var/tmp")  # noqa: S108  mkdtemp makes a private folder in one of them
STALE_AFTER = 60.0  # seconds; a younger one may be about to be locked


def make_run_folder() -> Path:
    """A new folder of ours, mode 0700, for the sockets and for data that are not kept."""
    around = _short_folder()
    _sweep(around)
    run = Path(tempfile.mkdtemp(prefix="rj-", dir=around))
    (run / MARKER).touch(0o600)
    return run


def _short_folder() -> Path:
    tried = (tempfile.gettempdir(), *OTHERS, os.environ.get("XDG_RUNTIME_DIR", ""))
    for folder in tried:
        # Postgres reads a comma as the end of a folder's name
        if len(os.fsencode(folder)) <= LONGEST and "," not in folder and os.access(folder, os.W_OK | os.X_OK):
            return Path(folder).absolute()
    raise ConfigurationError(
        f"no folder for sockets: {', '.join(filter(None, tried))} cannot be written or are longer than "
        f"{LONGEST} bytes; set TMPDIR to a short one that can"
    )


def _sweep(around: Path) -> None:
    """Remove the folders of ours that nobody uses any longer."""
    for folder in around.glob("rj-*"):
        with contextlib.suppress(OSError):
            if _is_ours_and_old(folder):
                _remove_if_free(folder)


def _is_ours_and_old(folder: Path) -> bool:
    facts = folder.lstat()
    return facts.st_uid == os.geteuid() and time.time() - facts.st_mtime > STALE_AFTER


def _remove_if_free(folder: Path) -> None:
    """Raises:
    OSError: it is in use, or is not of ours.
    """
    file = os.open(folder / MARKER, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(file)
