"""How the records of a run are shown: in words, as a table, and as a tree with the records of its children."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from rich.text import Text
from rich.tree import Tree

from redisjobs.cli import render
from redisjobs.cli.values import readable
from redisjobs.lineage import Known
from redisjobs.steps import StepRecord

Family = Mapping[UUID, Sequence[StepRecord]]

MOST_SHOWN = 100
"""Records of one run in a tree."""
VALUE_CHARS = 200


def table(records: Sequence[StepRecord], jobs: Mapping[UUID, Known], *, values: bool) -> None:
    """Print the records of one run, in the order of their beginning."""
    headers = ["step", "kind", "state", "tries", "started", "ended", "what", *(["value"] if values else [])]
    rows = [
        [each.name, each.kind, each.state, each.tries, each.started_at, each.ended_at, words(each, jobs),
         *([_value_cell(each)] if values else [])]
        for each in records
    ]  # fmt: skip
    render.table(headers, rows)


def document(record: StepRecord, jobs: Mapping[UUID, Known], *, values: bool) -> dict[str, Any]:
    """A record as JSON has it; its value only where it was asked for."""
    told: dict[str, Any] = {
        "name": record.name, "kind": record.kind, "state": record.state, "tries": record.tries, "due_in": record.due_in,
        "awaited": record.awaited, "event": record.event, "key": record.key, "child": record.child, "undo": record.undo,
        "detail": record.detail, "started_at": record.started_at, "ended_at": record.ended_at,
    }  # fmt: skip
    if record.child is not None:
        told["child_job"] = jobs.get(record.child)
    if values:
        told["value"] = None if record.value is None else readable(record.codec, record.value)
    return told


def tree(run: UUID, family: Family, jobs: Mapping[UUID, Known]) -> None:
    """Print what a run has done and waits for, with its children's records below each."""
    made = Tree(Text("steps", style="bold"))
    _grow(made, run, family, jobs, {run})
    render.show(made)


def words(record: StepRecord, jobs: Mapping[UUID, Known]) -> str | None:
    """What there is to say of a record beyond its state."""
    detail = record.detail or {}
    if record.state == "failed":
        told = ": ".join(str(detail[name]) for name in ("word", "type", "message") if detail.get(name))
        return _child_words(record, jobs, told) if record.child else told or None
    if record.kind == "event":
        of = f"event {record.event}{f' ({record.key})' if record.key else ''}"
        if record.state == "done":
            return f"{of}: its time was over" if detail.get("timed_out") else f"{of}: sent {detail.get('sent_at')}"
        return of if record.due_in is None else f"{of}, its time is over {_in(record.due_in)}"
    if record.child is not None:
        return _child_words(record, jobs, None)
    if record.state == "waiting":
        return None if record.due_in is None else f"wakes {_in(record.due_in)}"
    if record.state == "retrying":
        failed = render.short(str(detail.get("message") or detail.get("type") or "")) or "a try failed"
        return f"{failed}; next try {_in(record.due_in)}"
    return "has an undo" if record.undo else None


def _child_words(record: StepRecord, jobs: Mapping[UUID, Known], more: str | None) -> str:
    known = jobs.get(record.child) if record.child else None
    of = f"{known.job} {record.child}: {known.state}" if known else f"child {record.child}"
    return f"{of}; {more}" if more else of


def _in(due_in: float | None) -> str:
    if due_in is None or due_in <= 0:
        return "now"
    return f"in {render.age(due_in)}"


def _grow(branch: Tree, run: UUID, family: Family, jobs: Mapping[UUID, Known], seen: set[UUID]) -> None:
    records = family.get(run, [])
    for record in records[:MOST_SHOWN]:
        told = words(record, jobs)
        tries = f", {record.tries} tries" if record.tries > 1 else ""
        line = f"{record.name}  {record.kind} {record.state}{tries}{f': {told}' if told else ''}"
        twig = branch.add(Text(render.printable(line)))
        if record.child is not None and record.child not in seen:
            seen.add(record.child)
            _grow(twig, record.child, family, jobs, seen)
    if len(records) > MOST_SHOWN:
        branch.add(Text(f"… and {len(records) - MOST_SHOWN} more: redisjobs steps {run}", style="dim"))


def _value_cell(record: StepRecord) -> str | None:
    if record.value is None:
        return None
    text = json.dumps(readable(record.codec, record.value), ensure_ascii=False, default=str)
    return render.short(text, VALUE_CHARS)
