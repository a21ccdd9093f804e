"""What keeps a job from going on: each a small look at the facts that answers with a reason, or with nothing.

A part of redisjobs that can hold a job back adds a function here, and names it in the lists of the places that it
holds back.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TypeAlias

from redisjobs.base.durations import age, many
from redisjobs.broker.trace import MOST_BEFORE as JOBS_BEFORE
from redisjobs.explain.facts import MOST_BEFORE, MOST_WAITS, Facts, Wait
from redisjobs.explain.limits import limit_closed, limit_full, limit_paused, limit_rate, passed_over
from redisjobs.explain.reason import Reason
from redisjobs.served import serving, why_nobody

LAG_S = 10.0
"""A row that has waited for longer means that its relay does not keep up."""


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
    number = many(before, "row of the queue is", "rows of the queue are")
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
    queue = facts.queue or ""
    why = why_nobody(facts.workers, queue)
    if why is None:
        return None
    known = any(each.is_meant_for(queue) for each in facts.workers)
    remedy = f"redisjobs worker MODULE:APP --queues {queue}"
    return Reason("silent_workers" if known else "no_worker", f"No worker serves queue {queue}{why}.", remedy)


def jobs_before(facts: Facts) -> Reason | None:
    """What waits is taken in order, the higher bands first."""
    trace = facts.trace
    if trace is None or trace.spot != "waiting" or trace.share is not None or not (trace.before or trace.above):
        return None
    number = many(trace.before, "job of its band waits", "jobs of its band wait")
    if trace.before >= JOBS_BEFORE:
        number = f"More than {JOBS_BEFORE - 1} jobs of its band wait"
    higher = f", and {trace.above} in higher bands" if trace.above else ""
    return Reason("jobs_before", f"{number} before it{higher}.")


def share(facts: Facts) -> Reason | None:
    """Shares of a queue have their turns."""
    trace = facts.trace
    if trace is None or trace.share is None:
        return None
    if trace.share_paused:
        text = f"Share {trace.share!r} of queue {facts.queue} is paused: none of its jobs starts."
        return Reason("share_paused", text, f"redisjobs queues resume {facts.queue} --share {shlex.quote(trace.share)}")
    before = many(trace.before, "job of it goes", "jobs of it go")
    text = f"It waits in share {trace.share!r}, where {before} before it; the shares of the queue have their turns."
    return Reason("share", text)


def workers_busy(facts: Facts) -> Reason | None:
    """Everybody has something to do."""
    takers, queue = serving(facts.workers, facts.queue or ""), facts.queue or ""
    if not takers or facts.view.running < sum(each.slots.get(queue, 1) for each in takers):
        return None
    who = "The worker of the queue runs" if len(takers) == 1 else f"The {len(takers)} workers of the queue run"
    return Reason("workers_busy", f"{who} {many(facts.view.running, 'job')} now; it starts when a slot is free.")


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


def waits(facts: Facts) -> Reason | None:
    """A durable run is not where its body goes on."""
    if not facts.waits:
        return None
    told = [_awaited(each) for each in facts.waits]
    more = " and more" if len(told) == MOST_WAITS else ""
    event = next((each for each in facts.waits if each.event is not None), None)
    key = shlex.quote(event.key) if event is not None and event.key else ""
    remedy = f"redisjobs events send {shlex.quote(event.event or '')} {key}".rstrip() if event else None
    return Reason("waits", f"It waits {'; '.join(told)}{more}.", remedy)


def _awaited(wait: Wait) -> str:
    past = wait.due_in_s is not None and wait.due_in_s <= 0
    until = (
        "" if wait.due_in_s is None else " (its time is over)" if past else f", for {age(wait.due_in_s)} more at most"
    )
    if wait.kind == "event":
        return f"for event {wait.event!r}{f' with key {wait.key!r}' if wait.key else ''}{until or ', for ever'}"
    if wait.kind == "child":
        return f"for job {wait.child}, its child {wait.name!r}"
    return f"for the end of sleep {wait.name!r}" + (" (it is over)" if past else f", in {age(wait.due_in_s or 0)}")


def unknown_name(facts: Facts) -> Reason | None:
    """No worker that looked has the job's function."""
    names = ", ".join(each.worker_id for each in serving(facts.workers, facts.queue or "")) or "none"
    last = facts.trace.last if facts.trace else None
    who = f"worker {last} looked last, and its app declares none of that name" if last else "no worker that looked does"
    text = f"The name {facts.job!r} is unknown to the workers of queue {facts.queue}: {who}."
    return Reason("unknown_name", f"{text} Those that serve it now: {names}.")


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
    cancel_requested, other_life, expired, paused, no_worker, share, jobs_before, workers_busy, losses,
)  # fmt: skip
BY_PLACE: dict[str, tuple[Obstacle, ...]] = {
    "staged": TO_REDIS,
    "deferred": (cancel_requested, waits, no_relay, paused),
    "waiting": TO_A_WORKER,
    "behind": (cancel_requested, other_life, expired, paused),
    "read": (cancel_requested, expired, paused),
    "running": (cancel_requested, other_life, losses),
    "lapsed": (cancel_requested, paused, no_worker, losses),
    "delayed": (cancel_requested, other_life, waits, expired, paused, no_worker),
    "retrying": (cancel_requested, other_life, last_failure, expired, paused, no_worker),
    "snoozed": (cancel_requested, other_life, expired, paused, no_worker),
    "suspended": (cancel_requested, waits, no_relay, paused),
    "parked": (cancel_requested, other_life, unknown_name, expired, paused, no_worker),
    "limited": (
        cancel_requested,
        other_life,
        limit_paused,
        limit_closed,
        limit_full,
        limit_rate,
        passed_over,
        expired,
        paused,
        no_worker,
    ),
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
