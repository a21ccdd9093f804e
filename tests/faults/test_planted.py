"""Twelve mistakes that this design rules out are planted into a copy of the tree: do the tests see them?

Here: that all of them can still be planted, and that some are seen. `make planted` does all of it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faults.planted.bugs import BUGS, Bug
from tests.faults.planted.tree import CHECKOUT, Edit, grow, judge, planted
from tests.faults.road import tier

QUICK = {
    "order-by-skip-locked": BUGS["order-by-skip-locked"].general,
    "tombstone-dropped-early": BUGS["tombstone-dropped-early"].general[-1:],
}
"""Bugs, and those of their tests that take no second."""


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_bug_can_still_be_planted_and_its_tests_are_there(bug: Bug):
    changed = planted(bug.edits)
    assert changed.keys() == {edit.path for edit in bug.edits}
    assert bug.general
    for test in (*bug.general, *bug.own, *bug.road):
        path, _, name = test.partition("::")
        source = (CHECKOUT / path).read_text()
        assert not name or re.search(rf"def {re.escape(name.partition('[')[0])}\(", source), f"{test} is not there"


@pytest.mark.parametrize("old", ["nowhere in the file", "redis.call"])
def test_a_text_that_is_not_there_once_is_no_place_for_a_bug(old: str):
    with pytest.raises(AssertionError, match="plant the bug anew"):
        planted([Edit("lua/finish.lua", old, "")])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", QUICK if tier() == "small" else BUGS)
def test_a_planted_bug_is_seen(name: str, tmp_path: Path):
    bug = BUGS[name]
    tree = grow(tmp_path / "tree", bug.edits)
    tests = QUICK.get(name, bug.general)
    verdicts = judge(tree, tests)
    assert "failed" in {each.word for each in verdicts}, (tree / "report.txt").read_text()[-3000:]


def test_without_a_bug_those_tests_pass(tmp_path: Path):
    tree = grow(tmp_path / "tree")
    verdicts = judge(tree, [*dict.fromkeys(test for tests in QUICK.values() for test in tests)])
    assert {each.word for each in verdicts} == {"passed"}, (tree / "report.txt").read_text()[-3000:]
