"""Jobs that wait for a limit: where they stand, and when their turn comes."""

from __future__ import annotations

import shlex

from redisjobs.explain.facts import Facts
from redisjobs.explain.limits import limit_of, place_in_line
from redisjobs.explain.moving import carrier, due_in_s, notes_of
from redisjobs.explain.story import Story, attempt, due, unless_expired


def limited(facts: Facts, codes: frozenset[str]) -> Story:
    """It found no room in a limit, or no start in a rate."""
    name = limit_of(facts)
    what = f"limit {name}{place_in_line(facts)}" if name else "a limit"
    where = f"It is in Redis, and waits for {what}; it takes no slot meanwhile."
    commands = [f"redisjobs limits show {shlex.quote(name)}"] if name else []
    if "cancel_requested" in codes:
        return Story(where, f"{carrier(facts, codes)} ends it as cancelled.", notes=notes_of(facts))
    then = f"{_turn(facts)} {_who(codes)} starts {attempt(facts)}{unless_expired(facts)}."
    return Story(where, then, commands, notes_of(facts))


def _turn(facts: Facts) -> str:
    """When its turn comes, as the beginning of a sentence."""
    told = facts.standing
    if told is None:
        return f"The limiter knows nothing of it any more: it asks anew {due(due_in_s(facts))}, and"
    permit = told.permit
    if told.place:
        return "When its turn comes, it goes to the front of its queue, and"
    if permit is None or permit.state != "reserved":
        return "It was told to come: it goes to the front of its queue, and"
    if permit.starts_in_s > 0:
        return f"Its rate allows it {due(permit.starts_in_s)}; that start is kept for it, and"
    return "What it waited for is kept for it now:"


def _who(codes: frozenset[str]) -> str:
    if {"no_worker", "silent_workers"} & codes:
        return "the first worker that serves the queue"
    return "a worker of the queue, once it is resumed," if "paused" in codes else "a worker of the queue"


STORIES = {"limited": limited}
