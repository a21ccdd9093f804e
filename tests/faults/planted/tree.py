"""A copy of the checkout, with a bug planted or without one, and what tests say of it there."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

CHECKOUT = Path(__file__).resolve().parents[3]
PARTS = ("redisjobs", "lua", "tests", "pyproject.toml", "pytest_redisjobs.py")
"""What tests need of it."""
LONGEST_S = 900
"""Of all tests together; one alone may take two thirds of it, for a test that is slow has not seen anything."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A text that stands in a file exactly once, and what stands there instead.

    Args:
        path: from the top of the checkout.
    """

    path: str
    old: str
    new: str

    def planted(self, text: str) -> str:
        """The text of the file with the bug.

        Raises:
            AssertionError: the old text is not there exactly once, or the new one cannot be read.
        """
        found = text.count(self.old)
        assert found == 1, f"{self.path} has this {found} times, and not once; plant the bug anew:\n{self.old}"
        assert self.new != self.old, f"{self.path}: nothing is changed"
        changed = text.replace(self.old, self.new)
        if self.path.endswith(".py"):
            ast.parse(changed, self.path)
        return changed


def planted(edits: Sequence[Edit]) -> Mapping[str, str]:
    """The files that a bug changes, and their whole text with it.

    Raises:
        AssertionError: as `Edit.planted`.
    """
    changed: dict[str, str] = {}
    for edit in edits:
        text = changed.get(edit.path) or (CHECKOUT / edit.path).read_text()
        changed[edit.path] = edit.planted(text)
    return changed


def grow(folder: Path, edits: Sequence[Edit] = ()) -> Path:
    """Copy the checkout into a folder that is not there yet, with these edits.

    Raises:
        AssertionError: as `Edit.planted`; nothing was copied.
    """
    changed = planted(edits)
    folder.mkdir(parents=True)
    for part in PARTS:
        source = CHECKOUT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
        else:
            shutil.copy2(source, folder / part)
    for path, text in changed.items():
        (folder / path).write_text(text)
    return folder


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one test said.

    Args:
        test: its id.
        word: passed, failed, skipped, or broken where it could not be run, or came to no end.
        seconds: how long it took.
    """

    test: str
    word: str
    seconds: float


def judge(tree: Path, tests: Sequence[str]) -> list[Verdict]:
    """Run these tests in a tree, one after the other in one process.

    Args:
        tests: ids, or files.

    Raises:
        AssertionError: pytest could not run them, or there are none.
    """
    report = tree / "report.xml"
    command = [
        sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", f"--timeout={LONGEST_S * 2 // 3}",
        f"--junitxml={report}", *tests,
    ]  # fmt: skip
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        command, cwd=tree, env=env, timeout=LONGEST_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    (tree / "report.txt").write_text(ran.stdout)
    assert ran.returncode in (0, 1), f"pytest ended with {ran.returncode}:\n{ran.stdout[-3000:]}"
    verdicts = [_verdict(case) for case in ET.parse(report).iter("testcase")]
    assert verdicts, f"no test of {tests} was run:\n{ran.stdout[-3000:]}"
    return verdicts


def _verdict(case: ET.Element) -> Verdict:
    path = case.get("classname", "").replace(".", "/")
    words = {"failure": "failed", "error": "broken", "skipped": "skipped"}
    told = next((each for each in case if each.tag in words), None)
    word = "passed" if told is None else words[told.tag]
    if told is not None and "from pytest-timeout" in told.get("message", ""):
        word = "broken"
    return Verdict(f"{path}.py::{case.get('name')}", word, float(case.get("time", "0")))
