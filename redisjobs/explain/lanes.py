"""Jobs that wait behind the head of their lane."""

from __future__ import annotations

from uuid import UUID

from redisjobs.explain.facts import Facts
from redisjobs.explain.story import Story, attempt, redriven, unless_expired


def behind(facts: Facts, codes: frozenset[str]) -> Story:
    """Another job of its lane goes first."""
    trace = facts.need_trace()
    where = f"It is in Redis, and waits in lane {trace.lane!r} of queue {facts.queue}"
    if trace.head is None:
        where += ", which no job has: Redis lost who had it."
        then = "The lane goes on when its next job comes, or the relay's audit finds this one"
    else:
        first = UUID(bytes=trace.head)
        where += f" for job {first}, which goes first."
        then = f"When that has ended, the next of the lane may run, in the order of publishing; then a worker starts {attempt(facts)}"  # noqa: E501
    if "cancel_requested" in codes:
        return Story(where, "The relay ends it as cancelled.", notes=redriven(facts))
    commands = [] if trace.head is None else [f"redisjobs explain {UUID(bytes=trace.head)}"]
    return Story(where, f"{then}{unless_expired(facts)}.", commands, redriven(facts))


STORIES = {"behind": behind}
