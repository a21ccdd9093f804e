"""Debian packages for the tests: downloaded as any user, unpacked into the cache folder and never installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "redisjobs" / "binaries"
LIBRARIES = r"lib[\w.+-]+|lua-[\w.+-]+"


class MissingBinary(RuntimeError):
    """A program that a test needs cannot be had here."""


def debian_folder(name: str, packages: Sequence[str], *, kin: str = LIBRARIES) -> Path:
    """The folder of these packages and of what they need, as if it were the root of the file system.

    Args:
        name: of the folder in the cache.
        kin: which packages that they depend on come too, if this system has not installed them.

    Raises:
        MissingBinary: they cannot be fetched.
    """
    return cached(name, lambda place: _unpack(packages, kin, place))


def library_path(folder: Path) -> str:
    """LD_LIBRARY_PATH for what was unpacked here."""
    found = {str(file.parent) for file in folder.rglob("*.so*") if re.search(r"\.so(\.\d+)*$", file.name)}
    return ":".join(sorted(found))


def cached(name: str, fill: Callable[[Path], None]) -> Path:
    """The cache folder of this name; filled beside it and then renamed, so that runs do not meet."""
    folder = CACHE / name
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=CACHE))
        try:
            fill(place)
            place.chmod(0o755)
            place.rename(folder)
        except OSError:
            if not folder.exists():  # else another run was first
                raise
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return folder


def _unpack(packages: Sequence[str], kin: str, place: Path) -> None:
    named = " ".join(packages)
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise MissingBinary(f"this is no Debian to fetch {named} from: install it")
    options: list[str] = []
    if not _apt("apt-cache", [], place, "show", packages[0]).stdout:  # no package lists on this machine: read our own
        (place / "lists" / "partial").mkdir(parents=True)
        options = ["-o", f"Dir::State::Lists={place}/lists", "-o", f"Dir::Cache={place}/apt"]
        _apt("apt-get", options, place, "update")
    wanted = sorted({*packages, *_needed(packages, kin, options, place)})
    said = _apt("apt-get", options, place, "download", *wanted)
    if said.returncode:
        raise MissingBinary(f"cannot fetch {' '.join(wanted)}; install {named}:\n{said.stderr}")
    for archive in place.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(archive), str(place)], check=True)
        archive.unlink()
    for scratch in ("lists", "apt"):
        shutil.rmtree(place / scratch, ignore_errors=True)


def _needed(packages: Sequence[str], kin: str, options: list[str], place: Path) -> set[str]:
    only = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")]
    said = _apt("apt-cache", options, place, "depends", "--recurse", *only, *packages)
    names = [found[0] for found in re.finditer(rf"^(?:{kin})$", said.stdout, re.MULTILINE)]
    installed = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\n"], capture_output=True, text=True).stdout
    return set(names) - set(installed.split()) - {"libc6", "libgcc-s1"}


def _apt(tool: str, options: list[str], place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tool, *options, *arguments], cwd=place, capture_output=True, text=True)
