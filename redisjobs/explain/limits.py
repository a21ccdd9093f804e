"""What keeps a job waiting for a limit, and what is told of that."""

from __future__ import annotations

import shlex
from uuid import UUID

from redisjobs.base.durations import age, many
from redisjobs.broker.limit_values import LimitKey, Permit
from redisjobs.explain.facts import Facts
from redisjobs.explain.reason import Reason

HOLDERS_TOLD = 3
"""Of those who hold a limit so many are named."""


def limit_of(facts: Facts) -> str:
    """The key of the limit that it waits for; empty where the limiter does not say."""
    return facts.standing.key if facts.standing else ""


def place_in_line(facts: Facts) -> str:
    """Its place, as a part of a sentence; empty where it stands in no line."""
    told = facts.standing
    if told is None or not told.place:
        return ""
    of = f" of {told.limit.waiting}" if told.limit and told.limit.waiting >= told.place else ""
    return f", in place {told.place}{of} of its line"


def limit_paused(facts: Facts) -> Reason | None:
    """An operator lets nothing begin."""
    told = facts.standing
    if told is None or told.rule is None or not told.rule.is_paused or told.limit is None:
        return None
    text = f"Limit {told.limit.name} is paused at run time: nothing of it begins."
    return Reason("limit_paused", text, f"redisjobs limits unset {shlex.quote(told.limit.name)}")


def limit_closed(facts: Facts) -> Reason | None:
    """A body said that the whole key shall wait."""
    limit = _limit(facts)
    if limit is None or limit.closed_s <= 0:
        return None
    text = f"A body asked for that: nothing of limit {limit.key} starts for {age(limit.closed_s)} more."
    return Reason("limit_closed", text)


def limit_full(facts: Facts) -> Reason | None:
    """As many as may are at it."""
    limit = _limit(facts)
    if limit is None or limit.most is None or limit.rate is not None or limit_paused(facts):
        return None
    held = sorted(limit.held, key=lambda each: each.left_s if each.left_s is not None else 0.0)
    set_here = ", as was set at run time" if facts.standing and facts.standing.rule else ""
    text = f"Limit {limit.key} allows {limit.most} at once{set_here}, and {limit.used} {_is(limit.used)} in use"
    if not held:
        return Reason("limit_full", f"{text}.")
    named = "; ".join(_holder(each) for each in held[:HOLDERS_TOLD])
    more = f"; and {len(held) - HOLDERS_TOLD} more" if len(held) > HOLDERS_TOLD else ""
    return Reason("limit_full", f"{text}, by {many(len(held), 'job')}: {named}{more}.")


def limit_rate(facts: Facts) -> Reason | None:
    """So many in a period have started."""
    limit = _limit(facts)
    if limit is None or limit.rate is None or limit_paused(facts):
        return None
    return Reason("limit_rate", f"Limit {limit.key} allows {limit.rate}, and these have started.")


def passed_over(facts: Facts) -> Reason | None:
    """Nobody came when it was the turn of this queue."""
    limit = _limit(facts)
    if limit is None or facts.queue not in limit.passed_over:
        return None
    text = f"Others go before it: nobody came for what was kept for jobs of queue {facts.queue}."
    return Reason("passed_over", text, f"redisjobs worker MODULE:APP --queues {facts.queue}")


def _limit(facts: Facts) -> LimitKey | None:
    return facts.standing.limit if facts.standing else None


def _holder(permit: Permit) -> str:
    job = UUID(bytes=permit.job_id)
    if permit.state == "reserved":
        return f"kept for job {job}, which comes for it"
    left_s = permit.left_s or 0.0
    if permit.state == "lapsed" or left_s <= 0:
        return f"job {job} on worker {permit.consumer}, whose lease lapsed {age(max(0.0, -left_s))} ago"
    return f"job {job} on worker {permit.consumer}, for {age(left_s)} at the latest unless its lease is renewed"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"
