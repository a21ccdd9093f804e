"""The reference pages are those that the code would write now."""

from __future__ import annotations

import re

import pytest

from redisjobs import errors
from reference.__main__ import FOLDER, pages
from reference.markdown import arguments, summary
from reference.settings import names_in_code


def test_no_generated_page_is_stale(database_url: str):
    for name, text in pages(database_url).items():
        assert (FOLDER / name).read_text() == text, f"docs/reference/{name} is stale: run `make docs`, and commit it"


def test_every_variable_that_the_code_reads_is_told():
    told = "".join((FOLDER / name).read_text() for name in ("cli.md", "settings.md"))

    assert names_in_code() - set(re.findall(r"REDISJOBS_[A-Z_]+", told)) == set()


def test_every_option_and_field_says_what_it_is():
    for name in ("cli.md", "settings.md"):
        rows = [line for line in (FOLDER / name).read_text().splitlines() if line.startswith("| `")]
        assert rows
        assert [row for row in rows if row.endswith("|  |")] == [], f"an option in {name} has no words"


@pytest.mark.parametrize("error", [errors.OptionError, errors.Retry])
def test_a_docstring_is_taken_apart(error: type[BaseException]):
    assert not summary(error).endswith("Args:")
    assert all(arguments(error).values())
