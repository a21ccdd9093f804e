"""The checks of the queues, over both stores: what stands still, and whether the stores fit together."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TypeAlias

from redisjobs.base.durations import age, many
from redisjobs.doctor import limits
from redisjobs.doctor.facts import QueueFacts
from redisjobs.doctor.finding import Verdict, fail, ok, warn
from redisjobs.served import serving, why_nobody


def relay(queue: QueueFacts) -> Verdict | None:
    """What is committed gets published."""
    line = queue.line
    waits_s = (line.oldest_staged_s or 0.0) if line else 0.0
    if line is None:
        return None
    if line.failing:
        row = line.failing
        return fail(f"row {row.get('id')} ({row.get('job')}) stops it: {row.get('error')}",
                    "nothing behind that row is published", f"redisjobs outbox set-aside {row.get('id')}")  # fmt: skip
    if not line.is_held and line.oldest_staged_s is not None:
        found = f"no relay holds it; its oldest row has waited for {age(waits_s)}"
        return fail(found, "nothing is published or settled",
                    "redisjobs relay")  # fmt: skip
    if waits_s > limits.LAG_S:
        return warn(f"{line.holder} lags: its oldest row has waited for {age(waits_s)}", "jobs start late",
                    "redisjobs outbox, and the relay's log")  # fmt: skip
    return None


def settling(queue: QueueFacts) -> Verdict | None:
    """What has ended comes to Postgres."""
    lag_s = queue.view.settle_lag_s if queue.view else 0.0
    if lag_s <= limits.LAG_S:
        return None
    held = queue.line is not None and queue.line.is_held
    return warn(f"an outcome has waited for {age(lag_s)}{'' if held else ', and no relay holds the queue'}",
                "jobs that have ended look alive in Postgres, and would run again if Redis were lost",
                "the relay's log" if held else "redisjobs relay")  # fmt: skip


def set_aside(queue: QueueFacts) -> Verdict | None:
    """Nothing was put aside and forgotten."""
    count = queue.line.states.get("set_aside", 0) if queue.line else 0
    if not count:
        return None
    return warn(f"rows that are set aside: {count}", "they never run until they are put back",
                "redisjobs outbox, then redisjobs outbox put-back ID")  # fmt: skip


def parked(queue: QueueFacts) -> Verdict | None:
    """Every name is known to some worker."""
    count = queue.line.states.get("parked", 0) if queue.line else 0
    if queue.line is None or not count:
        return None
    old_s = queue.line.oldest_parked_s or 0.0
    found = f"jobs that are parked, for no worker knows their names: {count}, the oldest of {age(old_s)}"
    why = "they are tried again, in vain"
    return warn(found, f"{why}, and for longer than a deploy takes" if old_s > limits.PARKED_S else why,
                f"redisjobs jobs list --queue {queue.name} --state parked; then deploy what declares them")  # fmt: skip


def dead(queue: QueueFacts) -> Verdict | None:
    """Nobody forgot what was given up."""
    old_s = (queue.line.oldest_dead_s or 0.0) if queue.line else 0.0
    if queue.line is None or old_s <= limits.FORGOTTEN_S:
        return None
    return warn(f"dead letters: {queue.line.dead}, the oldest of {age(old_s)}", "nobody has looked after them",
                f"redisjobs dead list --queue {queue.name}; then redisjobs dead redrive or dead purge")  # fmt: skip


def paused(queue: QueueFacts) -> Verdict | None:
    """Nobody forgot a pause."""
    line, view = queue.line, queue.view
    waiting = (sum(line.states.values()) if line else 0) + (view.waiting if view else 0)
    if waiting and ((line and line.paused) or (view and view.paused)):
        return warn(f"it is paused, and jobs wait: {waiting}", "none of its jobs starts",
                    f"redisjobs queues resume {queue.name}")  # fmt: skip
    if queue.paused_shares:
        first, *others = sorted(queue.paused_shares, key=lambda each: -each.waiting)
        more = f" (and {len(others)} more)" if others else ""
        return warn(f"share {first.share} is paused, and jobs wait in it: {first.waiting}{more}", "none of them starts",
                    f"redisjobs queues resume {queue.name} --share {shlex.quote(first.share)}")  # fmt: skip
    return None


def workers(queue: QueueFacts) -> Verdict | None:
    """Somebody takes what waits."""
    view = queue.view
    if view is None or not view.waiting:
        return None
    why = why_nobody(queue.workers, queue.name)
    if why is None:
        return None
    return warn(f"no worker serves it{why}; jobs that wait: {view.waiting}", "they never start",
                f"redisjobs worker MODULE:APP --queues {queue.name}")  # fmt: skip


def leases(queue: QueueFacts) -> Verdict | None:
    """What a dead worker held is taken over."""
    if queue.lapsed is None:
        return None
    holder, late_s = queue.lapsed
    return fail(f"worker {holder} is silent, and its lease lapsed {age(late_s)} ago",
                "nobody takes its jobs over: no worker of the queue has a free slot, or it is paused",
                f"redisjobs worker MODULE:APP --queues {queue.name}")  # fmt: skip


def groups(queue: QueueFacts) -> Verdict | None:
    """Streams can be read. A worker makes the group at its first look, so where none serves, that is the finding."""
    if not queue.ungrouped or workers(queue) is not None:
        return None
    why = "the group was deleted: who held jobs lost them, and they run again"
    return warn(f"entries in streams without a group: {queue.ungrouped}", why,
                f"redisjobs worker MODULE:APP --queues {queue.name}")  # fmt: skip


def life(queue: QueueFacts) -> Verdict | None:
    """Redis is in the life that Postgres knows."""
    line, view = queue.line, queue.view
    if line is None or view is None or not line.epoch or line.epoch == view.epoch:
        return None
    now = f"is in life {view.epoch}" if view.epoch else "knows of no life"
    found = f"Postgres knows life {line.epoch}, and Redis {now}"
    if view.epoch:
        return fail(found, "Redis lost its data, or two databases use one Redis under one prefix",
                    "give each database a --prefix of its own; where there is one only: redisjobs relay")  # fmt: skip
    verdict = warn if line.is_held else fail
    return verdict(found, "Redis lost its data: the relay that holds the queue publishes again what had not ended",
                   "redisjobs relay")  # fmt: skip


def fence(queue: QueueFacts) -> Verdict | None:
    """No other database drives this queue."""
    line, view = queue.line, queue.view
    if view is None or view.fence is None:
        return None
    if line is None or line.token is None:
        if not queue.known:
            return None
        return fail(f"a relay has opened it in Redis (token {view.fence}), and this database does not know it",
                    "two databases use one Redis under one prefix: each removes the other's jobs",
                    "give each database a --prefix of its own, or a Redis database: redis://host/1")  # fmt: skip
    if view.fence > line.token:
        return fail(f"Redis has seen token {view.fence}, and this database is at {line.token}",
                    "two databases use one Redis under one prefix, or this one was restored from a backup",
                    "give each database a --prefix of its own; a restored one needs only redisjobs relay")  # fmt: skip
    return None


def shown(queue: QueueFacts) -> Verdict:
    """The numbers of a queue, for whoever wants to see them."""
    line, view = queue.line, queue.view
    parts: list[str] = []
    if line:
        parts += [
            f"relay {line.holder if line.is_held else 'nobody'}", f"oldest job {age(line.oldest_s or 0.0)}",
            f"oldest unpublished {age(line.oldest_staged_s or 0.0)}", f"{line.states.get('parked', 0)} parked",
            f"{line.dead} dead",
        ]  # fmt: skip
    if view:
        parts += [
            f"{view.waiting} waiting, {view.running} running, {view.due} due",
            f"{view.limited} behind a limit, {view.behind} behind their lanes",
            many(len(serving(queue.workers, queue.name)), "worker"),
        ]
    return ok(", ".join(parts))


Check: TypeAlias = Callable[[QueueFacts], "Verdict | None"]

CHECKS: dict[str, Check] = {
    "queues.relay": relay,
    "queues.settling": settling,
    "queues.set_aside": set_aside,
    "queues.parked": parked,
    "queues.dead": dead,
    "queues.paused": paused,
    "queues.workers": workers,
    "queues.leases": leases,
    "queues.groups": groups,
    "queues.life": life,
    "queues.fence": fence,
}
SHOWN = "queues.state"
"""The name of what is told of every queue."""
