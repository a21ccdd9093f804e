"""The operations page tells of every event that the code can log, and of no other."""

from __future__ import annotations

import re
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
EVENT = re.compile(r'event\(\s*log,\s*([\w.]+),\s*"([a-z_.-]+)"')
NAMED = re.compile(r'\(logging\.(\w+), "([a-z_.-]+)"\)|logging\.(\w+), "([a-z_]+\.[a-z_]+)"')


def logged() -> set[str]:
    """The names of events above DEBUG in the package."""
    names: set[str] = set()
    for file in (CHECKOUT / "redisjobs").rglob("*.py"):
        text = file.read_text()
        names |= {name for level, name in EVENT.findall(text) if level != "logging.DEBUG"}
        for one in NAMED.finditer(text):
            level, name = one[1] or one[3], one[2] or one[4]
            names |= {name} if level != "DEBUG" else set()
    return names


def test_every_event_has_its_line_and_every_line_its_event():
    page = (CHECKOUT / "docs" / "operations.md").read_text().partition("## Log events")[2].partition("\n## ")[0]
    told = {
        name
        for line in page.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([a-z_.-]+)`", line.split("|")[1])
    }
    assert told == logged()
