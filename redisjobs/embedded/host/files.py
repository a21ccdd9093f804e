"""Files and folders of a host: locks, the log, the state. What root makes belongs to the owner of its folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path


def lock(path: Path) -> bool:
    """Hold the lock until this process ends; False: another one holds it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    _give(path)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_folder(folder: Path) -> None:
    """Make it, and those around it, if they are not there."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _give(folder)


def open_log(path: Path, descriptor: int) -> Path:
    """Send the descriptor to a new log; the last one stays as `.old`."""
    with contextlib.suppress(FileNotFoundError):
        path.replace(f"{path}.old")
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    _give(path)
    os.dup2(file, descriptor)
    return path


def write(path: Path, text: str) -> None:
    """Write a private file, at once or not at all."""
    draft = Path(f"{path}.new")
    draft.touch(0o600)
    draft.write_text(text)
    _give(draft)
    draft.replace(path)


def _give(path: Path) -> None:
    owner = path.parent.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.chown(path, owner.st_uid, owner.st_gid)
