"""What a command shows: tables for people, one JSON document for machines."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any

import click
from rich import box
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from redisjobs.base.durations import age
from redisjobs.cli.plain_text import printable

__all__ = ["age", "as_json", "cell", "facts", "heading", "printable", "short", "table"]

PIPE_WIDTH = 250
"""Columns where no terminal tells its own: nothing is cut for `grep`."""
WHOLE = frozenset({"id", "staged", "ended", "died"})
"""Columns whose values are never broken over two lines."""
SHORT = 16
"""Nor are those of which none is longer."""


def as_json(document: Any) -> None:
    """Print one document."""
    click.echo(json.dumps(document, default=plain, ensure_ascii=False, indent=2))


def plain(value: object) -> object:
    """A value as JSON has it."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table; numbers stand right, an id is never broken."""
    made = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title=title, title_justify="left", show_edge=False
    )
    listed = [list(row) for row in rows]
    for at, header in enumerate(headers):
        numbers = bool(listed) and all(isinstance(row[at], int | float) or row[at] is None for row in listed)
        whole = header in WHOLE or all(cell(row[at]).cell_len <= SHORT for row in listed)
        made.add_column(header, justify="right" if numbers else "left", no_wrap=whole, overflow="fold")
    for row in listed:
        made.add_row(*(cell(value) for value in row))
    show(made)


def facts(pairs: Mapping[str, object]) -> None:
    """Print names and values below each other; what is unknown is left out."""
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs.items():
        if value is not None and value != "":
            made.add_row(name, cell(value))
    show(made)


def heading(text: str) -> None:
    """Print what the next lines are about."""
    show(Text(printable(text), style="bold"))


def cell(value: object) -> Text:
    """A value as a cell: without markup, and without control characters that a terminal would obey."""
    if value is None:
        return Text("-", style="dim")
    if isinstance(value, datetime):
        return Text(f"{value.astimezone():%Y-%m-%d %H:%M:%S}")
    return Text(printable(str(value)))


def short(text: str | None, most: int = 100) -> str | None:
    """The first line of a text, cut."""
    if text is None:
        return None
    line = text.strip().partition("\n")[0]
    return line if len(line) <= most else f"{line[: most - 1]}…"


def show(made: RenderableType) -> None:
    """Print on a terminal, with colours; else plain, and without spaces at the ends of lines.

    What has no room beside each other on a terminal goes on in its next line, for the terminal cuts nothing.
    """
    if sys.stdout.isatty():
        console = Console(file=sys.stdout, highlight=False)
        least = Measurement.get(console, console.options.update(width=PIPE_WIDTH), made).minimum
        console.width = max(console.width, least)
        console.print(made)
        return
    text = io.StringIO()
    Console(file=text, width=PIPE_WIDTH, highlight=False).print(made)
    click.echo("\n".join(line.rstrip() for line in text.getvalue().splitlines()))
