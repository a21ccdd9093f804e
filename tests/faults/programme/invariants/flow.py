"""Limits and keys."""

from __future__ import annotations

from collections import defaultdict

from tests.faults.programme.facts import Asked, Facts, told
from tests.faults.programme.plan import LIMIT


def limits_are_held(facts: Facts) -> list[str]:
    """Promise 10: among bodies whose end is accepted, never more at once than the limit."""
    accepted = [run for run in facts.runs if run.job == "limited" and run.said == "done" and run.left is not None]
    moves = sorted((at, step) for run in accepted for at, step in ((run.began, 1), (run.left or 0, -1)))
    now = most = 0
    when = 0.0
    for at, step in moves:
        now += step
        if now > most:
            most, when = now, at
    if most <= LIMIT or facts.may_have_lost_keys():
        return []
    those = [f"{run.id} as {run.run}" for run in accepted if run.began <= when < (run.left or 0)]
    return [f"{most} at once with a limit of {LIMIT}: {told(those, most)}"]


def keys_are_unique_in_their_window(facts: Facts) -> list[str]:
    """Of the jobs with one key in one queue one runs, and the others end as its duplicates."""
    groups: defaultdict[tuple[str, str | None], list[Asked]] = defaultdict(list)
    for ask in facts.committed("keyed"):
        groups[ask.queue, ask.key].append(ask)
    wrong = []
    for (queue, key), asks in groups.items():
        done = [ask.id for ask in asks if facts.state(ask.id) == "done"]
        if not done and all(facts.state(ask.id) for ask in asks):
            wrong.append(f"none of {len(asks)} jobs with {key!r} in {queue} ran")
        if len(done) > 1 and not facts.may_have_lost_keys():
            wrong.append(f"{len(done)} of {len(asks)} jobs with {key!r} in {queue} ran: {', '.join(done)}")
        owners = {end.owner for ask in asks for end in facts.ended_by_id.get(ask.id, ()) if end.state == "deduplicated"}
        if len(done) == 1 and not owners <= {*done}:
            wrong.append(f"duplicates of {key!r} in {queue} name {owners}, and {done[0]} ran")
    return [told(wrong)] if wrong else []
