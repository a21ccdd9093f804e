"""The matrix finds interpreters of the right version, and says which it could not find."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def listed(**environment: str) -> tuple[int, dict[str, str]]:
    """What `--list` tells where nothing but these variables leads to an interpreter."""
    env = {"PATH": "/nonexistent", "HOME": "/nonexistent", "SYSTEMROOT": os.environ.get("SYSTEMROOT", "")} | environment
    ended = subprocess.run(
        [sys.executable, ".ci/matrix.py", "--list"], capture_output=True, text=True, cwd=CHECKOUT, env=env, timeout=60
    )
    assert ended.stderr == ""
    return ended.returncode, dict(line.split(maxsplit=1) for line in ended.stdout.splitlines())


def test_an_interpreter_that_is_named_is_used_and_those_that_lack_are_told():
    code, told = listed(**{f"PYTHON{HERE.replace('.', '_')}": sys.executable})

    assert code == 2
    assert list(told) == ["3.11", "3.12", "3.13", "3.14"]
    assert told.pop(HERE) == sys.executable
    assert all(words.startswith("not tested: no python3") for words in told.values())


def test_one_of_another_version_is_not_taken_for_what_its_name_says(tmp_path: Path):
    for version in ("3.11", "3.12", "3.13", "3.14"):
        shim = tmp_path / f"python{version}"
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        shim.chmod(0o755)

    _, told = listed(PATH=str(tmp_path))

    assert [version for version, words in told.items() if "not tested" not in words] == [HERE]
