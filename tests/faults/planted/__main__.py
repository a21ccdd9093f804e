"""`python -m tests.faults.planted [NAME …]`: plant each bug, and tell which tests saw it.

Ends with 1 where one escaped, or where its tests do not pass without it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.faults.planted.bugs import BUGS, Bug
from tests.faults.planted.tree import Verdict, grow, judge


def say(text: str) -> None:
    """A line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def without_bugs(folder: Path, bugs: Sequence[Bug]) -> bool:
    """Whether all that is named passes as long as nothing is planted."""
    tests = dict.fromkeys(test for bug in bugs for test in (*bug.road, *bug.general, *bug.own))
    began = time.monotonic()
    odd = [each for each in judge(grow(folder), list(tests)) if each.word != "passed"]
    for each in odd:
        say(f"  {each.word} without a bug: {each.test}")
    say(f"{'no bug':28} {'passes' if not odd else 'FAILS':8} {time.monotonic() - began:6.0f} s  {len(tests)} tests")
    return not odd


def with_bug(folder: Path, name: str, bug: Bug) -> bool:
    """Whether a general test fails with it, and the road goes on as ever."""
    verdicts = judge(grow(folder, bug.edits), [*bug.road, *bug.general, *bug.own])
    coarse = [each for each in _of(verdicts, bug.road) if each.word != "passed"]
    for each in coarse:
        say(f"  too coarse: {each.test} {each.word}")
    general, own = (
        [each for each in _of(verdicts, tests) if each.word == "failed"] for tests in (bug.general, bug.own)
    )
    say(f"{name:28} {'caught' if general else 'ESCAPED':8}")
    for kind, failed in (("general", general), ("its own", own)):
        for each in _firsts(failed):
            say(f"  {kind:8} {each.seconds:6.1f} s  {each.test}")
    return bool(general) and not coarse


def _of(verdicts: Sequence[Verdict], tests: Sequence[str]) -> list[Verdict]:
    return [each for each in verdicts if each.test.startswith(tuple(tests))]


def _firsts(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """One for each function: a parametrized test says it once."""
    found: dict[str, Verdict] = {}
    for each in verdicts:
        found.setdefault(each.test.partition("[")[0], each)
    return list(found.values())


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BUGS)}; without any: all")
    names = parser.parse_args().names or list(BUGS)
    if unknown := set(names) - set(BUGS):
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="redisjobs-planted-") as made:
        folder = Path(made)
        well = without_bugs(folder / "none", [BUGS[name] for name in names])
        caught = [with_bug(folder / name, name, BUGS[name]) for name in names]
    say(f"{sum(caught)} of {len(caught)} caught")
    return 0 if well and all(caught) else 1


if __name__ == "__main__":
    sys.exit(main())
