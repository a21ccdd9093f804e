"""S6, proven: around every change of the clocks, an expression is due exactly when brute force says, and cronsim too.

`make cron-proof` takes all changes from 2020 to 2037; the ordinary run those of 2026, and a few expressions a zone.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redisjobs.cron import cron
from tests.support.cron_cases import EXPRESSIONS, ZONES
from tests.support.cron_oracle import Window, Written, changes, never_comes, window

WHOLE = os.environ.get("REDISJOBS_CRON_PROOF") == "whole"
YEARS = (2020, 2037) if WHOLE else (2026, 2026)
STRIDE = 1 if WHOLE else 29


def test_the_proof_takes_60_zones_and_200_expressions_at_least():
    assert len(set(ZONES)) >= 60
    assert len(set(EXPRESSIONS)) >= 200


def _by_cronsim(expression: str, zone: str, around: Window) -> list[datetime]:
    steps = (each.astimezone(UTC) for each in CronSim(expression, around.start.astimezone(ZoneInfo(zone))))
    found = set(takewhile(lambda instant: instant <= around.end, steps))
    return sorted(instant for instant in found if instant > around.start)


def _is_a_witness(expression: str, zone: str, around: Window) -> bool:
    """Whether cronsim can be asked: it steps by whole hours, and misses some where clocks change within one."""
    walls = [(around.changed - timedelta(minutes=back)).astimezone(ZoneInfo(zone)) for back in (60, 0)]
    return not any(wall.minute for wall in walls) or Written(expression).fixed


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("zone", ZONES)
def test_around_every_change_of_the_clocks_an_expression_is_due_as_brute_force_and_cronsim_say(zone):
    for number, changed in enumerate(changes(zone, *YEARS), 2 * ZONES.index(zone)):
        around = window(zone, changed)
        for expression in EXPRESSIONS[number % STRIDE :: STRIDE]:
            due = list(cron(expression, zone).occurrences(around.start, around.end))
            assert due == Written(expression).due(around), (expression, zone, changed)
            if _is_a_witness(expression, zone, around):
                assert due == _by_cronsim(expression, zone, around), (expression, zone, changed)


@st.composite
def fields(draw, low: int, high: int) -> str:
    value = st.integers(low, high)
    kind = draw(st.sampled_from(["star", "star step", "one", "list", "range", "range step"]))
    first, second = sorted((draw(value), draw(value)))
    step = draw(st.integers(1, high))
    second = first + 1 if first == second < high else second  # croniter takes 5-5 for all, so it is refused
    first = first - 1 if first == second else first
    listed = ",".join(map(str, sorted(set(draw(st.lists(value, min_size=1, max_size=4))))))
    return {"star": "*", "star step": f"*/{step}", "one": str(first), "list": listed,
            "range": f"{first}-{second}", "range step": f"{first}-{second}/{step}"}[kind]  # fmt: skip


def reads_one_way(expression: str) -> bool:
    """Whether it is taken: days limited twice, once by a star with a step, are not."""
    _, _, day, _, weekday = expression.split()
    return "*" in (day, weekday) or not (day.startswith("*") or weekday.startswith("*"))


every_field = st.tuples(fields(0, 59), fields(0, 23), fields(1, 31), fields(1, 12), fields(0, 6))
expressions = every_field.map(" ".join).filter(reads_one_way)
changing = st.sampled_from([zone for zone in ZONES if changes(zone, 2020, 2026)])
slow = settings(max_examples=2000 if WHOLE else 100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@slow
@given(expressions, changing, st.data())
def test_a_random_expression_is_due_around_a_change_as_brute_force_says(expression, zone, data):
    if never_comes(expression):
        return
    around = window(zone, data.draw(st.sampled_from(changes(zone, 2020, 2026))))
    assert list(cron(expression, zone).occurrences(around.start, around.end)) == Written(expression).due(around)


@slow
@given(expressions, changing, st.data())
def test_latest_and_previous_answer_the_last_of_all_occurrences_from_any_moment(expression, zone, data):
    if never_comes(expression):
        return
    around = window(zone, data.draw(st.sampled_from(changes(zone, 2020, 2026))))
    until = around.start + timedelta(seconds=data.draw(st.floats(1, 12 * 3600)))
    due = [instant for instant in Written(expression).due(around) if instant <= until]
    cadence = cron(expression, zone)
    assert cadence.latest(around.start, until) == (due[-1] if due else None)
    if due and due[-1] < until:
        assert cadence.previous(until) == due[-1]
