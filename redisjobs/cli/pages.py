"""A page of a list: a table for people, one document or one line each for machines, and how to get the next."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import click

from redisjobs.cli import render
from redisjobs.operator import DeadLetter, JobLine

Line = TypeVar("Line", JobLine, DeadLetter)


def tell(
    name: str,
    found: Sequence[Line],
    columns: dict[str, Callable[[Line], Any]],
    nothing: str,
    *,
    more: bool,
    as_json: bool,
    as_lines: bool,
) -> None:
    """Print a page.

    Args:
        name: what the page is called in a document.
        columns: of the table: a head, and its cell.
        nothing: what is said to people of an empty page.
        more: there is another page.
    """
    last = found[-1].id if more else None
    if as_lines:
        for each in found:
            click.echo(json.dumps(asdict(each), default=render.plain, ensure_ascii=False))
    elif as_json:
        render.as_json({name: found, "next": last})
    elif not found:
        click.echo(nothing)
    else:
        render.table(list(columns), ([cell(each) for cell in columns.values()] for each in found))
    if last and not as_json:
        click.echo(f"there are more: --after {last} shows the next, --limit more at once", err=True)
