"""How fast a replay goes, and when it stops by itself."""

from __future__ import annotations

from uuid import uuid4

import pytest

from redisjobs.errors import OptionError
from redisjobs.search.pace import ENOUGH, WINDOW, Pace, Watch, rate, share


@pytest.mark.parametrize(
    ("text", "a_second"), [("50/s", 50), ("50", 50), ("30/m", 0.5), ("36/H", 0.01), ("2.5/s", 2.5)]
)
def test_a_rate_has_a_period(text: str, a_second: float):
    assert rate(text) == pytest.approx(a_second)


@pytest.mark.parametrize("text", ["", "0", "0/s", "-1/s", "nan", "inf/s", "50/d", "50 /s", "1e9", "100001/s"])
def test_what_is_no_rate_is_refused(text: str):
    with pytest.raises(OptionError, match="is no rate: pass such as 50/s"):
        rate(text)


def test_a_share_is_a_percentage_or_a_part():
    assert share("20%") == share("0.2") == pytest.approx(0.2)
    assert share("100%") == 1
    for text in ("", "0", "0%", "101%", "-5%", "nan", "much"):
        with pytest.raises(OptionError, match="is no share"):
            share(text)


@pytest.mark.parametrize("per_s", [0.1, 1, 7, 50, 900, 100_000])
def test_in_a_minute_no_more_go_than_the_rate_allows(per_s: float):
    pace, now, went = Pace(per_s), 1_000.0, 0
    while (now := now + pace.wait_s(now)) < 1_060.0:
        pace.went(pace.at_once, now)
        went += pace.at_once
    assert per_s * 60 - 1 <= went <= per_s * 60 + pace.at_once + 1


def test_nothing_is_caught_up_after_a_pause():
    pace = Pace(10)
    pace.went(pace.at_once, 0.0)
    pace.went(pace.at_once, 100.0)
    assert pace.wait_s(100.0) == pytest.approx(0.5)


def test_a_high_rate_goes_in_pieces_that_a_transaction_can_hold():
    assert [Pace(each).at_once for each in (0.01, 1, 50, 100_000)] == [1, 1, 25, 500]


def test_failures_stop_it_once_enough_is_known():
    watch, ids = Watch(), [uuid4() for _ in range(100)]
    watch.add(ids)

    watch.learn({each: "dead" if n < ENOUGH - 1 else "under way" for n, each in enumerate(ids)})
    assert not watch.too_many(0.2)
    watch.learn({each: "failing" if n < ENOUGH else "under way" for n, each in enumerate(ids)})
    assert watch.too_many(0.2)
    watch.learn(dict.fromkeys(ids[:20], "dead"))
    assert not watch.too_many(0.2)
    watch.learn(dict.fromkeys(ids[:21], "dead"))
    assert watch.too_many(0.2)
    assert not watch.too_many(None)
    assert str(watch) == "79 ended, 21 failed again (21%), 0 under way"


def test_it_watches_the_last_ones_alone():
    watch = Watch()
    watch.add([uuid4() for _ in range(WINDOW + 10)])
    watch.learn({})
    assert watch.ended == WINDOW
    assert str(watch).startswith(f"of the last {WINDOW}: ")
