"""Markdown, and what docstrings have for it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

GENERATED = "<!-- Written by `make docs` from the code: change it there. -->\n"


def page(title: str, *parts: str) -> str:
    """A page that says where it comes from."""
    return "\n".join([GENERATED, f"# {title}\n", *(f"{part.strip()}\n" for part in parts if part.strip())])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; empty where it has no rows."""
    lines = [_row(head), "|" + "---|" * len(head), *map(_row, rows)]
    return "\n".join(lines) if len(lines) > 2 else ""


def code(value: object) -> str:
    """As code; empty for nothing."""
    text = "" if value is None else str(value)
    return f"`{text}`" if text else ""


def fence(language: str, text: str) -> str:
    """A fenced block."""
    return f"```{language}\n{text.strip(chr(10))}\n```"


def summary(thing: object) -> str:
    """What a docstring says before its sections, in one paragraph."""
    text = inspect.getdoc(thing) or ""
    return " ".join(re.split(r"\n\n|\n(?=Args:|Raises:)", text)[0].split())


def arguments(thing: object) -> dict[str, str]:
    """What the section `Args:` of a docstring says of each name."""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)*)", inspect.getdoc(thing) or "", re.MULTILINE)
    found: dict[str, str] = {}
    for name, text in re.findall(
        r"^    (\w+): ((?:.*\n?)(?:        .*\n?)*)", section[1] if section else "", re.MULTILINE
    ):
        found[name] = " ".join(text.split())
    return found


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
