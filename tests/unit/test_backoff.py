"""W3, J01: how long a failed job waits."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from redisjobs.backoff import Backoff, check_retry, delay_after
from redisjobs.errors import OptionError

PLAIN = Backoff(jitter="none")


def test_waits_double_up_to_the_cap():
    assert [PLAIN.delay(attempt) for attempt in (1, 2, 3, 4, 12, 13, 14)] == [1, 2, 4, 8, 2048, 3600, 3600]


@pytest.mark.parametrize("attempt", [16, 47, 400, 2_000, 10**9])
def test_any_attempt_has_a_wait_and_it_is_the_cap(attempt: int):
    assert Backoff(factor=5, cap=timedelta(hours=1), jitter="none").delay(attempt) == 3600


def test_full_jitter_is_anything_from_nothing_to_the_wait():
    assert [Backoff().delay(4, random=iter([share]).__next__) for share in (0.0, 0.5, 0.999)] == [0.0, 4.0, 7.992]


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Backoff(base=5, cap=3, jitter="none"), [3, 3, 3]),
        (Backoff(base=0, jitter="none"), [0, 0, 0]),
        (Backoff(base=2, factor=1, jitter="none"), [2, 2, 2]),
        (Backoff(base=timedelta(seconds=90), factor=1.5, jitter="none"), [90, 135, 202.5]),
    ],
)
def test_the_edges_of_its_options(backoff: Backoff, expected: list[float]):
    assert [backoff.delay(attempt) for attempt in (1, 2, 3)] == expected


@pytest.mark.parametrize(
    "wrong", [{"base": -1}, {"cap": float("nan")}, {"factor": 0.5}, {"factor": True}, {"jitter": "some"}, {"base": "1"}]
)
def test_an_option_out_of_range_is_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        Backoff(**wrong)


def test_the_last_delay_of_a_list_repeats():
    rule = check_retry([1, timedelta(seconds=5), 60.5])

    assert [delay_after(rule, attempt, ValueError()) for attempt in (1, 2, 3, 4, 99)] == [1, 5, 60.5, 60.5, 60.5]


def test_a_rule_of_ones_own_is_asked():
    rule = check_retry(lambda attempt, error: timedelta(seconds=attempt * len(str(error))))

    assert delay_after(rule, 3, ValueError("ab")) == 6.0


@pytest.mark.parametrize("answer", [-1, float("nan"), None, "soon", True])
def test_a_rule_that_answers_nonsense_is_named_and_the_default_used(answer, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        delay = delay_after(lambda _attempt, _error: answer, 3, ValueError("secret"))

    assert 0 <= delay <= 4
    assert "retry rule failed" in caplog.text
    assert "secret" not in caplog.text


def test_a_rule_that_raises_is_named_and_the_default_used(caplog: pytest.LogCaptureFixture):
    def rule(attempt: int, error: BaseException) -> float:
        raise RuntimeError("secret")

    assert 0 <= delay_after(rule, 1, ValueError()) <= 1
    assert "secret" not in caplog.text


@pytest.mark.parametrize("wrong", [[], (), "fast", 5, None, [1, -1], [True], {1: 2}])
def test_what_is_no_rule_is_refused(wrong):
    with pytest.raises(OptionError, match="retry"):
        check_retry(wrong)
