"""Figures as a table for people and as JSON for whoever compares."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.figures import Figure


def number(value: float) -> str:
    """Three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def line(figure: Figure) -> str:
    """One row of the table."""
    spread = ""
    if len(figure.values) > 1:
        spread = f" ({number(min(figure.values))} to {number(max(figure.values))})"
    target, reached = "", ""
    if figure.target is not None:
        target = f"{figure.target} {figure.unit}"
        reached = "yes" if figure.target.is_reached(figure.median) else "**no**"
    return (
        f"| {figure.name} | {number(figure.median)} {figure.unit}{spread} | {target} | {reached} | {_notes(figure)} |"
    )


def _notes(figure: Figure) -> str:
    return ", ".join(
        f"{name} {number(value) if isinstance(value, float) else value}" for name, value in figure.notes.items()
    )


def table(figures: Sequence[Figure], facts: Mapping[str, str]) -> str:
    """Everything, in Markdown."""
    rows = [f"| {name} | {value} |" for name, value in facts.items()]
    return "\n".join(
        ["| machine | |", "|---|---|", *rows, "", "| what | median (smallest to largest) | target | reached | notes |",
         "|---|---|---|---|---|", *map(line, figures), ""]
    )  # fmt: skip


def write(folder: Path, figures: Sequence[Figure], facts: Mapping[str, str], name: str) -> Path:
    """Both files of this run; answers where the table is."""
    folder.mkdir(exist_ok=True)
    stem = f"{datetime.now(UTC):%Y-%m-%d-%H%M%S}-{name}"
    kept = [
        {"name": each.name, "unit": each.unit, "values": list(each.values), "notes": each.notes,
         "target": None if each.target is None else str(each.target)}
        for each in figures
    ]  # fmt: skip
    (folder / f"{stem}.json").write_text(json.dumps({"facts": dict(facts), "figures": kept}, indent=1) + "\n")
    path = folder / f"{stem}.md"
    path.write_text(table(figures, facts))
    return path
