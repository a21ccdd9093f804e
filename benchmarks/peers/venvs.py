"""A virtual environment for each peer, made once in a cache folder and again when its requirements change."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from benchmarks.peers.table import Contestant

_WANTED = "wanted.json"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the environments are kept between runs: `redisjobs/peers` below XDG_CACHE_HOME."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "redisjobs" / "peers"


def python_of(contestant: Contestant, cache: Path) -> Path:
    """The interpreter that has a contestant's packages; makes its environment where it is missing or stale.

    Raises:
        RuntimeError: pip could not install them; tells what it said.
    """
    if not contestant.packages:
        return Path(sys.executable)
    folder = cache / contestant.name
    python = folder / "bin" / "python"
    wanted = json.dumps([sys.version, *contestant.packages])
    made = folder / _WANTED
    if not (made.exists() and made.read_text() == wanted):
        shutil.rmtree(folder, ignore_errors=True)
        # Without pip inside: this environment's own installs into the other one, which saves half of the work.
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        _pip(python, "install", "--quiet", *contestant.packages)
        made.write_text(wanted)
    return python


def versions_in(python: Path) -> dict[str, str]:
    """What is installed there, all of it."""
    packages = [str(folder) for folder in python.parents[1].glob("lib/python*/site-packages")]
    return {found.name: found.version for found in metadata.distributions(path=packages)}


def _pip(python: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, *words],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"pip {' '.join(words)} failed for {python}:\n{done.stderr[-2000:]}")
