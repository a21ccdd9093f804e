"""Medians, ratios, and how results are kept and put together."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.peers.results import Pair, Record, Results, merged
from benchmarks.peers.speed import rate_of


def drained(rounds: list[tuple[float | None, float | None]], peer: str = "arq") -> list[Record]:
    found = []
    for number, (theirs, ours) in enumerate(rounds):
        found.append(Record(number, "drain", peer, peer, {"rate": theirs}))
        found.append(Record(number, "drain", "redisjobs_direct", peer, {"rate": ours}))
    return found


def results(*records: Record, load: str = "1") -> Results:
    return Results({"load": load}, {"rounds": 3}, {"arq": {"settings": "safe"}}, list(records))


def test_a_ratio_is_taken_round_by_round_so_that_a_slow_round_falls_out():
    pair = results(*drained([(100, 400), (10, 40), (200, 800)])).pair("drain", "arq", "rate")

    assert pair is not None
    assert pair.ratios == [4, 4, 4]
    assert (pair.their_median, pair.our_median, pair.ratio) == (100, 400, 4)


def test_the_ratio_of_an_even_number_of_rounds_is_between_the_middle_two():
    assert Pair([10, 10], [20, 40]).ratio == 3


def test_a_round_in_which_one_of_them_failed_does_not_count():
    pair = results(*drained([(100, 400), (None, 40), (200, None)])).pair("drain", "arq", "rate")

    assert pair == Pair([100], [400])


def test_redisjobs_beside_another_peer_does_not_count():
    found = results(*drained([(100, 400)]), *drained([(10, 90)], "saq"))

    assert found.pair("drain", "arq", "rate") == Pair([100], [400])


def test_peers_are_told_in_the_order_of_the_table_however_they_were_measured():
    found = results(*drained([(1, 2)], "saq"), *drained([(1, 2)], "arq"), *drained([(1, 2)], "celery"))

    assert found.peers("drain") == ["arq", "saq", "celery"]


def test_nothing_is_told_of_a_pair_that_never_ran():
    assert results().pair("drain", "arq", "rate") is None


def test_what_was_measured_alone_has_a_median():
    found = results(
        *(Record(number, "kill", "arq", None, {"seconds": value}) for number, value in enumerate([9, 1, 5]))
    )

    assert found.figure("kill", "arq", "seconds") == 5
    assert found.figure("kill", "saq", "seconds") is None


def test_a_figure_that_is_missing_is_no_zero():
    assert results(Record(0, "kill", "rq", None, {"seconds": None})).figure("kill", "rq", "seconds") is None


def test_results_are_read_as_they_were_written(tmp_path: Path):
    written = results(*drained([(100, 400)]), Record(0, "kill", "rq", None, {}, "no worker came"))
    written.write(tmp_path / "folder" / "found.json")

    assert Results.read(tmp_path / "folder" / "found.json") == written


def test_of_several_races_the_last_one_that_measured_a_pair_counts_with_all_of_its_rounds():
    first = results(*drained([(100, 400), (100, 500)]), *drained([(10, 90)], "saq"), load="1")
    second = results(*drained([(50, 100)]), load="2")

    both = merged([first, second])

    assert both.pair("drain", "arq", "rate") == Pair([50], [100])
    assert both.pair("drain", "saq", "rate") == Pair([10], [90])
    assert both.facts == {"load": "2"}


def test_races_whose_figures_mean_different_things_are_not_told_as_one():
    slow, fast = results(), results()
    slow.scale, fast.scale = {"rate": 20.0}, {"rate": 50.0}

    with pytest.raises(ValueError, match=r"cannot be told as one: rate was 20\.0 and 50\.0"):
        merged([slow, fast])


@pytest.mark.parametrize(
    ("starts", "rate"),
    [([10.0, 10.5, 11.0], 2.0), ([0.0, 10.0, 0.0, 12.0], 0.5), ([10.0], None), ([0.0, 0.0], None), ([5.0, 5.0], None)],
    ids=["all", "some never started", "one", "none", "at one moment"],
)
def test_a_rate_is_the_starts_after_the_first_by_the_time_that_they_took(starts: list[float], rate: float | None):
    assert rate_of(starts) == rate
