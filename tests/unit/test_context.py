"""What a body is told about its attempt."""

from __future__ import annotations

import copy
import time
from datetime import UTC, datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redisjobs.context import Context, micros, moment

MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1))  # noqa: DTZ001  # the zone is drawn apart


@given(MOMENTS, st.timedeltas(*[sign * timezone.max.utcoffset(None) for sign in (-1, 1)]).map(timezone))
def test_a_moment_comes_back_exactly_and_in_utc(naive: datetime, zone: timezone):
    given = naive.replace(tzinfo=zone)

    back = moment(micros(given))

    assert back == given
    assert back is not None
    assert back.tzinfo is UTC


def test_no_moment_is_none():
    assert moment(None) is None


def test_what_remains_is_never_below_nothing():
    assert Context("id", "mail").remaining() is None
    assert Context("id", "mail", deadline=time.monotonic() - 5).remaining() == 0
    assert 50 < (Context("id", "mail", deadline=time.monotonic() + 60).remaining() or 0) <= 60


def test_each_detached_context_has_an_id_and_an_event_of_its_own():
    first, second = Context.detached("mail"), Context.detached("mail")

    first.draining.set()

    assert first.job_id != second.job_id
    assert not second.draining.is_set()


def test_a_context_made_later_is_filled_at_the_first_look_and_equals_one_made_at_once():
    fills: list[Context] = []

    def fill(context: Context) -> None:
        fills.append(context)
        context.__init__("id", "mail", attempt=2)  # type: ignore[misc]

    later = Context.later(fill)
    assert later.deadline is None
    assert later.remaining() is None
    assert fills == []

    assert later.attempt == 2
    assert later == Context("id", "mail", attempt=2, draining=later.draining)
    assert len(fills) == 1


def test_an_attribute_that_no_context_has_is_missed_in_the_usual_words():
    for context in (Context("id", "mail"), Context.later(lambda _: None)):
        with pytest.raises(AttributeError, match="'Context' object has no attribute 'colour'"):
            _ = context.colour  # type: ignore[attr-defined]


def test_a_context_made_later_can_be_copied():
    later = Context.later(lambda context: context.__init__("id", "mail", attempt=3))  # type: ignore[misc]

    assert copy.copy(later).attempt == 3
