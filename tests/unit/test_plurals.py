"""What is said of a number fits it: one job waits, two jobs wait."""

from __future__ import annotations

import ast
import re
from collections.abc import Generator
from pathlib import Path

import pytest

import redisjobs
from redisjobs.base.durations import many

CODE = Path(redisjobs.__file__).parent
NOUNS = (
    "attempts|bytes|connections|entries|failures|jobs|keys|leases|letters|mails|names|orders|processes|queues|retries|"
    "rows|seconds|sessions|slots|times|transactions|variables|warnings|workers"
)
COUNTED = re.compile(rf" (?:[a-z]+ ){{0,2}}(?:{NOUNS})(?![\w/])")
NEVER_ONE = {
    "{deaths} times in a row within ": "a fleet gives up after several",
    "{len(workers)} workers": "another text for one",
    "{len(takers)} workers of the queue run": "another text for one",
    "{count} times in a row": "another text for one",
    "{count} times": "another text for one",
}
"""Texts that stand behind a look at the number, and why that is enough."""
VERB = "{name} names "
"""What a setting does."""


@pytest.mark.parametrize(
    ("count", "words", "told"),
    [
        (0, ("job",), "0 jobs"),
        (1, ("job",), "1 job"),
        (2, ("job",), "2 jobs"),
        (1, ("job waits", "jobs wait"), "1 job waits"),
        (0, ("job waits", "jobs wait"), "0 jobs wait"),
    ],
)
def test_many_fits_the_number(count: int, words: tuple[str, ...], told: str) -> None:
    assert many(count, *words) == told


def numbers_with_a_plural(tree: ast.AST) -> Generator[tuple[int, str]]:
    """Every value in an f-string that a plural follows, but for limits and what is beyond them."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr) or re.search("(at|the) most", ast.unparse(node)):
            continue
        for value, after in zip(node.values, node.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not isinstance(after, ast.Constant):
                continue
            if COUNTED.match(str(after.value)) and not ast.unparse(value.value).isupper():
                yield node.lineno, f"{{{ast.unparse(value.value)}}}{after.value!s}"


def test_no_text_has_a_plural_behind_a_number_that_may_be_one() -> None:
    found = [
        f"{path.relative_to(CODE)}:{line}: {text}"
        for path in sorted(CODE.rglob("*.py"))
        for line, text in numbers_with_a_plural(ast.parse(path.read_text()))
        if text not in NEVER_ONE and not text.startswith(VERB)
    ]
    assert found == [], "say it with `many`"


def test_a_plural_behind_any_number_is_found() -> None:
    code = 'f"{found.count} dead letters would be redriven" + f"{size} bytes of {LARGEST} bytes, {rate} mails/s"'
    assert [text for _, text in numbers_with_a_plural(ast.parse(code))] == [
        "{found.count} dead letters would be redriven",
        "{size} bytes of ",
    ]
