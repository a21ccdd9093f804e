"""G1: an option out of range is refused, never clamped."""

from __future__ import annotations

from datetime import timedelta

import pytest

from redisjobs.base.durations import positive, seconds, whole
from redisjobs.errors import OptionError


@pytest.mark.parametrize(
    ("given", "expected"), [(3, 3.0), (0.5, 0.5), (timedelta(minutes=2, milliseconds=1), 120.001), (0, 0.0)]
)
def test_seconds_and_timedeltas_are_seconds(given, expected):
    assert seconds("delay", given) == expected
    assert type(seconds("delay", given)) is float


@pytest.mark.parametrize(
    "given",
    [
        True,
        False,
        float("nan"),
        float("inf"),
        -float("inf"),
        -1,
        -0.001,
        timedelta(seconds=-1),
        "5",
        None,
        10**400,
        1e300,
    ],
)
def test_what_is_no_duration_is_refused_by_name_and_value(given):
    with pytest.raises(OptionError, match=r"^delay \(.*\) is .*: pass "):
        seconds("delay", given)


def test_nothing_is_no_timeout():
    with pytest.raises(OptionError, match=r"timeout \(0\) would be over before it began: pass more than 0 s"):
        positive("timeout", 0)


@pytest.mark.parametrize("given", [True, 1.0, "1", None, 0, -1, 11])
def test_a_count_is_a_whole_number_in_its_range(given):
    with pytest.raises(OptionError, match=r"^batch_size \(.*\) is .*: pass "):
        whole("batch_size", given, most=10)


def test_an_option_error_is_a_value_error_too():
    with pytest.raises(ValueError, match="batch_size"):
        whole("batch_size", 0)
