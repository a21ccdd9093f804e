"""What keeps a job from going on: each a small look at the facts that answers with a reason, or with nothing.

A part of redisjobs that can hold a job back adds a function here, and names it in the lists of the places that it
holds back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from redisjobs.base.durations import age
from redisjobs.broker.trace import MOST_BEFORE as JOBS_BEFORE
from redisjobs.explain.facts import MOST_BEFORE, Facts

LAG_S = 10.0
"""A row that has waited for longer means that its relay does not keep up."""
SILENT_S = 60.0
"""A worker reads every 5 s and renews what it runs; one that did neither for so long is gone, or cut off."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job does not go on.

    Args:
        code: stable, for machines.
        remedy: a command that takes the reason away, where there is one.
    """

    code: str
    text: str
    remedy: str | None = None


Obstacle: TypeAlias = Callable[[Facts], "Reason | None"]


# -- in Postgres: on the way to Redis, or back
def failing(facts: Facts) -> Reason | None:
    """A row that cannot be published stops its queue."""
    row = (facts.line and facts.line.failing) or {}
    if not row:
        return None
    remedy = f"redisjobs outbox set-aside {row.get('id')}"
    if row.get("id") == str(facts.id):
        return Reason("failing", f"A relay tried to publish it and could not: {row.get('error')}.", remedy)
    text = f"Row {row.get('id')} ({row.get('job')}) cannot be published and stops the queue: {row.get('error')}."
    return Reason("failing_before", text, remedy)


def no_relay(facts: Facts) -> Reason | None:
    """Nobody carries between the stores."""
    line = facts.line
    if line is None or line.is_held:
        return None
    last = f"; {line.holder} held it until {age(-(line.lease_left_s or 0))} ago" if _was_held(facts) else ""
    if line.relays:
        text = f"No relay holds queue {facts.queue} now{last}; {line.relays[0]} runs, and takes it at its next look."
        return Reason("relay_elsewhere", text)
    return Reason("no_relay", f"No relay runs: none holds any queue{last}.", "redisjobs relay")


def _was_held(facts: Facts) -> bool:
    line = facts.line
    return line is not None and line.holder is not None and line.lease_left_s is not None


def relay_lags(facts: Facts) -> Reason | None:
    """The relay is there, and rows wait for long."""
    line = facts.line
    if line is None or not line.is_held or line.failing or (line.oldest_staged_s or 0) < LAG_S:
        return None
    waited = age(line.oldest_staged_s or 0)
    return Reason("relay_lags", f"The relay lags: the oldest row of the queue has waited for {waited}.")


def rows_before(facts: Facts) -> Reason | None:
    """The line is kept in order."""
    before = facts.line.before if facts.line else 0
    if not before:
        return None
    number = f"{many(before, 'row')} of the queue {'is' if before == 1 else 'are'}"
    if before >= MOST_BEFORE:
        number = f"More than {MOST_BEFORE - 1} rows of the queue are"
    return Reason("rows_before", f"{number} published before it.")


def redis_down(facts: Facts) -> Reason | None:
    """A relay that has the same trouble publishes nothing."""
    error = facts.errors.get("redis")
    return Reason("redis_down", f"Redis could not be asked: {said(error)}.") if error else None


def redis_full(facts: Facts) -> Reason | None:
    """Relays leave the last fifth of Redis free."""
    if not facts.full:
        return None
    text = "Redis is full: relays publish nothing until it has room; raise maxmemory, or add workers."
    return Reason("redis_full", text, "redisjobs doctor")


def duplicate(facts: Facts) -> Reason | None:
    """Its key is another job's."""
    if facts.key_owner is None:
        return None
    text = f"Job {facts.key_owner} has its idempotency key; while it lives, and in its window, this one does not run."
    return Reason("key_is_held", text, f"redisjobs explain {facts.key_owner}")


def other_life(facts: Facts) -> Reason | None:
    """Redis is not in the life that Postgres knows: it lost its data."""
    line, view = facts.line, facts.view
    if "redis" in facts.errors or line is None or not line.epoch or line.epoch == view.epoch:
        return None
    now = f"is in life {view.epoch}" if view.epoch else "knows of no life"
    text = f"Redis lost the data of the queue: its rows were published in life {line.epoch}, and Redis {now}."
    return Reason("redis_lost", text)


# -- in Redis: on the way to a worker
def paused(facts: Facts) -> Reason | None:
    """Nothing of the queue starts."""
    in_postgres, in_redis = facts.line.paused if facts.line else None, facts.view.paused
    if not in_postgres and not in_redis:
        return None
    remedy = f"redisjobs queues resume {facts.queue}"
    if in_postgres is False:
        return Reason("resuming", f"Queue {facts.queue} was resumed, and a relay has yet to tell Redis.")
    if in_postgres and not in_redis:
        text = f"Queue {facts.queue} is paused; a relay has yet to tell Redis, so its jobs may still start."
        return Reason("paused", text, remedy)
    return Reason("paused", f"Queue {facts.queue} is paused: none of its jobs starts.", remedy)


def no_worker(facts: Facts) -> Reason | None:
    """Nobody takes jobs of the queue."""
    if "redis" in facts.errors:
        return None
    members, queue = facts.view.consumers, facts.queue
    remedy = f"redisjobs worker MODULE:APP --queues {queue}"
    if not members:
        return Reason("no_worker", f"No worker serves queue {queue}: none is recorded in Redis.", remedy)
    quiet_s = min(each.idle_s for each in members)
    if quiet_s < SILENT_S:
        return None
    who = f"its worker {members[0].name}" if len(members) == 1 else f"all of its {len(members)} workers"
    text = f"No worker serves queue {queue}: {who} fell silent {age(quiet_s)} ago."
    return Reason("silent_workers", text, remedy)


def jobs_before(facts: Facts) -> Reason | None:
    """What waits is taken in order, the higher bands first."""
    trace = facts.trace
    if trace is None or trace.spot != "waiting" or not (trace.before or trace.above):
        return None
    number = f"{many(trace.before, 'job')} of its band {'waits' if trace.before == 1 else 'wait'}"
    if trace.before >= JOBS_BEFORE:
        number = f"More than {JOBS_BEFORE - 1} jobs of its band wait"
    higher = f", and {trace.above} in higher bands" if trace.above else ""
    return Reason("jobs_before", f"{number} before it{higher}.")


def workers_busy(facts: Facts) -> Reason | None:
    """Everybody has something to do."""
    alive = [each for each in facts.view.consumers if each.idle_s < SILENT_S]
    if not alive or not all(each.running for each in alive):
        return None
    running = sum(each.running for each in alive)
    who = "The worker of the queue runs" if len(alive) == 1 else f"The {len(alive)} workers of the queue run"
    return Reason("workers_busy", f"{who} {many(running, 'job')} now; it starts when a slot is free.")


def cancel_requested(facts: Facts) -> Reason | None:
    """Its end was asked for."""
    asked = (facts.row and facts.row.cancel_requested) or (facts.trace and facts.trace.cancel_requested)
    return Reason("cancel_requested", "Its cancel was asked for.") if asked else None


def expired(facts: Facts) -> Reason | None:
    """It is past the time from which it must not start any more."""
    left_s = expires_in_s(facts)
    if left_s is None or left_s > 0:
        return None
    return Reason("expired", f"It expired {age(-left_s)} ago, and must not start any more.")


def losses(facts: Facts) -> Reason | None:
    """Workers died under it."""
    count = facts.trace.losses if facts.trace else 0
    if not count:
        return None
    times = "once" if count == 1 else f"{count} times in a row"
    text = f"Its lease was lost {times} while it ran; after 3 in a row (the worker's max_losses) it is a dead letter."
    return Reason("leases_lost", text)


def last_failure(facts: Facts) -> Reason | None:
    """Why the last attempt was not the last."""
    if (text := failure_of(facts)) is None:
        return None
    return Reason("attempt_failed", f"Attempt {facts.attempts} failed: {text}.")


def unknown_name(facts: Facts) -> Reason | None:
    """No worker that looked has the job's function."""
    names = ", ".join(each.name for each in facts.view.consumers) or "none"
    last = facts.trace.last if facts.trace else None
    who = f"worker {last} looked last, and its app declares none of that name" if last else "no worker that looked does"
    text = f"The name {facts.job!r} is unknown to the workers of queue {facts.queue}: {who}. Recorded now: {names}."
    return Reason("unknown_name", text)


def many(count: int, what: str) -> str:
    """So many of something."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def said(error: Exception) -> str:
    """An error in one line, to go on behind."""
    return " ".join(str(error).split()).rstrip(".")


def expires_in_s(facts: Facts) -> float | None:
    """Seconds until it expires, by the store that has it."""
    if facts.trace is not None and facts.trace.spot != "ended":
        return facts.trace.expires_in_s
    return facts.row.expires_in_s if facts.row else None


def failure_of(facts: Facts) -> str | None:
    """The last attempt's error, in one line."""
    failure = (facts.row and facts.row.failure) or {}
    if failure:
        return f"{failure.get('type')}: {failure.get('message')}".strip().partition("\n")[0].rstrip(".")
    return facts.row.error.rstrip(".") if facts.row and facts.row.error else None


TO_REDIS: tuple[Obstacle, ...] = (
    cancel_requested, redis_down, failing, no_relay, redis_full, other_life, duplicate, rows_before, relay_lags,
    expired, paused,
)  # fmt: skip
TO_POSTGRES: tuple[Obstacle, ...] = (no_relay,)
TO_ITS_CANCEL: tuple[Obstacle, ...] = (cancel_requested, no_relay)
TO_A_WORKER: tuple[Obstacle, ...] = (
    cancel_requested, other_life, expired, paused, no_worker, jobs_before, workers_busy, losses,
)  # fmt: skip
BY_PLACE: dict[str, tuple[Obstacle, ...]] = {
    "staged": TO_REDIS,
    "deferred": (cancel_requested, no_relay, paused),
    "waiting": TO_A_WORKER,
    "read": (cancel_requested, expired, paused),
    "running": (cancel_requested, other_life, losses),
    "lapsed": (cancel_requested, paused, no_worker, losses),
    "delayed": (cancel_requested, other_life, expired, paused, no_worker),
    "retrying": (cancel_requested, other_life, last_failure, expired, paused, no_worker),
    "snoozed": (cancel_requested, other_life, expired, paused, no_worker),
    "suspended": (cancel_requested, other_life, paused, no_worker),
    "parked": (cancel_requested, other_life, unknown_name, expired, paused, no_worker),
    "settling": TO_POSTGRES,
    "lost": (other_life, no_relay, redis_full),
    "unseen": (redis_down, no_relay),
}
"""What is looked at for each place; the first one matters most."""
HELD = ("running", "lapsed", "read")
"""Where a cancel is a worker's to carry out; elsewhere it is the relay's."""


def reasons(facts: Facts, place: str) -> list[Reason]:
    """Why a job at this place does not go on."""
    looks = BY_PLACE.get(place, ())
    if cancel_requested in looks and cancel_requested(facts) and place not in HELD:
        looks = TO_ITS_CANCEL
    return [found for look in looks if (found := look(facts))]
