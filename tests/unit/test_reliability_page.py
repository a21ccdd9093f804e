"""The page on reliability says what the kept results say, and names every fault, tried or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.programme.faults import FAULTS
from tests.faults.programme.page import PAGE, by_fault, filled, programmes, summary, what_broke


def result(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    told = {
        "commit": "abc1234",
        "machine": "x86_64, 2 cores",
        "seconds": 1800,
        "faults": rows,
        "failed": [
            {"fault": each["fault"], "seed": seed, "broken": [["limits are held", "3 at once"]]}
            for each in rows
            for seed in each["broken"]
        ],
    }
    (folder / f"{name}.json").write_text(json.dumps(told))


def row(fault: str, trials: int, *, broken: list[int] | None = None, errors: list[int] | None = None) -> dict[str, Any]:
    return {
        "fault": fault,
        "trials": trials,
        "broken": broken or [],
        "errors": errors or [],
        "jobs": 100 * trials,
        "extra": {"its worker was killed": trials},
    }


def line_of(table: str, fault: str) -> list[str]:
    (found,) = [line for line in table.splitlines() if line.startswith(f"| `{fault}` ")]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_the_figures_of_the_page_are_those_of_the_results():
    page = PAGE.read_text()

    assert page == filled(page, programmes()), "python -m tests.faults.programme.page"


def test_no_fault_is_left_out_whether_it_was_tried_or_not(tmp_path: Path):
    result(tmp_path, "2026-01-02", row("kill-worker", 3))
    table = by_fault(programmes(tmp_path))
    assert what_broke(programmes(tmp_path)).startswith("None")

    assert line_of(table, "kill-worker")[2:] == ["0 in 3 trials", "300", "3", "2026-01-02, `abc1234`"]
    assert line_of(table, "kill-relay")[2] == "not tried yet"
    assert table.count("\n") == len(FAULTS) + 1


def test_several_programmes_are_summed_and_what_broke_is_told(tmp_path: Path):
    result(tmp_path, "2026-01-02", row("kill-worker", 3, broken=[7]), row("kill-relay", 2, errors=[1]))
    result(tmp_path, "2026-01-05-night", row("kill-worker", 4))
    kept = programmes(tmp_path)

    assert line_of(by_fault(kept), "kill-worker")[2:] == ["1 in 7 trials", "700", "7", "2026-01-05, `abc1234`"]
    assert line_of(by_fault(kept), "kill-relay")[2] == "0 in 2 trials (1 could not be run)"
    assert what_broke(kept).splitlines()[2:] == ["| 2026-01-02, `abc1234` | `kill-worker` | 7 | limits are held |"]
    assert summary(kept).splitlines()[-1] == "| **all** |  |  |  | **9** | **1** | **1** |"


def test_a_result_without_its_day_is_refused(tmp_path: Path):
    result(tmp_path, "night")

    with pytest.raises(ValueError, match=r"night\.json does not begin with the day"):
        programmes(tmp_path)


def test_a_page_without_a_place_for_figures_is_refused():
    with pytest.raises(ValueError, match="0 places for the figures named programmes"):
        filled("# Reliability\n", [])
