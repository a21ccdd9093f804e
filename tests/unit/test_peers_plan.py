"""Who comes when in a race."""

from __future__ import annotations

from benchmarks.peers.plan import MEASURES, Turn, takes_part, turns
from benchmarks.peers.table import DIRECT, OURS, ROAD, Contestant

ARQ = Contestant("arq", "redis", "redis", ("jobs",))
PGQUEUER = Contestant("pgqueuer", "postgres", "postgres", ("jobs",))
ABSURD = Contestant("absurd", "postgres", "postgres", ("steps",))


def names(found: list[Turn]) -> list[str]:
    return [turn.contestant.name for turn in found]


def test_redisjobs_comes_right_after_each_peer_and_before_it_in_the_next_round():
    found = list(turns([ARQ, PGQUEUER], ["drain"], 2))

    assert names(found) == [
        *("arq", "redisjobs_direct", "pgqueuer", "redisjobs"),
        *("redisjobs_direct", "arq", "redisjobs", "pgqueuer"),
    ]
    assert [turn.round for turn in found] == [0] * 4 + [1] * 4


def test_both_of_a_pair_are_set_against_the_peer():
    assert {turn.beside for turn in turns([ARQ], ["latency"], 1)} == {"arq"}


def test_what_needs_no_neighbour_is_measured_once_for_each_and_for_both_forms_of_redisjobs():
    found = list(turns([ARQ, PGQUEUER], ["kill"], 3))

    assert names(found) == ["arq", "pgqueuer", "redisjobs", "redisjobs_direct"]
    assert {turn.beside for turn in found} == {None}


def test_only_who_uses_redis_can_lose_it():
    assert [takes_part(each, "wipe") for each in (ARQ, PGQUEUER, *OURS)] == [True, False, True, True]


def test_only_who_has_durable_runs_is_measured_by_them():
    found = list(turns([ARQ, PGQUEUER, ABSURD], list(MEASURES), 1))

    assert names([turn for turn in found if turn.measure == "steps"]) == ["absurd", "redisjobs"]
    assert {turn.measure for turn in found if turn.contestant == ABSURD} == {"steps"}


def test_the_road_is_beside_postgres_and_the_direct_way_beside_redis():
    found = list(turns([ARQ, PGQUEUER], ["flow"], 1))

    assert [turn.contestant for turn in found] == [ARQ, DIRECT, PGQUEUER, ROAD]
