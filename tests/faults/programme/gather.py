"""Reads what a trial has left behind, in books, in Postgres and in Redis, into its facts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from redisjobs.occurrence import read
from tests.faults.programme import works
from tests.faults.programme.book import lines
from tests.faults.programme.facts import MISSING, Asked, Ended, Facts, Marked, Run, Staged, Stall, StepLine, Window
from tests.faults.programme.site import Site

_RUN = ("run", "id", "job", "queue", "band", "entry", "start", "number", "life", "attempt", "most", "losses", "pid")
_ASKED = ("id", "kind", "queue", "value", "key", "deal", "place", "began", "delay", "more")


def gather(site: Site, books: Path) -> Facts:
    """All of it but how the trial came to rest, which only the trial knows."""
    facts = Facts(asked=_asked(books))
    _read_workers(facts, books)
    with psycopg.connect(site.database_url) as conn, conn.cursor(row_factory=dict_row) as cursor:
        _read_postgres(facts, cursor)
    now = time.monotonic()
    facts.windows = [
        Window(one.fault.name, one.since, one.until or now, one.fault.excuses)
        for one in site.struck
        if one.fault.excuses
    ]
    facts.ends = site.ends
    facts.pids = {
        part.name: {end.pid for end in part.ends} | ({part.process.pid} if part.process else set())
        for part in site.parts.values()
    }
    return facts


def _asked(books: Path) -> list[Asked]:
    fates: dict[str, tuple[str, float]] = {}
    told: list[dict[str, Any]] = []
    for line in lines(books, "producer*"):
        if line["word"] == "asked":
            told.append(line)
        elif line["word"] in ("committed", "rolled_back", "unsure"):
            fates[line["deal"]] = line["word"], line["at"]
    found: list[Asked] = []
    for line in told:
        fate, at = fates.get(line["deal"], ("unsure", None))
        if line["undone"]:
            fate = "rolled_back"
        known = {name: line[name] for name in _ASKED}
        found.append(Asked(**known, fate=fate, ended=at))  # type: ignore[arg-type]
    return found


def _read_workers(facts: Facts, books: Path) -> None:
    runs: dict[str, Run] = {}
    for line in lines(books, "worker*"):
        run = runs.get(line.get("run") or "")
        match line["word"]:
            case "began":
                told = {name: line[name] for name in _RUN}
                runs[line["run"]] = Run(**told, part=line["book"], began=line["at"])
            case "left" if run is not None:
                run.left, run.how = line["at"], line["how"]
            case "answered" if run is not None:
                run.said, run.heard = line["said"], line["at"]
            case "given" if run is not None:
                run.given = line["value"]
            case "step" | "recorded":
                facts.steps.append(StepLine(line["word"], line["id"], line["run"], line["name"], line["at"]))
            case "dies":
                facts.died.add(line["pid"])
            case _:  # an answer to an attempt whose body was never started; ticks; stalls
                pass
    facts.runs = list(runs.values())
    for pattern in ("worker*", "trial"):
        facts.stalls += [
            Stall(line["book"], line["since"], line["until"])
            for line in lines(books, pattern)
            if line["word"] == "stalled"
        ]


def _read_postgres(facts: Facts, cursor: psycopg.Cursor[dict[str, Any]]) -> None:
    for row in cursor.execute("SELECT * FROM programme.staged ORDER BY seq"):
        found = read(json.loads(row["headers"])) if row["headers"] else None
        at = None if found is None else found.at.timestamp()
        facts.staged.append(Staged(str(row["id"]), row["job"], row["queue"], row["seq"], row["key"], at))
    marked = "SELECT id, queue, number, by, holder, extract(epoch FROM late)::float8 AS late FROM programme.marked"
    facts.marked = [Marked(**{**row, "id": str(row["id"])}) for row in cursor.execute(marked)]
    facts.ended = [_ended(row) for row in cursor.execute("SELECT * FROM programme.ended ORDER BY at")]
    counted = cursor.execute("SELECT id, count(*) AS count FROM programme.effects GROUP BY id")
    facts.effects = {str(row["id"]): row["count"] for row in counted}


def _ended(row: dict[str, Any]) -> Ended:
    owner: UUID | None = row["owner"]
    end = Ended(str(row["id"]), row["state"], row["life"], None if owner is None else str(owner), value=MISSING)
    if row["result"] is not None:
        answer = works.app.codecs.decode(row["codec"], row["result"])
        if isinstance(answer, dict) and answer.keys() == {"run", "value"}:
            end.run, end.value = answer["run"], answer["value"]
    return end
