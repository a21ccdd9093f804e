"""The race as `make peers` runs it: against one light peer, in an environment made for it, with a handful of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.peers import __main__ as race
from benchmarks.peers.results import Results


@pytest.mark.timeout(300)  # pip fetches the peer, and two servers and some workers start
def test_a_race_installs_a_peer_and_measures_it_beside_redisjobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["--only", "arq", "--rounds", "1", "--jobs", "60", "--lease-s", "3", "--measures", "drain,wipe"]

    code = race.main([*words, "--cache", str(tmp_path / "cache"), "--results", str(tmp_path / "results")])

    (kept,) = (tmp_path / "results").glob("peers-*.json")
    results = Results.read(kept)
    assert [each.failed for each in results.records if each.failed] == []
    assert code == 0
    assert results.drivers["arq"]["packages"]["arq"]
    assert _ran(results, "arq") == _ran(results, "redisjobs_direct") == 60
    assert results.pair("drain", "arq", "rate") is not None
    assert (results.figure("wipe", "arq", "missing") or 0) > 0
    assert results.figure("wipe", "redisjobs", "missing") == 0
    assert "| arq |" in capsys.readouterr().out


def _ran(results: Results, contestant: str) -> float | str | None:
    (record,) = results.of("drain", contestant, "arq")
    return record.found["ran"]
