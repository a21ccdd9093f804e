"""The page of what is supported is what the runs over every server have written."""

from __future__ import annotations

from tests.everywhere.place import PLACES
from tests.everywhere.stories import STORIES
from tests.everywhere.table import PAGE, Table, read

WORDS = {name: str(story.__doc__) for name, story in STORIES.items()}
ADVICE = "run `make everywhere`, and commit docs/reference/supported.md"


def test_it_has_every_server_and_every_story_and_no_other():
    columns, rows = read(PAGE.read_text())

    assert columns == ["servers", *WORDS.values()], ADVICE
    assert list(rows) == list(PLACES), ADVICE


def test_every_story_has_passed_on_every_server():
    _, rows = read(PAGE.read_text())

    assert {cell for _, *cells in rows.values() for cell in cells} == {"ok"}
    assert all(len(cells) == len(WORDS) for _, *cells in rows.values())


def test_a_story_that_failed_is_written_as_such_until_a_run_in_which_it_does_not():
    table = Table({"here": "Redis 7"}, {("here", "one"): "passed", ("here", "two"): "failed"})

    page = table.text(["here"], {"one": "first", "two": "second"})
    again = Table({"here": "Redis 7.1"}, {("here", "two"): "passed"})
    again.keep(page, {"one": "first", "two": "second"})

    assert "| `here` | Redis 7.1 | ok | ok |" in again.text(["here"], {"one": "first", "two": "second"})
    assert table.is_whole(["here"], ["one", "two"])
    assert not table.is_whole(["here", "there"], ["one", "two"])
    assert read(page) == (
        ["servers", "first", "second"], {"here": ["Redis 7", "ok", "open"]},
    )  # fmt: skip
