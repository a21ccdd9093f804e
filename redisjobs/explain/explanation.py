"""From facts to an explanation: where a job is, what keeps it there, and what happens next. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from redisjobs.explain import ended, lanes, limited, moving
from redisjobs.explain.facts import Facts
from redisjobs.explain.obstacles import reasons, said
from redisjobs.explain.reason import Reason
from redisjobs.explain.story import Story

STORIES = {**moving.STORIES, **lanes.STORIES, **limited.STORIES, **ended.STORIES}
PLACES = tuple(STORIES)
"""Every place that a job can be at."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is told of a job.

    Args:
        place: one word, stable, of PLACES.
        where, next: sentences. reasons: why it does not go on, the weightiest first.
        commands: what may be done about it. notes: what else is worth knowing, and what could not be found out.
    """

    id: UUID
    job: str | None
    queue: str | None
    place: str
    where: str
    reasons: list[Reason]
    next: str
    commands: list[str]
    notes: list[str]


def explain(facts: Facts) -> Explanation:
    """Say where the job is, why it does not go on, and what happens next."""
    place = place_of(facts)
    found = reasons(facts, place)
    story: Story = STORIES[place](facts, frozenset(reason.code for reason in found))
    remedies = [reason.remedy for reason in found if reason.remedy]
    return Explanation(
        facts.id, facts.job, facts.queue, place, story.where, [*found, *story.reasons], story.next,
        list(dict.fromkeys([*remedies, *story.commands])), [*story.notes, *_unasked(facts, found)],
    )  # fmt: skip


def place_of(facts: Facts) -> str:
    """The one word for where the job is; Postgres says whether it lives, Redis who has it."""
    row, trace = facts.row, facts.trace
    if row is None:
        return "unknown" if trace is None else _in_redis(facts)
    if row.place != "outbox" or row.state in ("deferred", "set_aside", "suspended"):
        return row.state
    over = trace is not None and trace.life == row.redrives and trace.number <= row.settled
    if trace is None or over or trace.spot == "torn" or trace.life < row.redrives:
        return "staged" if row.state == "staged" else "unseen" if "redis" in facts.errors else "lost"
    return _in_redis(facts)


def _in_redis(facts: Facts) -> str:
    trace = facts.need_trace()
    if trace.spot == "running":
        return "running" if (trace.lease_left_s or 0) > 0 else "lapsed"
    if trace.spot == "due":
        return _due(facts)
    return {"ended": "settling", "torn": "lost"}.get(trace.spot, trace.spot)


def _due(facts: Facts) -> str:
    """Why it waits for a time: as Redis flags it, else as its row says, else as its counts tell."""
    row, trace = facts.row, facts.need_trace()
    if trace.parked:
        return "parked"
    if trace.limited:
        return "limited"
    if row is not None and row.settled and row.state in ("staged", "published"):
        return "delayed"
    if row is not None and row.state in ("retrying", "snoozed") and trace.attempts <= row.attempts:
        return row.state
    if trace.last is None:
        return "retrying" if trace.attempts and trace.number > 1 else "delayed"
    return "retrying" if trace.attempts > (row.attempts if row else 0) else "snoozed"


def _unasked(facts: Facts, told: list[Reason]) -> list[str]:
    """Which store could not be asked, unless that was told as a reason."""
    names = {"postgres": "Postgres", "redis": "Redis"}
    if any(reason.code == "redis_down" for reason in told):
        names.pop("redis")
    return [f"{name} could not be asked: {said(facts.errors[store])}." for store, name in names.items()
            if store in facts.errors]  # fmt: skip
