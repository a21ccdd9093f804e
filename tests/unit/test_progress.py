"""What a body may say of its progress, and how it is read back (rule W9)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from redisjobs import Context, OptionError
from redisjobs.progress import NOTE_CHARS, Progress, read, write


def stored(text: bytes, start: int = 3) -> bytes:
    return b"3 0 0 w1 1-1 30000 -\n%d 1700000000500 %s" % (start, text)


@pytest.mark.parametrize(
    ("done", "total", "note", "shown"),
    [
        (0, None, "", "0"),
        (57, 100, "rows", "57 of 100 (57 %), rows"),
        (0, 0, "", "0 of 0"),
        (0.25, 1.0, "one\nline \x00", "0.25 of 1 (25 %), one\nline \x00"),
        (1, 2, "lone \udc7f", "1 of 2 (50 %), lone \\udc7f"),
    ],
)
def test_a_report_comes_back_as_it_went(done: float, total: float | None, note: str, shown: str):
    told = read(stored(write(done, total, note)))

    assert told is not None
    assert (told.done, told.total, str(told)) == (done, total, shown)
    assert (told.start, told.at) == (3, datetime(2023, 11, 14, 22, 13, 20, 500_000, UTC))


def test_a_long_note_is_cut():
    told = read(stored(write(1, None, "x" * 10_000)))

    assert told is not None
    assert (len(told.note), told.note[-1]) == (NOTE_CHARS, "…")


@pytest.mark.parametrize(
    ("done", "total", "note", "why"),
    [
        (float("nan"), 1, "", "done .nan. is no amount"),
        (float("inf"), None, "", "is no amount"),
        (-1, 5, "", r"done \(-1\) is no amount"),
        (True, 5, "", "is a bool"),
        ("3", 5, "", "is a str"),
        (3, float("nan"), "", "total .nan. is no amount"),
        (10**300, None, "", "is no amount"),
        (11, 10, "", r"done \(11\) is above total \(10\)"),
        (1, 2, b"note", "note .* is a bytes: pass a text"),
    ],
)
def test_what_is_no_progress_is_refused_by_name(done: Any, total: Any, note: Any, why: str):
    with pytest.raises(OptionError, match=why):
        Context.detached("mail").progress(done, total, note)


@pytest.mark.parametrize("odd", [b"", b"1 0 0 - - 0 -", b"x\n1", b"x\n1 2 {", b'x\n1 2 {"a": 1}', b"x\na b [1,2,3]"])
def test_what_cannot_be_read_is_no_progress(odd: bytes):
    assert read(odd) is None


def test_a_share_needs_a_total():
    assert Progress(3).share is None
    assert Progress(1, 4).share == 0.25


def test_a_detached_context_takes_reports_and_tells_nobody():
    cast(Any, Context.detached("mail")).progress(1, 2, "fine")
