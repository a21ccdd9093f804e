"""Server programs that the identity cannot reach, such as those of a virtual environment in a private home."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

from .identity import Identity
from .plan import Binary


def reachable(binary: Binary, identity: Identity, folder: Path) -> Binary:
    """The program where the identity can run it: as it is, or a copy below `folder`."""
    inside = [binary.path / "postgres", binary.path / "initdb"]
    programs = [binary.path] if binary.path.is_file() else inside
    if identity.can(lambda: all(os.access(program, os.R_OK | os.X_OK) for program in programs)):
        return binary
    copied = _copy(binary.tree, folder / binary.flavour)
    return replace(binary, path=copied / binary.path.relative_to(binary.tree))


def _copy(tree: Path, into: Path) -> Path:
    """Copy the tree, and the libraries that a wheel keeps beside it and finds by relative paths."""
    into.mkdir()
    copied = into / tree.name
    if tree.is_dir():
        shutil.copytree(tree, copied, symlinks=True)
    else:
        shutil.copy2(tree, copied)
    libraries = tree.with_name(f"{tree.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, into / libraries.name, symlinks=True)
    _open_up(into)
    return copied


def _open_up(top: Path) -> None:
    """Let everybody read the copy, and run what its owner may run."""
    for path in (top, *top.rglob("*")):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            path.chmod(0o755 if mode & stat.S_IXUSR else 0o644)
