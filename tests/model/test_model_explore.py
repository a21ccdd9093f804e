"""With every rule no run breaks a promise; without any one of them some run does."""

from __future__ import annotations

import pytest

from tests.model.ablation import CASES, COVERED, Case, search
from tests.model.explore import Setting, play, trace_of
from tests.model.orders import SCENES, broken_orders
from tests.model.rules import ALL, RULES, without
from tests.model.wakeup import deaf_orders
from tests.model.world import MOODS

RUNS = 40


@pytest.mark.parametrize("mood", MOODS)
def test_with_every_rule_no_promise_breaks(mood: str):
    for seed in range(RUNS):
        played = play(seed, Setting(mood=mood))
        assert not played.promise, "\n".join(trace_of(seed, Setting(mood=mood), short=False))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_without_a_rule_a_promise_breaks(case: Case):
    played = play(case.seed, case.setting)
    if not case.shows(played):
        found, count = search(case, range(200))
        assert found, f"none of {count} runs shows what {case.rule} is for"
        played = found
    assert not play(played.seed, case.whole).promise, "the same choices with every rule"


@pytest.mark.parametrize("rule", SCENES)
def test_of_all_orders_of_a_scene_some_break_without_its_rule_and_none_with_it(rule: str):
    assert broken_orders(rule, ALL)[0] == 0
    assert broken_orders(rule, without(rule))[0] > 0


def test_each_rule_can_be_taken_away_or_there_is_a_reason():
    shown = [*(case.rule for case in CASES), *SCENES, "polls_on"]
    assert sorted([*shown, *COVERED]) == sorted(ALL)


def test_each_way_in_which_the_first_draft_broke_is_found():
    shown = {RULES[rule].finding for rule in (*(case.rule for case in CASES), *SCENES, "polls_on")}
    assert shown >= set(range(1, 19))


def test_a_relay_that_sleeps_at_once_misses_a_commit_and_one_that_polls_on_misses_none():
    assert deaf_orders(polls_on=False) == ["PRRPR", "PRRRP"]
    assert deaf_orders(polls_on=True) == []


def test_a_run_is_made_of_its_seed_alone():
    assert trace_of(3, Setting(), short=False) == trace_of(3, Setting(), short=False)
