"""S3, S4: what becomes of a schedule at a moment, decided without a store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redisjobs.due import Plan, delay_of, plan
from redisjobs.timing import Timing

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def decide(watermark: datetime, now: datetime, *, running: bool = False, **options: Any) -> Plan:
    options = {"cron": "* * * * *"} | options
    return plan("s", Timing(**options), watermark, now, running=running)


def test_nothing_is_due_before_the_next_occurrence():
    decided = decide(NOON, NOON + timedelta(seconds=59))
    assert (decided.dispatches, decided.watermark, decided.next_run) == ((), NOON, NOON + MINUTE)


def test_what_comes_on_time_is_no_catching_up():
    decided = decide(NOON, NOON + MINUTE)
    [found] = decided.dispatches
    assert (found.at, found.catch_up, found.count) == (NOON + MINUTE, False, 1)
    assert (decided.watermark, decided.next_run) == (NOON + MINUTE, NOON + 2 * MINUTE)


def test_skip_moves_to_the_latest_so_that_nothing_before_now_is_due_any_more():
    decided = decide(NOON, NOON + 10 * MINUTE)
    [found] = decided.dispatches
    assert (found.at, found.catch_up) == (NOON + 10 * MINUTE, True)
    assert decide(decided.watermark, NOON + 10 * MINUTE).dispatches == ()


def test_run_all_goes_on_where_it_stopped():
    watermark, seen = NOON, list[datetime]()
    while dispatches := (
        decided := decide(watermark, NOON + 10 * MINUTE, catch_up="run_all", max_catch_up=4)
    ).dispatches:
        seen += [each.at for each in dispatches]
        assert len(dispatches) <= 4
        watermark = decided.watermark
    assert seen == [NOON + each * MINUTE for each in range(1, 11)]


def test_run_once_of_a_second_s_interval_counts_no_further_than_a_thousand():
    decided = decide(NOON, NOON + timedelta(days=365), cron=None, every=1, catch_up="run_once")
    [found] = decided.dispatches
    assert (found.first, found.at, found.count) == (NOON + timedelta(seconds=1), NOON + timedelta(days=365), 1000)


@pytest.mark.parametrize(
    ("overlap", "dispatched", "cancels"), [("allow", 1, False), ("skip", 0, False), ("cancel", 1, True)]
)
def test_while_the_last_job_lives_overlap_decides(overlap: str, dispatched: int, cancels: bool):
    decided = decide(NOON, NOON + MINUTE, running=True, overlap=overlap)
    assert (len(decided.dispatches), decided.cancels) == (dispatched, cancels)
    assert decided.watermark == NOON + MINUTE, "what is passed over is dealt with"


def test_a_clock_of_postgres_that_goes_back_repeats_nothing():
    decided = decide(NOON + MINUTE, NOON - timedelta(hours=1))
    assert (decided.dispatches, decided.watermark, decided.next_run) == ((), NOON + MINUTE, NOON + 2 * MINUTE)


@given(st.floats(0, 86_400), st.text(min_size=1, max_size=20))
def test_jitter_is_the_same_whoever_asks_and_within_its_bound(jitter: float, name: str):
    timing = Timing("* * * * *", jitter=jitter)
    found = delay_of(name, timing, NOON)
    assert 0 <= found <= jitter
    assert found == delay_of(name, timing, NOON)


@given(
    st.sampled_from(["skip", "run_once", "run_all"]), st.integers(1, 1000), st.integers(0, 5000), st.booleans(),
    st.sampled_from([None, 1.0, 90.0, 3600.0]),
)  # fmt: skip
def test_the_watermark_never_goes_back_and_never_passes_now(catch_up, most, seconds, running, grace):
    now = NOON + timedelta(seconds=seconds)
    decided = decide(NOON, now, running=running, catch_up=catch_up, max_catch_up=most, misfire_grace=grace)
    assert NOON <= decided.watermark <= now
    assert decided.next_run is not None
    assert decided.next_run > decided.watermark
    assert all(NOON < each.at <= now for each in decided.dispatches)
