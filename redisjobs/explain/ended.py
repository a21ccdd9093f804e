"""Jobs that have ended, and ids that nobody knows: what each tells."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from redisjobs.base.durations import age, many
from redisjobs.base.ids import made_at
from redisjobs.explain.facts import Facts
from redisjobs.explain.obstacles import failure_of
from redisjobs.explain.reason import Reason
from redisjobs.explain.story import Story, moment, redriven

RETENTION_S = 3600.0
"""For how long relays keep what has ended, unless they or the job say otherwise."""


def done(facts: Facts, codes: frozenset[str]) -> Story:
    """It succeeded."""
    del codes
    row = facts.need_row()
    attempts = "at its first attempt" if row.attempts <= 1 else f"at attempt {row.attempts}"
    result = "Its result is kept as long." if row.keeps_result else "It keeps no result in Postgres."
    return Story(
        f"It is done: it ended well {_ago(facts)}, {attempts}.", f"{_dropped(facts)} {result}", notes=_left(facts)
    )


def cancelled(facts: Facts, codes: frozenset[str]) -> Story:
    """Its end was asked for, by a user or by itself."""
    del codes
    why = failure_of(facts)
    reasons = [Reason("cancelled", f"Its cancel was asked for, by a user or by its own body: {why}.")] if why else []
    return Story(f"It is cancelled: it ended so {_ago(facts)}.", _dropped(facts), notes=_left(facts), reasons=reasons)


def expired(facts: Facts, codes: frozenset[str]) -> Story:
    """It was past its expiry before it could start."""
    del codes
    return Story(
        f"It is expired: it was not started, for it was past its expiry; it ended so {_ago(facts)}.",
        f"{_dropped(facts)} More workers, or a later expires, let such jobs run.",
        notes=_left(facts),
    )


def deduplicated(facts: Facts, codes: frozenset[str]) -> Story:
    """Another job had its key."""
    del codes
    row = facts.need_row()
    text = f"Job {row.duplicate_of} had its idempotency key ({row.idempotency_key}) when it was to be published."
    if row.error:
        text = f"Its key is {row.idempotency_key}, and {row.error}: job {row.duplicate_of}."
    state = f"which is {facts.owner} now" if facts.owner else "which is not known any more"
    return Story(
        f"It never ran, and will not: {_ago(facts)} it ended as a duplicate of job {row.duplicate_of}, {state}.",
        f"{_dropped(facts)} What was asked for is done by the other job.",
        [f"redisjobs explain {row.duplicate_of}"],
        reasons=[Reason("key_was_held", text)],
    )


def dead(facts: Facts, codes: frozenset[str]) -> Story:
    """Given up."""
    del codes
    row = facts.need_row()
    of = f"{row.attempts} of " if row.max_attempts else ""
    attempts = f"{of}{many(row.max_attempts or row.attempts, 'counted attempt')}"
    last = failure_of(facts)
    text = f"It was given up after {attempts}: {(row.error or 'unknown').rstrip('.')}."
    if last and row.error and last not in row.error:
        text += f" The last error was {last}."
    commands = [f"redisjobs dead {verb} {facts.id}" for verb in ("show", "redrive", "purge")]
    return Story(
        f"It is a dead letter since {moment(row.ended_at)} ({_ago(facts)}).",
        "Nothing happens until it is redriven, which runs it again with fresh attempts, or purged.",
        commands,
        redriven(facts) + _left(facts),
        [Reason("dead", text)],
    )


def unknown(facts: Facts, codes: frozenset[str]) -> Story:
    """Neither store has it; what that can mean, as far as it can be told apart."""
    del codes
    made, notes = made_at(facts.id), _may_come(facts)
    if "postgres" in facts.errors:
        return Story(
            "Redis does not know it, and Postgres could not be asked: it may be committed and not published yet.",
            "Ask again when Postgres answers.",
            notes=notes,
        )
    where = f"Neither Postgres nor Redis knows it (queues of Redis that were looked through: {facts.searched})."
    if "redis" in facts.errors:
        where = "Postgres does not know it, and Redis, where jobs can be put directly, could not be asked."
    if made is None:
        reasons = [Reason("not_known", f"{_NEVER}, {_ENDED}, {_ELSEWHERE}.")]
        return Story(where, "Nothing happens, unless its transaction is still open.", notes=notes, reasons=reasons)
    old_s = (datetime.now(UTC) - made).total_seconds()
    text = f"Its id was made {age(max(0.0, old_s))} ago, at {moment(made)}. "
    if old_s < RETENTION_S:
        text += f"What ends is kept for 1 h (--retention), so most likely its {_NEVER[4:]}, {_ELSEWHERE}."
    else:
        text += f"{_NEVER}, {_ENDED}, {_ELSEWHERE}: after so long these cannot be told apart."
    return Story(
        where, "Nothing happens, unless its transaction is still open: it is then a job at its commit.",
        notes=notes, reasons=[Reason("not_known", text)],
    )  # fmt: skip


_NEVER = "Its transaction was rolled back or has not committed yet"
_ENDED = "or it ended and was dropped after its retention (or was purged)"
_ELSEWHERE = "or it is in another database, --schema or --prefix"


def _may_come(facts: Facts) -> list[str]:
    """Transactions that are still open, as far as this login sees them."""
    doubt, notes = facts.doubt, list[str]()
    if doubt is None:
        return notes
    if doubt.writing:
        number = many(doubt.writing, "transaction is", "transactions are")
        notes.append(
            f"{number} open that wrote to this database, the oldest for {age(doubt.oldest_s)}: it may be in one."
        )
    if doubt.prepared:
        number = many(doubt.prepared, "prepared transaction waits", "prepared transactions wait")
        notes.append(f"{number} for COMMIT PREPARED: it may be in one.")
    if doubt.hidden:
        notes.append("This login may not see the transactions of others: pg_read_all_stats would let it.")
    return notes


def _ago(facts: Facts) -> str:
    ended = facts.row.ended_at if facts.row else None
    return f"{age(max(0.0, (datetime.now(UTC) - ended).total_seconds()))} ago" if ended else "some time ago"


def _dropped(facts: Facts) -> str:
    left_s = facts.row.kept_s if facts.row else None
    if left_s is None:
        return "Nothing more happens."
    if left_s <= 0:
        return "Nothing more happens; the relay is about to drop its row, whose retention is over."
    return f"Nothing more happens; its row is dropped after {moment(datetime.now(UTC) + timedelta(seconds=left_s))}."


def _left(facts: Facts) -> list[str]:
    """What Redis still has of a job that has ended."""
    trace = facts.trace
    if trace is None or facts.row is None or trace.life < facts.row.redrives:
        return []
    if trace.spot == "ended":
        return ["Redis still remembers its end, for about a minute, so that a late repeat changes nothing."]
    if trace.spot == "running":
        return [
            f"Redis still has it, and worker {trace.holder} runs it: a failover brought it back. It changes nothing."
        ]
    return ["Redis still has it: a failover brought it back. The relay's audit removes it."]


STORIES = {
    "done": done,
    "cancelled": cancelled,
    "expired": expired,
    "deduplicated": deduplicated,
    "dead": dead,
    "unknown": unknown,
}
