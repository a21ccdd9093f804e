"""What the model was held against: a mark of each script and statement that it has, of its words without comments."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from redisjobs.base import scripts, statements
from tests.model import known

FILE = Path(__file__).with_name("marks.json")

_COMMENT = re.compile(r"--[^\n]*")


def seen() -> dict[str, str]:
    """The marks that were written down last."""
    marks: dict[str, str] = json.loads(FILE.read_text())
    return marks


def now() -> dict[str, str]:
    """The marks of what is there now: of scripts as `lua/NAME`, with the pieces they use, and of statements."""
    by_script = {f"lua/{name}": _mark(scripts.load(name).text) for name in known.SCRIPTS}
    by_statement: dict[str, str] = {}
    for told in (*known.STATEMENTS, *known.SAME_AS):
        station, name = told.split(".")
        by_statement[told] = _mark(statements.load(station)[name].decode())
    return by_script | by_statement


def write() -> list[str]:
    """Write the marks down; answers whose have changed."""
    before, marks = seen() if FILE.exists() else {}, now()
    FILE.write_text(json.dumps(marks, indent=0, sort_keys=True) + "\n")
    return sorted(name for name in before.keys() | marks.keys() if before.get(name) != marks.get(name))


def _mark(text: str) -> str:
    return hashlib.sha256(" ".join(_COMMENT.sub("", text).split()).encode()).hexdigest()[:12]
