"""What becomes of an attempt: one pure function from how it ended to its outcome.

returned ──────────────────────────▶ done
raised, timed out ─────────────────▶ retry │ dead
Retry Snooze Cancel Dead ──────────▶ retry │ dead, snooze, cancelled, dead
cancelled by a user, expired ──────▶ cancelled, expired
drain ─────────────────────────────▶ released          handed back, uncounted
suspended ─────────────────────────▶ suspended         back when what it waits for is there, uncounted
unknown job or version ────────────▶ parked            tried again later, uncounted
waits for a limit, RateLimited ────▶ limited           comes back when its turn is there, uncounted
unreadable, too many lost workers ─▶ dead              a repeat would change nothing
lease lost ────────────────────────▶ lost              nothing is written
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

from redisjobs.base.durations import seconds
from redisjobs.errors import (
    Cancel,
    Dead,
    DecodeError,
    OptionError,
    RateLimited,
    RedisjobsError,
    Retry,
    Signal,
    Snooze,
    Suspend,
)

Word: TypeAlias = Literal[
    "done", "dead", "cancelled", "expired", "retry", "snooze", "suspended", "parked", "released", "limited", "lost"
]

TOLD: dict[Word, str] = {
    "done": "succeeded",
    "retry": "retried",
    "dead": "dead",
    "cancelled": "cancelled",
    "expired": "expired",
    "snooze": "snoozed",
    "suspended": "suspended",
    "parked": "parked",
    "released": "interrupted",
    "limited": "limited",
    "lost": "lost",
}
"""The words as metrics and spans tell them."""

LONGEST_PARK_S = 30.0
LONGEST_LINE_S = 3600.0
"""A job that waits for a limit comes back after this long, if nobody has woken it before."""
LONGEST_DELAY_S = 10 * 366 * 86400.0


class Ended(Enum):
    """How an attempt ended. The first that holds is the one that counts."""

    LOST = "its lease was lost"
    CANCELLED = "it was cancelled"
    EXPIRED = "it was past its expires_at before it could start"
    UNREADABLE = "it cannot be read"
    UNKNOWN = "no job of this name is registered here"
    OTHER_VERSION = "this version of the job is not registered here"
    LIMITED = "it waits for a limit"
    DRAINED = "its worker stopped"
    TIMED_OUT = "it ran past its timeout"
    RAISED = "it raised"
    RETURNED = "it returned"


@dataclass(frozen=True, slots=True)
class Rules:
    """What a job says about its own retries.

    Args:
        max_attempts: attempts in all.
        retries: whether an attempt that ended in this error is worth another one.
        delay: seconds to wait after the attempt of this number (from 1) has failed with this error.
    """

    max_attempts: int
    retries: Callable[[BaseException], bool]
    delay: Callable[[int, BaseException], float]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What shall happen to the job now.

    Args:
        delay: seconds until it comes back, for `retry`, `snooze`, `suspended`, `parked` and `limited`; below 0: a
            suspension has no time.
        counted: whether the attempt counts against its `max_attempts`.
        why: the reason in words, for whoever looks at the job later.
        waits: a suspension waits for an event or a child, too.
        undone: of the end of a run with undos: they have run, as far as they can.
    """

    word: Word
    delay: float = 0.0
    counted: bool = False
    why: str = ""
    waits: bool = False
    undone: bool = False


DONE = Outcome("done", counted=True)
LOST = Outcome("lost")
RELEASED = Outcome("released")


def suspended(suspension: Suspend) -> Outcome:
    """The outcome of a body that leaves its slot until what it waits for is there."""
    if suspension.after is None:
        return Outcome("suspended", -1.0, waits=suspension.waits)
    # Redis counts whole milliseconds. A sleeper comes back a moment early and waits it out in its slot; one that waits
    # for an event comes a moment late, for only the store can say that its time is over.
    whole = math.ceil(suspension.after * 1000) if suspension.waits else math.floor(suspension.after * 1000) - 1
    return Outcome("suspended", max(0, whole) / 1000, waits=suspension.waits)


def decide(ended: Ended, error: BaseException | None, attempt: int, rules: Rules, returns: int = 0) -> Outcome:
    """Say what becomes of an attempt.

    Args:
        error: what the body raised, or what stands for it.
        attempt: its number, from 1; attempts that do not count have no number of their own.
        returns: how often the job came back uncounted so far; parked jobs wait longer each time.
    """
    match ended:
        case Ended.RETURNED:
            return DONE
        case Ended.RAISED | Ended.TIMED_OUT:
            return _after_error(error or RedisjobsError("nothing was raised"), attempt, rules)
        case Ended.DRAINED:
            return RELEASED
        case Ended.LOST:
            return LOST
        case Ended.CANCELLED:
            return Outcome("cancelled", why=ended.value)
        case Ended.EXPIRED:
            return Outcome("expired", why=ended.value)
        case Ended.UNKNOWN | Ended.OTHER_VERSION:
            why = ended.value if error is None else str(error)
            return Outcome("parked", min(LONGEST_PARK_S, 2.0 ** min(returns, 10)), why=why)
        case Ended.LIMITED:
            delay = delay_of(error.after) if isinstance(error, RateLimited) else None
            return Outcome("limited", LONGEST_LINE_S if delay is None else delay, why=ended.value)
        case Ended.UNREADABLE:
            return Outcome("dead", why=ended.value)


def _after_error(error: BaseException, attempt: int, rules: Rules) -> Outcome:
    match error:
        case Cancel(reason=reason):
            return Outcome("cancelled", counted=True, why=str(reason))
        case Dead(reason=reason):
            return Outcome("dead", counted=True, why=str(reason))
        case Snooze(after=after) if (delay := delay_of(after)) is not None:
            return Outcome("snooze", delay)
        case RateLimited(after=after) if (delay := delay_of(after)) is not None:
            return Outcome("limited", delay, why="its body met a limit of somebody else's")
        case Retry(after=after) if after is not None and (delay := delay_of(after)) is not None:
            return _again(attempt, rules, delay, error)
        case _:
            pass
    # What a newer release enqueued may fit again once this one is replaced, whatever errors the job names.
    if not isinstance(error, (Signal, DecodeError)) and not rules.retries(error):
        return Outcome("dead", counted=True, why="its error is none that the job retries")
    return _again(attempt, rules, None, error)


def _again(attempt: int, rules: Rules, delay: float | None, error: BaseException) -> Outcome:
    if attempt >= rules.max_attempts:
        return Outcome("dead", counted=True, why=f"attempt {attempt} of {rules.max_attempts} failed")
    return Outcome("retry", rules.delay(attempt, error) if delay is None else delay, counted=True)


def delay_of(after: object) -> float | None:
    """The seconds of a delay that a body gave; None where it is none, and the job's own rule holds."""
    try:
        return seconds("after", after, most=LONGEST_DELAY_S)
    except OptionError:
        return None
