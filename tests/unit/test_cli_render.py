"""Tables on a terminal: what is short stays whole, however narrow the terminal is."""

from __future__ import annotations

import io
import re

import pytest

from redisjobs.cli import render

HEADERS = ["queue", "state", "waiting", "oldest", "last error"]
ROWS = [["default", "published", 12, "3 min", "ValueError: " + "no such thing " * 9], ["mail", "staged", 1, "-", "-"]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [20, 40, 80, 120])
def test_no_word_of_a_short_column_is_broken(columns: int, monkeypatch: pytest.MonkeyPatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("COLUMNS", str(columns))

    render.table(HEADERS, ROWS)

    for word in ("queue", "default", "published", "waiting", "oldest", "3 min", "staged", "12"):
        assert word in screen.getvalue()


def test_a_long_column_takes_what_is_left(monkeypatch: pytest.MonkeyPatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    render.table(HEADERS, ROWS)

    lines = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert "".join(line[40:] for line in lines).count("no such") >= 5
