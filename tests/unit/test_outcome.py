"""What becomes of an attempt (rules W2, W3, W4)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from redisjobs.errors import Cancel, Dead, DecodeError, JobTimeoutError, RateLimited, Retry, Snooze
from redisjobs.outcome import DONE, LOST, RELEASED, Ended, Outcome, Rules, decide


def rules(**options: Any) -> Rules:
    given: dict[str, Any] = {
        "max_attempts": 3,
        "retries": lambda error: True,
        "delay": lambda attempt, error: attempt * 10.0,
    }
    return Rules(**(given | options))


def after_raising(error: BaseException, attempt: int = 1, **options: object) -> Outcome:
    return decide(Ended.RAISED, error, attempt, rules(**options))


def test_a_body_that_returned_is_done() -> None:
    assert decide(Ended.RETURNED, None, 1, rules()) is DONE


def test_an_error_is_retried_after_the_delay_of_its_attempt() -> None:
    assert after_raising(ValueError("no"), attempt=2) == Outcome("retry", 20.0, counted=True)


def test_the_last_attempt_that_fails_ends_as_a_dead_letter() -> None:
    outcome = after_raising(ValueError("no"), attempt=3)
    assert (outcome.word, outcome.counted, outcome.why) == ("dead", True, "attempt 3 of 3 failed")


def test_a_timeout_counts_as_a_failure() -> None:
    assert decide(Ended.TIMED_OUT, JobTimeoutError("2 s"), 1, rules()).word == "retry"
    assert decide(Ended.TIMED_OUT, JobTimeoutError("2 s"), 3, rules()).word == "dead"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_a_body_that_would_end_its_process_has_failed_and_does_not_run_for_ever(error: BaseException) -> None:
    assert after_raising(error, attempt=1).word == "retry"
    assert after_raising(error, attempt=3, max_attempts=3).word == "dead"


def test_a_cancellation_that_nobody_asked_for_is_a_failure() -> None:
    assert after_raising(asyncio.CancelledError()).word == "retry"


def test_an_error_that_the_job_does_not_retry_ends_as_a_dead_letter() -> None:
    outcome = after_raising(KeyError("gone"), retries=lambda error: not isinstance(error, LookupError))
    assert (outcome.word, outcome.counted, outcome.why) == ("dead", True, "its error is none that the job retries")


def test_arguments_of_a_newer_release_are_retried_whatever_errors_the_job_names() -> None:
    assert after_raising(DecodeError("with the unknown bcc"), retries=lambda error: False).word == "retry"


@pytest.mark.parametrize(("after", "delay"), [(5, 5.0), (0, 0.0), (2.5, 2.5), (timedelta(minutes=1), 60.0)])
def test_a_body_may_say_when_it_is_retried(after: float | timedelta, delay: float) -> None:
    assert after_raising(Retry(after)) == Outcome("retry", delay, counted=True)


def test_a_retry_without_a_time_waits_as_the_job_says() -> None:
    assert after_raising(Retry()).delay == 10.0


def test_a_retry_at_the_last_attempt_is_a_dead_letter() -> None:
    assert after_raising(Retry(after=1), attempt=3).word == "dead"


@pytest.mark.parametrize("after", [float("nan"), float("inf"), -1, True, "soon", 1e300])
def test_a_time_that_is_none_is_a_failure_with_the_jobs_own_delay(after: object) -> None:
    assert after_raising(Retry(after)) == Outcome("retry", 10.0, counted=True)  # type: ignore[arg-type]
    assert after_raising(Snooze(after)) == Outcome("retry", 10.0, counted=True)  # type: ignore[arg-type]


def test_a_snooze_is_not_counted_even_past_the_last_attempt() -> None:
    assert after_raising(Snooze(timedelta(hours=1)), attempt=9) == Outcome("snooze", 3600.0)


def test_a_job_that_waits_for_a_limit_comes_back_uncounted_when_it_is_woken_or_told() -> None:
    assert decide(Ended.LIMITED, RateLimited(2), 9, rules()) == Outcome("limited", 2.0, why="it waits for a limit")
    assert decide(Ended.LIMITED, None, 9, rules()).delay == 3600


def test_a_body_that_met_a_limit_of_others_comes_back_uncounted() -> None:
    outcome = after_raising(RateLimited(timedelta(minutes=1)), attempt=9)
    assert (outcome.word, outcome.delay, outcome.counted) == ("limited", 60.0, False)
    assert after_raising(RateLimited(-1)) == Outcome("retry", 10.0, counted=True)


def test_a_body_may_end_its_job_as_cancelled_or_dead() -> None:
    assert after_raising(Cancel("order withdrawn")) == Outcome("cancelled", counted=True, why="order withdrawn")
    assert after_raising(Dead("no such customer")) == Outcome("dead", counted=True, why="no such customer")


@pytest.mark.parametrize("error", [None, ValueError("cleanup failed"), asyncio.CancelledError(), Retry(after=1)])
def test_a_drain_hands_the_job_back_uncounted_whatever_the_body_answered(error: BaseException | None) -> None:
    assert decide(Ended.DRAINED, error, 3, rules()) is RELEASED


def test_a_lost_lease_writes_nothing() -> None:
    assert decide(Ended.LOST, ValueError(), 3, rules()) is LOST


def test_an_unknown_job_is_parked_uncounted_and_longer_each_time() -> None:
    delays = [decide(Ended.UNKNOWN, None, 1, rules(), returns=n) for n in (0, 1, 2, 3, 4, 5, 10_000)]
    assert [outcome.delay for outcome in delays] == [1, 2, 4, 8, 16, 30, 30]
    assert {(outcome.word, outcome.counted) for outcome in delays} == {("parked", False)}


def test_what_no_repeat_can_change_is_a_dead_letter_at_once() -> None:
    assert decide(Ended.UNREADABLE, None, 1, rules()).word == "dead"


def test_a_cancelled_or_expired_job_ends_so_uncounted() -> None:
    for ended, word in ((Ended.CANCELLED, "cancelled"), (Ended.EXPIRED, "expired")):
        outcome = decide(ended, None, 1, rules())
        assert (outcome.word, outcome.counted) == (word, False)
