"""The manual is true: every block of every page is run, or parsed as what it says it is, on real stores."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.commands import complaints
from tests.support.pages import Page, manual
from tests.support.processes import CHECKOUT, Processes
from tests.support.reader import Reader

PAGES = manual()
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
LINKED = [
    *PAGES,
    *(Page(CHECKOUT / name) for name in ("CONTRIBUTING.md", "CHANGELOG.md", "lua/README.md", "benchmarks/README.md")),
    *(Page(path) for path in sorted((CHECKOUT / "examples").rglob("README.md"))),
]


@pytest.mark.timeout(300)  # the first run on a machine fetches the languages of producers
@pytest.mark.parametrize("page", [page for page in PAGES if page.blocks()], ids=lambda page: page.name)
def test_all_that_a_page_has_one_do_works(
    page: Page, tmp_path: Path, processes: Processes, database_url: str, redis_url: str
):
    with Reader(tmp_path, processes, database_url, redis_url) as reader:
        reader.follow(page)


@EVERY_PAGE
def test_a_page_has_no_code_without_a_fence_that_names_its_language(page: Page):
    nameless = [block.line for block in page.blocks() if not block.language]

    assert nameless + page.unfenced() == []


@EVERY_PAGE
def test_every_command_within_a_sentence_exists(page: Page):
    assert [wrong for command in page.inline_commands() for wrong in complaints(command)] == []


@EVERY_PAGE
def test_every_command_within_a_configuration_exists(page: Page):
    texts = [block.text for block in page.blocks() if block.language in ("ini", "yaml")]
    commands = [
        found for text in texts for found in re.findall(r"^(?:ExecStart=\S+/|\w+: )(redisjobs .*)$", text, re.MULTILINE)
    ]

    assert [wrong for command in commands for wrong in complaints(command)] == []


@EVERY_PAGE
def test_every_metric_that_a_page_names_exists(page: Page):
    package = CHECKOUT / "redisjobs"
    files = [*(package / "monitoring").rglob("*.py"), *(package / "integrations").rglob("*.py")]
    code = "".join(
        file.read_text() for file in [*files, CHECKOUT / "pytest_redisjobs.py"]
    )  # the latter have such names too
    named = re.findall(r"\bredisjobs_(?!pg\b)[a-z]+(?:_[a-z]+)*\b", page.path.read_text())

    assert [name for name in named if re.sub("_(total|bucket|sum|count|info)$", "", name) not in code] == []


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Page):
    for link in page.links():
        target, _, heading = link.partition("#")
        path = (page.path.parent / target).resolve() if target else page.path
        assert path.exists(), f"{page.name} points to {link}, which is not there"
        if heading:
            assert heading in Page(path).anchors(), f"{page.name} points to {link}, and there is no such heading"


def test_the_index_leads_to_every_page():
    index = Page(CHECKOUT / "docs" / "README.md")
    listed = {(index.path.parent / link).resolve() for link in index.links()}

    assert [page.name for page in PAGES[1:] if page.path not in listed | {index.path}] == []


def test_ci_runs_the_readmes_command_for_the_tests_to_the_letter():
    (command,) = [block.text.strip() for block in Page(CHECKOUT / "README.md").blocks() if "pytest" in block.text]

    assert command in (CHECKOUT / ".ci" / "run").read_text()
