"""The page on the race says what the results say that it was made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.peers import page
from benchmarks.peers.results import Record, Results

DRIVER = {"settings": "safe", "source": "https://example.org/safe (acks)", "default": "30 s", "packages": {"arq": "1"}}


def some() -> Results:
    return Results(
        {"cores": "2"},
        {"rate": 20.0},
        {"arq": DRIVER},
        [
            Record(0, "drain", "arq", "arq", {"rate": 1_000.0, "cpu_us": 400.0}),
            Record(0, "drain", "redisjobs_direct", "arq", {"rate": 30_000.0, "cpu_us": 40.0}),
            Record(0, "kill", "arq", None, {"seconds": 19.9, "missing": 0, "doubled": 3}),
            Record(0, "kill", "redisjobs", None, {}, "no worker came"),
        ],
    )


def test_the_page_in_the_manual_has_the_tables_of_the_results_that_are_kept():
    results = Results.read(page.KEPT)
    text = (page.DOCS / "peers.md").read_text()

    assert page.filled(text, results) == text


def test_the_drawings_in_the_manual_are_those_of_the_results_that_are_kept():
    made = page.drawings(Results.read(page.KEPT))

    assert {path.name: path.read_text() for path in (page.DOCS / "peers").glob("*.svg")} == made
    assert [name for name in made if f"peers/{name}" not in (page.DOCS / "peers.md").read_text()] == []


def test_a_pair_has_both_figures_and_the_ratio():
    assert "| arq | 1 000 | 30 000 | **30** | 400 | 40 | **0.1** |" in page.tables(some())


def test_what_was_measured_alone_has_a_row_and_a_dash_where_nothing_was_found():
    table = page.SECTIONS["kill"](some())

    assert "| arq | – | – | 19.9 | – | 0 | 3 |" in table
    assert "| **redisjobs**, in a transaction | – | – | – | – | – | – |" in table


def test_a_driver_is_told_with_its_settings_versions_and_source():
    assert "| arq | arq 1 | safe | 30 s | <https://example.org/safe> (acks) |" in page.tables(some())


def test_a_page_without_a_place_for_a_table_is_refused():
    with pytest.raises(ValueError, match="the page has no <!-- found: machine -->"):
        page.filled("nothing", some())


def test_writing_the_page_keeps_the_results_and_leaves_no_drawing_of_what_is_not_in_them(tmp_path: Path):
    docs, kept = tmp_path / "docs", tmp_path / "results" / "peers.json"
    (docs / "peers").mkdir(parents=True)
    (docs / "peers" / "latency.svg").write_text("of an older run")
    (docs / "peers.md").write_text("".join(f"<!-- found: {name} -->\n<!-- /found -->\n" for name in page.SECTIONS))

    page.write(some(), docs, kept)

    assert Results.read(kept) == some()
    assert [path.name for path in (docs / "peers").iterdir()] == ["drain.svg"]
    assert "![Draining a full queue, one worker process](peers/drain.svg)" in (docs / "peers.md").read_text()


def test_a_measure_that_was_left_out_is_said_to_be():
    assert page.SECTIONS["latency"](some()) == page.SECTIONS["wipe"](some()) == "Not measured in this run."


def test_only_what_was_measured_is_drawn():
    assert list(page.drawings(some())) == ["drain.svg"]
