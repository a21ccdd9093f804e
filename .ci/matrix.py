"""Runs the tests on every Python that the package claims to work on: `make matrix`, `python .ci/matrix.py tests/unit`.

An interpreter is found where its variable names it (PYTHON3_14=/opt/python3.14/bin/python), on PATH, among those of
pyenv, or by uv. One that cannot be had is told at the end, and ends this with 2; a failed test ends it with 1.
Each has an environment of its own, .venv-3.14. `--list` only tells what would be used.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]


def versions() -> list[str]:
    """What the package says that it works on, oldest first."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", each) for each in project["classifiers"])
    return [match[1] for match in found if match]


def candidates(version: str) -> Iterator[str]:
    """Where an interpreter of this version may be, the likeliest first."""
    yield os.environ.get(f"PYTHON{version.replace('.', '_')}", "")
    yield shutil.which(f"python{version}") or ""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for folder in sorted(pyenv.glob(f"{version}.*"), reverse=True):
        yield str(folder / "bin" / "python3")
    if uv := shutil.which("uv"):
        yield _answer([uv, "python", "find", "--no-python-downloads", version])


def interpreter(version: str) -> str | None:
    """The first candidate that really is of this version; a shim on PATH may not be."""
    tell = "import sys; print('%d.%d' % sys.version_info[:2])"
    return next((each for each in candidates(version) if each and _answer([each, "-c", tell]) == version), None)


def test(version: str, python: str, arguments: list[str]) -> bool:
    """Run the tests in this version's environment; whether all passed."""
    environment = CHECKOUT / f".venv-{version}"
    own = environment / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", str(environment)], check=True)
    subprocess.run([str(own), "-m", "pip", "install", "-q", "-e", ".[test]"], check=True, cwd=CHECKOUT)
    return subprocess.run([str(own), "-m", "pytest", *arguments], check=False, cwd=CHECKOUT).returncode == 0


def _answer(command: list[str]) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def main(arguments: list[str]) -> int:
    """Test on all that can be had, then tell of each."""
    told: dict[str, str] = {}
    for version in versions():
        python = interpreter(version)
        if python is None:
            told[version] = f"not tested: no python{version} was found; set PYTHON{version.replace('.', '_')}"
        elif arguments == ["--list"]:
            told[version] = python
        else:
            print(f"== Python {version}: {python}", flush=True)
            told[version] = "passed" if test(version, python, arguments) else "FAILED"
    for version, words in told.items():
        print(f"{version:<5} {words}")
    return 1 if "FAILED" in told.values() else 2 if any("not tested" in words for words in told.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
