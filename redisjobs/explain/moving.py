"""Jobs that live: what each place between commit and end tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from redisjobs.base.durations import age
from redisjobs.explain.facts import Facts
from redisjobs.explain.reason import Reason
from redisjobs.explain.story import Story, attempt, band, due, redriven, times, unless_expired

Told: TypeAlias = Callable[[Facts, frozenset[str]], Story]
"""A place's story, from the facts and the codes of the reasons found."""

ENDS_CANCELLED = "It ends as cancelled"
SET_ASIDE = "set aside: "
"""What `redisjobs.set_aside` writes in front of the error that a row stopped its queue with."""


def carrier(facts: Facts, codes: frozenset[str]) -> str:
    """Who carries it, as the beginning of a sentence."""
    if "no_relay" in codes:
        return "Once a relay runs, it"
    if "relay_elsewhere" in codes:
        return "The relay that takes the queue"
    return f"Relay {facts.line.holder}" if facts.line else "The relay that holds the queue"


def staged(facts: Facts, codes: frozenset[str]) -> Story:
    """Committed, and not in Redis."""
    row = facts.need_row()
    again = bool(row.publications) and not row.redrives and (row.publications or 0) > row.settled
    where = (
        f"It is committed, and stands in the outbox of Postgres; it is not in Redis{' any more' if again else ' yet'}."
    )
    who, notes = carrier(facts, codes), redriven(facts)
    if again:
        notes.append(
            f"It was published {times(row.publications or 0)} before: Redis lost it, so it is published again."
        )
    elif row.settled:
        notes.append("It was suspended, and goes on from what it has recorded.")
    if row.ending is not None:
        notes.append(f"It ends as {row.ending}; before that its undos are run.")
    if "failing" in codes:
        return Story(
            where,
            "It is tried again and again, and holds up what is behind it, until it is set aside or that is mended.",
            notes=notes,
        )
    if "cancel_requested" in codes:
        return Story(where, f"{who} ends it as cancelled.", notes=notes)
    if "key_is_held" in codes:
        return Story(where, f"{who} ends it as deduplicated, if the other job still has the key then.", notes=notes)
    held_up = "once the queue goes on, " if {"failing_before", "redis_full"} & codes else ""
    then = f"a worker of queue {row.queue} starts {attempt(facts)}"
    if (row.run_in_s or 0) > 0:
        then = f"it waits there for its time ({due(row.run_in_s)}), and {then}"
    return Story(where, f"{who} publishes it {held_up}within moments of its turn; then {then}{unless_expired(facts)}.",
                 notes=notes)  # fmt: skip


def deferred(facts: Facts, codes: frozenset[str]) -> Story:
    """Due later than the horizon."""
    row = facts.need_row()
    where = f"It waits in Postgres until it is within the relay's horizon (1 h, or --horizon): due {due(row.run_in_s)}."
    if "cancel_requested" in codes:
        return Story(where, f"{carrier(facts, codes)} ends it as cancelled.", notes=redriven(facts))
    who = carrier(facts, codes)
    then = f"{who} publishes it then; at its time a worker starts {attempt(facts)}."
    return Story(where, then, notes=redriven(facts))


def set_aside(facts: Facts, codes: frozenset[str]) -> Story:
    """Taken out of the line."""
    del codes
    why = (facts.need_row().error or "").partition(SET_ASIDE)[2].rstrip(".")
    return Story(
        "It stands in the outbox of Postgres, out of the line: an operator set it aside.",
        "Nothing happens until somebody puts it back; it then joins the end of its queue's line.",
        [f"redisjobs outbox put-back {facts.id}", f"redisjobs jobs cancel {facts.id}"],
        redriven(facts),
        [Reason("set_aside", f"It stopped its queue: {why}.")] if why else [],
    )


def waiting(facts: Facts, codes: frozenset[str]) -> Story:
    """In a stream of Redis, read by nobody."""
    where = f"It is in Redis, and waits{band(facts)} for a worker of queue {facts.queue}."
    if "cancel_requested" in codes:
        return Story(where, f"{carrier(facts, codes)} ends it as cancelled.", notes=notes_of(facts))
    if "expired" in codes:
        return Story(
            where, "The next worker that takes it ends it as expired, without running it.", notes=notes_of(facts)
        )
    who = "The next worker of the queue that has a free slot"
    if {"no_worker", "silent_workers"} & codes:
        who = "Once a worker serves the queue, it"
    elif "paused" in codes:
        who = "Once the queue is resumed, a worker with a free slot"
    return Story(where, f"{who} starts {attempt(facts)}{unless_expired(facts)}.", notes=notes_of(facts))


def read(facts: Facts, codes: frozenset[str]) -> Story:
    """Read, and not begun."""
    del codes
    trace = facts.need_trace()
    return Story(
        f"It is in Redis; worker {trace.holder} read it {age(trace.held_s or 0)} ago, and has not begun it.",
        f"The worker begins {attempt(facts)} within moments; if it is gone, another one does after a lease (30 s).",
        notes=notes_of(facts),
    )


def running(facts: Facts, codes: frozenset[str]) -> Story:
    """A worker has it."""
    trace = facts.need_trace()
    where = (
        f"It runs on worker {trace.holder}: {attempt(facts, running=True)}. "
        f"Its lease was renewed {age(trace.held_s or 0)} ago, and ends {due(trace.lease_left_s)}, unless renewed again."
    )
    if "cancel_requested" in codes:
        return Story(where, "The worker is told within about a second, and cancels the body; it ends as cancelled.",
                     notes=notes_of(facts))  # fmt: skip
    then = "When its body ends, the worker says how, and the relay settles that in Postgres. If the worker dies, another one starts it again when the lease has ended."  # noqa: E501
    return Story(where, then, [f"redisjobs jobs cancel {facts.id}"], notes_of(facts))


def lapsed(facts: Facts, codes: frozenset[str]) -> Story:
    """The holder fell silent."""
    trace = facts.need_trace()
    where = (
        f"It ran on worker {trace.holder}, whose lease lapsed {age(-(trace.lease_left_s or 0))} ago: "
        "the worker died, hangs, or is cut off from Redis."
    )
    if "cancel_requested" in codes:
        return Story(where, f"{ENDS_CANCELLED} when a worker of the queue takes over.", notes=notes_of(facts))
    if trace.losses >= 2:
        then = "The next worker of the queue with a free slot counts the lost lease; where that makes max_losses (3), it becomes a dead letter, else it starts again."  # noqa: E501
        return Story(where, then, notes=notes_of(facts))
    who = (
        "Once one serves the queue, a worker"
        if {"no_worker", "silent_workers"} & codes
        else "Another worker of the queue"
    )
    if "paused" in codes:
        who = "Once the queue is resumed, another worker"
    then = f"{who} with a free slot takes it over and starts {attempt(facts)} again; the lost lease is counted."
    return Story(where, then, notes=notes_of(facts))


def delayed(facts: Facts, codes: frozenset[str]) -> Story:
    """Due, for the first time."""
    return _later(facts, codes, f"It is in Redis, and waits for its time: due {due(due_in_s(facts))}.")


def retrying(facts: Facts, codes: frozenset[str]) -> Story:
    """An attempt failed."""
    where = f"It is in Redis, and waits for its next attempt: due {due(due_in_s(facts))}."
    told = _later(facts, codes, where)
    if "attempt_failed" in codes:
        return told
    text = f"Attempt {facts.attempts} failed; its error is on the way to Postgres."
    return Story(told.where, told.next, told.commands, told.notes, [Reason("attempt_failed", text)])


def snoozed(facts: Facts, codes: frozenset[str]) -> Story:
    """Its body asked to come back."""
    return _later(
        facts,
        codes,
        f"It is in Redis, snoozed by its own body: due {due(due_in_s(facts))}. That counts as no attempt.",
    )


def suspended(facts: Facts, codes: frozenset[str]) -> Story:
    """A durable run that waits for an event or a child."""
    row, notes = facts.need_row(), redriven(facts)
    where = "It is suspended: it waits in Postgres, and takes no worker and no room in Redis."
    who = carrier(facts, codes)
    if "cancel_requested" in codes:
        return Story(where, f"{who} ends it as cancelled.", notes=notes)
    latest = f", {due(row.run_in_s)} at the latest" if row.run_in_s is not None else ""
    then = f"It goes on when what it waits for is there{latest}: {who[0].lower()}{who[1:]} publishes it again, and a worker runs it, behind what it has recorded."  # noqa: E501
    return Story(where, then, [f"redisjobs jobs cancel {facts.id}"], notes)


def parked(facts: Facts, codes: frozenset[str]) -> Story:
    """No worker knows its name."""
    where = f"It is in Redis, parked: no worker that looked knows its name. It is tried again {due(due_in_s(facts))}."
    if "cancel_requested" in codes:
        return _later(facts, codes, where)
    return Story(
        where,
        "It is tried again at least every 30 s, uncounted, until a worker takes it whose app declares the job: "
        f"finish the deploy, or import the module that declares it{unless_expired(facts)}.",
        [f"redisjobs jobs list --queue {facts.queue} --state parked"],
        notes_of(facts),
    )


def _later(facts: Facts, codes: frozenset[str], where: str) -> Story:
    if "cancel_requested" in codes:
        return Story(where, f"{carrier(facts, codes)} ends it as cancelled.", notes=notes_of(facts))
    when = "At its time" if (due_in_s(facts) or 0) > 0 else "Its time has come:"
    who = "a worker of the queue"
    if {"no_worker", "silent_workers"} & codes:
        when, who = "After its time", "the first worker that serves the queue"
    if "paused" in codes:
        who = "a worker of the queue, once it is resumed,"
    return Story(where, f"{when} {who} moves it to its stream, and starts {attempt(facts)}{unless_expired(facts)}.",
                 notes=notes_of(facts))  # fmt: skip


def settling(facts: Facts, codes: frozenset[str]) -> Story:
    """Ended in Redis, alive in Postgres."""
    trace = facts.need_trace()
    by = f" by worker {trace.holder}" if trace.holder else ""
    how = f"as {trace.word}" if trace.word else "in a way that Redis has forgotten"
    if trace.settled and facts.row is not None:
        where = f"It ended {how}{by}; Redis counts that as settled, and its row is still in the outbox."
        return Story(where, "The relay's audit finds the row, and publishes it again.", notes=notes_of(facts))
    if facts.row is None:
        where = f"It ended {how}{by}, and Postgres keeps no row of it."
        return Story(where, "Nothing more happens; Redis forgets it within about a minute.", notes=notes_of(facts))
    if trace.word == "suspended":
        where = f"Its body let go of its worker{by}, to wait; that stands in Redis, and is not in Postgres yet."
        return Story(where, f"{carrier(facts, codes)} settles it, and has it go on at its time.", notes=notes_of(facts))
    where = f"It ended {how}{by}; that stands in Redis, and is not in Postgres yet."
    then = f"{carrier(facts, codes)} settles it: its row leaves the outbox, and Redis forgets it a minute later."
    return Story(where, then, notes=notes_of(facts))


def lost(facts: Facts, codes: frozenset[str]) -> Story:
    """Postgres counts on Redis, and Redis does not have it."""
    if facts.row is None:
        return Story(
            "Redis has a record of it and no place for it, and Postgres has no row.", "The relay's audit removes it."
        )
    where = f"Its row says that it is in Redis ({facts.row.state}), and Redis does not have it."
    who = carrier(facts, codes)
    if "redis_lost" in codes:
        then = (
            f"{who} publishes again what has not ended of the queue, in order; then a worker starts {attempt(facts)}."
        )
        return Story(where, then, notes=redriven(facts))
    text = "Redis lost this job alone: a failover that lost writes, a policy that evicts, or a deleted key."
    then = f"{who} publishes it again when its audit comes to the row, which walks over some 500 rows a second with a pause of a minute in between; then a worker starts {attempt(facts)}."  # noqa: E501
    return Story(where, then, ["redisjobs doctor"], redriven(facts), [Reason("lost_alone", text)])


def unseen(facts: Facts, codes: frozenset[str]) -> Story:
    """In Redis as far as Postgres knows, and Redis does not answer."""
    state = facts.row.state if facts.row else ""
    return Story(
        f"Its row says that it is in Redis ({state}); Redis could not be asked.",
        f"Workers go on when Redis answers. If its data are lost, {carrier(facts, codes)[0].lower()}{carrier(facts, codes)[1:]} publishes it again.",  # noqa: E501
        ["redisjobs doctor"],
        redriven(facts),
    )


def due_in_s(facts: Facts) -> float | None:
    return facts.trace.due_in_s if facts.trace else None


def notes_of(facts: Facts) -> list[str]:
    """What is worth knowing of a job in Redis."""
    notes, trace, row = redriven(facts), facts.trace, facts.row
    if trace is not None and trace.direct:
        notes.append("It was put into Redis directly: it has no row in Postgres, and is lost if Redis is.")
    elif row is None and "postgres" not in facts.errors and trace is not None and trace.spot != "ended":
        notes.append("Postgres has no row of it: a failover brought it back, and the relay's audit removes it.")
    if row is not None and row.moving and trace is not None and trace.spot in ("waiting", "read", "due"):
        notes.append("It was given another priority or time: the relay moves it there in Redis within moments.")
    if row is not None and row.state == "staged":
        notes.append(
            "Its row is marked as published in a moment, or is about to be published once more, which changes nothing."
        )
    return notes


STORIES: dict[str, Told] = {
    "staged": staged,
    "deferred": deferred,
    "set_aside": set_aside,
    "waiting": waiting,
    "read": read,
    "running": running,
    "lapsed": lapsed,
    "delayed": delayed,
    "retrying": retrying,
    "snoozed": snoozed,
    "suspended": suspended,
    "parked": parked,
    "settling": settling,
    "lost": lost,
    "unseen": unseen,
}
