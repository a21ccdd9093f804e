"""G1, K03, K05, K07: the options of a call are what a row may hold, or they are refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from redisjobs.call import Options, check_job, check_queue, headers_text
from redisjobs.errors import EncodeError, OptionError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "wrong",
    [
        {"queue": ""}, {"queue": "a b"}, {"queue": "-a"}, {"queue": "x" * 129}, {"queue": "é"}, {"queue": "a\n"},
        {"queue": "a{b}"}, {"queue": 5}, {"queue": "a\udc7f"},
        {"delay": -1}, {"delay": float("nan")}, {"delay": float("inf")}, {"delay": True}, {"delay": "5" * 10_000},
        {"delay": timedelta(days=40_000)}, {"delay": 5, "run_at": NOW},
        {"run_at": datetime(2026, 1, 1)}, {"run_at": "2026-01-01"}, {"run_at": 5}, {"run_at": NOW.date()},  # noqa: DTZ001
        {"run_at": datetime.max.replace(tzinfo=UTC)}, {"run_at": datetime.min.replace(tzinfo=UTC)},
        {"expires": 0}, {"expires": -1}, {"expires": True}, {"expires": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"idempotency_key": ""}, {"idempotency_key": "x" * 513}, {"idempotency_key": "é" * 257},
        {"idempotency_key": "a\0b"}, {"idempotency_key": "\udc7f"}, {"idempotency_key": b"x"},
        {"window": 5}, {"window": -1, "idempotency_key": "k"}, {"window": timedelta(days=367), "idempotency_key": "k"},
        {"priority": 101}, {"priority": -101}, {"priority": 1.0}, {"priority": True},
        {"max_attempts": 0}, {"max_attempts": 1001}, {"max_attempts": 2.0}, {"max_attempts": True},
        {"tenant": ""}, {"tenant": "x" * 201}, {"tenant": "a\0"}, {"tenant": 7},
        {"enqueued_by": "x" * 201}, {"enqueued_by": "\ud800"}, {"headers": [1]}, {"headers": "x"},
    ],
)  # fmt: skip
def test_an_option_out_of_range_is_refused_and_named(wrong):
    with pytest.raises(OptionError) as refused:
        Options(**wrong)

    assert refused.value.name in wrong
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "name", ["", " ", "\t", "a\nb", "x" * 201, "a\0", "\udc7f", "\u2028", "\x7f", "\x85", None, 5, b"mail"]
)
def test_what_is_no_job_name_is_refused(name):
    with pytest.raises(OptionError, match="is no job name"):
        check_job(name)


@pytest.mark.parametrize("name", ["mail", "Mails.send", "große Mail", "x" * 200, "a b"])
def test_what_is_a_job_name_is_taken(name: str):
    assert check_job(name) == name


@pytest.mark.parametrize("name", ["default", "0", "_x", "mail.bulk:eu-1", "x" * 128])
def test_what_is_a_queue_name_is_taken(name: str):
    assert check_queue(name) == name


@pytest.mark.parametrize(
    "headers",
    [
        {"a": float("nan")}, {"a": (1,)}, {1: "a"}, {"a": b"x"}, {"a": "\0"}, {"a": "\udc7f"}, {"a": "x" * 16_384},
        {"a": NOW}, {"a": {"b": {1: 2}}},
    ],
)  # fmt: skip
def test_headers_are_plain_json_of_at_most_16_kib(headers):
    with pytest.raises(EncodeError, match=r"^headers"):
        headers_text(headers)


def test_headers_keep_their_numbers_and_their_order():
    assert (
        headers_text({"b": 1.0, "a": 10**30, "c": [True, None, "é"]}) == f'{{"b":1.0,"a":{10**30},"c":[true,null,"é"]}}'
    )
    assert headers_text({}) == "{}"
    assert headers_text(None) is None
