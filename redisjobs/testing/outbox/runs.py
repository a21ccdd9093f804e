"""Durable runs: what wakes them, what they are told, and what becomes of their records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from redisjobs.testing.outbox.parameters import Parameters, Rows, Statement, changed, ids, words
from redisjobs.testing.outbox.tables import EventRow, Row, StepRow, Tables


def wake_runs(tables: Tables, runs: Iterable[UUID], delay: float = 0.0) -> None:
    """Runs must be looked at again, at once or in a while."""
    at = tables.in_seconds(delay)
    for row in _rows(tables, runs):
        if row.state == "suspended" and delay <= 0:
            stage_runs(tables, [row.id])
            continue
        row.wake_at = at if delay <= 0 else _least(row.wake_at, at)
        if row.state == "suspended":
            row.run_at = _least(row.run_at, at)


def stage_runs(tables: Tables, runs: Iterable[UUID]) -> int:
    """Suspended runs join the line again, at its end."""
    suspended = [row for row in _rows(tables, runs) if row.state == "suspended"]
    for row in suspended:
        row.state, row.run_at, row.wake_at = "staged", None, None
        row.xact, row.seq = tables.next_xact(), tables.next_seq()
    return len(suspended)


def wake_told(tables: Tables, runs: Iterable[UUID]) -> None:
    """At once where nothing else is open, else in a second."""
    for run in set(runs):
        wake_runs(tables, [run], 1.0 if any(_is_open(step, tables.now()) for step in tables.records(run)) else 0.0)


def clear(tables: Tables, given: Parameters) -> Rows:
    """Records of runs that have ended go with them."""
    gone = [key for key in tables.steps if key[0] in set(ids(given["ids"]))]
    for key in gone:
        del tables.steps[key]
    return changed(gone)


def tell_parents(tables: Tables, given: Parameters) -> Rows:
    """Children have ended: their parents' records say how, and the parents are woken."""
    told: list[UUID] = []
    columns = (ids(given["ids"]), words(given["words"]), given["codecs"], given["results"], given["details"])
    for child, word, codec, result, detail in zip(*columns, strict=True):
        for step in tables.steps.values():
            if step.child == child and step.state == "waiting":
                step.state, step.ended_at = "done" if word == "done" else "failed", tables.now()
                step.codec, step.value = codec, result
                step.detail = (json.loads(detail) if detail else {}) | {"word": word}
                told.append(step.run)
    wake_told(tables, told)
    return [(b"",)]


def cancel_children(tables: Tables, given: Parameters) -> Rows:
    """What a cancelled run has called is cancelled with it."""
    parents = set(ids(given["ids"]))
    flagged = [row for row in tables.outbox.values() if row.parent in parents and not row.cancel_requested]
    for row in flagged:
        row.cancel_requested = True
    return [(None,)]


def look_again(tables: Tables, given: Parameters) -> Rows:
    """Free events that these runs wait for are handed out once more."""
    runs, now = set(ids(given["ids"])), tables.now()
    waited = {(each.event, each.key) for each in _waits(tables) if each.run in runs}
    free = [each for each in tables.events.values() if _is_free(each, now) and (each.name, each.key) in waited]
    for each in free:
        each.looked_at = None
    return changed(free)


def deliver(tables: Tables, given: Parameters) -> Rows:
    """Hands new events to the runs that wait for them, first come first served."""
    now = tables.now()
    news = [each for each in sorted(tables.events.values(), key=lambda each: each.id) if each.looked_at is None]
    news = news[: given["most"]]
    told: list[UUID] = []
    for event in news:
        event.looked_at = now
        wait = next((each for each in _waits(tables) if (each.event, each.key) == (event.name, event.key)), None)
        if wait is not None and _is_free(event, now):
            take(event, wait, now)
            told.append(wait.run)
    wake_told(tables, told)
    return [(len(news), 0, tables.asleep)]


def take(event: EventRow, wait: StepRow, now: datetime) -> None:
    """The wait is over: the event is its own."""
    event.taken_at, event.looked_at, event.run, event.step = now, event.looked_at or now, wait.run, wait.name
    wait.state, wait.ended_at, (wait.codec, wait.value) = "done", now, event.value
    wait.detail = {"id": event.id, "sent_at": event.sent_at.isoformat()}


def fall_asleep(tables: Tables, given: Parameters) -> Rows:
    """Those who send events notify from now on."""
    tables.asleep = True
    return [(tables.next_xact(),)]


def wake_up(tables: Tables, given: Parameters) -> Rows:
    """While a relay polls for events, nobody need notify."""
    tables.asleep = False
    return [()]


def clean_events(tables: Tables, given: Parameters) -> Rows:
    """Events that expired, and those that were taken long enough ago, go."""
    now, before = tables.now(), tables.in_seconds(-given["retention"])
    gone = [
        each.id
        for each in sorted(tables.events.values(), key=lambda each: each.id)
        if each.expires_at < now or (each.taken_at is not None and each.taken_at < before)
    ][: given["limit"]]
    for event in gone:
        del tables.events[event]
    return changed(gone)


def held(tables: Tables, given: Parameters) -> Rows:
    """Nobody locks a row here."""
    return []


def _rows(tables: Tables, runs: Iterable[UUID]) -> list[Row]:
    return [tables.outbox[run] for run in sorted(set(runs)) if run in tables.outbox]


def _waits(tables: Tables) -> list[StepRow]:
    """Open waits of runs that live, in their order."""
    waiting = [each for each in tables.steps.values() if each.kind == "event" and each.state == "waiting"]
    live = [each for each in waiting if each.run in tables.outbox and tables.outbox[each.run].ending is None]
    return sorted(live, key=lambda each: each.seq)


def _is_free(event: EventRow, now: datetime) -> bool:
    return event.taken_at is None and event.expires_at > now


def _is_open(step: StepRow, now: datetime) -> bool:
    slept = step.kind == "sleep" and step.due is not None and step.due <= now
    return step.awaited and step.state == "waiting" and not slept


def _least(first: datetime | None, second: datetime) -> datetime:
    return second if first is None else min(first, second)


AFTERMATH: dict[str, Statement] = {each.__name__: each for each in (clear, tell_parents, cancel_children, held)}
DELIVERER: dict[str, Statement] = {each.__name__: each for each in (deliver, fall_asleep, wake_up, clean_events)}
