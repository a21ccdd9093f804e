"""What is written down of an attempt is short, valid and keeps no memory (cases J04, O02)."""

from __future__ import annotations

import gc
import weakref
from datetime import UTC, datetime

import msgpack
import pytest

from redisjobs.record import ErrorRecord, clean, describe, let_go, message_of, pack

AT = datetime(2026, 8, 1, 12, 0, 0, 123456, tzinfo=UTC)


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit("not even this")


def raised(error: BaseException) -> BaseException:
    try:
        raise error  # noqa: TRY301
    except BaseException as caught:  # noqa: BLE001
        return caught


def described(error: BaseException) -> ErrorRecord:
    return describe(raised(error), 2, AT)


def test_it_names_the_error_the_attempt_and_the_time() -> None:
    record = described(LookupError("no order 7"))
    assert (record["type"], record["message"]) == ("LookupError", "no order 7")
    assert (record["attempt"], record["at"]) == (2, "2026-08-01T12:00:00.123+00:00")


def test_the_traceback_ends_with_what_was_raised_and_begins_with_what_led_to_it() -> None:
    try:
        try:
            raise KeyError("inner")  # noqa: TRY301
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as outer:
        text = describe(outer, 1, AT)["traceback"]
    assert text.index("KeyError: 'inner'") < text.index("which led to:") < text.index("ValueError: outer")
    assert text.endswith("ValueError: outer")
    assert "test_outcome_record.py" in text


@pytest.mark.parametrize(
    "error",
    [
        ValueError("lone \udc7f surrogate"),
        ValueError(b"\xff\xfe"),
        ValueError("x" * 10_000_000),
        ValueError("nul \0 byte"),
        Mute(),
        ExceptionGroup("several", [ValueError("x" * 100_000), Mute()]),
        type("N" * 1000, (Exception,), {})(),
    ],
)
def test_a_hostile_error_becomes_a_short_and_valid_record(error: BaseException) -> None:
    record = described(error)
    assert len(record["message"]) <= 2000
    assert len(record["traceback"]) <= 8000
    assert len(record["type"]) <= 200
    text = msgpack.unpackb(pack(record))["e"]
    assert "\0" not in "".join(str(value) for value in text.values())


def test_an_error_whose_text_cannot_be_read_says_so() -> None:
    assert message_of(Mute()) == "(the text of this error cannot be read: its __str__ raised SystemExit)"


def test_a_text_that_is_too_long_is_cut_and_shows_it() -> None:
    assert clean("abcdef", 4) == "abc…"
    assert clean("abcd", 4) == "abcd"


def test_a_deep_recursion_is_described_by_its_last_frames() -> None:
    def down() -> None:
        down()

    with pytest.raises(RecursionError) as caught:
        down()
    record = describe(caught.value, 1, AT)
    assert record["type"] == "RecursionError"
    assert len(record["traceback"]) <= 8000


def test_an_error_that_was_let_go_keeps_no_locals_of_its_body_alive() -> None:
    class Big:
        pass

    def body() -> weakref.ref[Big]:
        big = Big()
        try:
            try:
                raise KeyError("inner")  # noqa: TRY301
            except KeyError as inner:
                raise ValueError("outer") from inner
        except ValueError as error:
            kept.append(error)
        return weakref.ref(big)

    kept: list[BaseException] = []
    ref = body()
    assert ref() is not None
    let_go(kept[0])
    gc.collect()
    assert ref() is None


def test_a_chain_that_bites_its_own_tail_ends() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert "which led to" in describe(first, 1, AT)["traceback"]
    let_go(first)


def test_a_record_has_only_what_there_is() -> None:
    assert msgpack.unpackb(pack()) == {}
    assert msgpack.unpackb(pack(why="gone", duration_ms=3, result=("json", b"1"))) == {
        "why": "gone", "ms": 3, "rc": "json", "r": b"1",
    }  # fmt: skip
