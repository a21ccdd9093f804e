"""`Retry-After` in all its forms, and what only looks like one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from redisjobs.webhooks.retry_after import LONGEST_S, read_date, retry_after

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC).timestamp()
IMF, RFC850, ASCTIME = "Mon, 30 Nov 2026 12:00:05 GMT", "Monday, 30-Nov-26 12:00:05 GMT", "Mon Nov 30 12:00:05 2026"


@pytest.mark.parametrize("date", [IMF, RFC850, ASCTIME])
def test_a_date_in_each_of_its_three_forms_is_waited_for(date: str):
    """L06: 5 s ahead, and the next try comes after 5 to 7 s."""
    wait = retry_after({"retry-after": date}, NOW)

    assert wait is not None
    assert 5 <= wait <= 7


@pytest.mark.parametrize("date", [IMF, RFC850, ASCTIME])
def test_a_date_is_measured_from_the_date_of_the_answer(date: str):
    answer = {"retry-after": date, "date": "Mon, 30 Nov 2026 12:00:00 GMT"}

    assert retry_after(answer, NOW + 3600) == retry_after(answer, NOW - 3600) == 6


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [("5", 5), ("0", 1), ("120", 120), ("1.5", 1.5), (" 7 ", 7), ("999999999", LONGEST_S), ("0000000003", 3)],
)
def test_seconds_are_taken_within_bounds(asked: str, seconds: float):
    assert retry_after({"retry-after": asked}, NOW) == seconds


def test_a_date_that_is_over_asks_for_the_shortest_wait_and_one_far_ahead_for_the_longest():
    assert retry_after({"retry-after": "Sun, 29 Nov 2026 12:00:00 GMT"}, NOW) == 1
    assert retry_after({"retry-after": "Wed, 30 Nov 2099 12:00:00 GMT"}, NOW) == LONGEST_S


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "soon",
        "-5",
        "+5",
        "5s",
        "5 5",
        "1e3",
        "nan",
        "inf",
        "٥",
        "9" * 400,
        "Mon, 30 Nov 2026 12:00:05",
        "Mon, 30 Nov 2026 12:00:05 CET",
        "Mon, 31 Nov 2026 12:00:05 GMT",
        "Mon, 30 Nov 2026 25:00:05 GMT",
        "Mon, 30 Foo 2026 12:00:05 GMT",
        "2026-11-30T12:00:05Z",
        "Mon, 30 Nov 0000 12:00:05 GMT",
        "\x00",
        "é",
    ],
)
def test_garbage_asks_for_nothing(garbage: str):
    """H3."""
    assert retry_after({"retry-after": garbage}, NOW) is None


def test_no_header_asks_for_nothing():
    assert retry_after({}, NOW) is None


@pytest.mark.parametrize(
    ("text", "year"), [("Friday, 01-Jan-99 00:00:00 GMT", 1999), ("Friday, 01-Jan-70 00:00:00 GMT", 2070)]
)
def test_a_year_of_two_digits_is_never_more_than_50_years_ahead(text: str, year: int):
    found = read_date(text, NOW)

    assert found is not None
    assert datetime.fromtimestamp(found, UTC).year == year
