"""Who takes part in the race, and that each driver does all that it must."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.peers.table import DIRECT, DRIVERS, OURS, ROAD, Contestant, ours_beside, peers

EVERYBODY = (*peers(), *OURS)
PRODUCES = {"open", "one", "many"}
SAYS = {"SETTINGS", "SOURCE", "DEFAULT"}


@pytest.mark.parametrize("contestant", EVERYBODY, ids=lambda each: each.name)
def test_a_driver_does_and_says_all_that_a_race_asks_of_it(contestant: Contestant):
    driver = Read(contestant.name)

    needed = PRODUCES | {"work"} | ({"runs"} if "steps" in contestant.takes_part else set())
    assert needed - driver.methods == set()
    assert SAYS - driver.texts.keys() == set()
    assert [name for name in SAYS if not driver.texts[name].strip()] == []


@pytest.mark.parametrize("peer", peers(), ids=lambda each: each.name)
def test_a_peer_tells_where_its_documentation_says_how_it_is_safe(peer: Contestant):
    assert Read(peer.name).texts["SOURCE"].startswith("https://")


@pytest.mark.parametrize("contestant", EVERYBODY, ids=lambda each: each.name)
def test_a_driver_that_runs_something_beside_its_worker_says_so(contestant: Contestant):
    driver = Read(contestant.name)

    assert ("beside" in driver.own) == ("BESIDE" in driver.assigned)


def test_there_is_no_driver_that_nobody_runs():
    files = {path.stem for path in DRIVERS.glob("*.py")} - {"__init__", "base"}

    assert files == {each.name for each in EVERYBODY}


def test_a_peer_is_set_against_the_form_that_keeps_jobs_where_it_does():
    beside = {peer.store: ours_beside(peer) for peer in peers()}

    assert beside == {"redis": DIRECT, "postgres": ROAD}


def test_some_can_be_named_and_keep_the_order_of_the_table():
    assert [peer.name for peer in peers(["saq", "arq"])] == ["arq", "saq"]


def test_a_name_that_is_not_in_the_table_is_refused():
    with pytest.raises(ValueError, match=r"not in peers\.toml: ark; there are arq, saq"):
        peers(["ark"])


def test_a_requirement_that_is_not_exact_is_refused(tmp_path: Path):
    table = tmp_path / "peers.toml"
    table.write_text('[arq]\nstore = "redis"\ntakes_part = ["jobs"]\npackages = ["arq>=0.28"]\n')

    with pytest.raises(ValueError, match=r"arq needs exact versions, not arq>=0\.28"):
        peers(table=table)


class Read:
    """A driver as it is written: it cannot be imported here, for what it imports is in another environment."""

    def __init__(self, name: str) -> None:
        driver = _driver(DRIVERS / f"{name}.py")
        self.own = {each.name for each in driver.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        self.texts: dict[str, str] = {}
        self.assigned: set[str] = set()
        for each in driver.body:
            if isinstance(each, ast.Assign) and isinstance(target := each.targets[0], ast.Name):
                self.assigned.add(target.id)
                value = ast.literal_eval(each.value)
                if isinstance(value, str):
                    self.texts[target.id] = value
        self.methods = set(self.own)
        above = ast.unparse(driver.bases[0])
        if above != "base.Driver":
            parent = Read(above.split(".")[0])
            self.methods |= parent.methods
            self.texts = parent.texts | self.texts


def _driver(path: Path) -> ast.ClassDef:
    found = [each for each in ast.parse(path.read_text()).body if isinstance(each, ast.ClassDef)]
    assert [each.name for each in found] == ["Driver"], path
    return found[0]
