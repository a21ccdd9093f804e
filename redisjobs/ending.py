"""The end of an attempt: from what its body answered to the finish that goes back to Redis."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Literal, TypeAlias

from redisjobs.base.clock import Clock
from redisjobs.base.envelope import Envelope
from redisjobs.broker import Finish
from redisjobs.errors import JobTimeoutError
from redisjobs.job import Job
from redisjobs.lane import Attempt
from redisjobs.logs import event
from redisjobs.outcome import DONE, Ended, Outcome, Rules, decide
from redisjobs.record import describe, let_go, message_of, pack, type_of

CANCEL_GRACE_S = 5.0
"""How long a body may take to answer its cancellation before it is named and its lease left to lapse."""
UNDECIDED_RETRY_S = 60.0
FINAL = frozenset({"done", "dead", "cancelled", "expired"})

AnyJob: TypeAlias = "Job[..., Any]"

_EVENTS: dict[str, tuple[int, str]] = {
    "retry": (logging.WARNING, "attempt.retrying"),
    "dead": (logging.ERROR, "job.dead"),
    "cancelled": (logging.INFO, "job.cancelled"),
    "expired": (logging.WARNING, "job.expired"),
    "snooze": (logging.DEBUG, "attempt.snoozed"),
    "suspended": (logging.DEBUG, "attempt.suspended"),
    "parked": (logging.WARNING, "job.parked"),
    "released": (logging.INFO, "attempt.handed_back"),
    "limited": (logging.DEBUG, "attempt.limited"),
    "lost": (logging.WARNING, "attempt.lost"),
}

log = logging.getLogger("redisjobs.attempt")


class UnstartedError(Exception):
    """The body is not to be started.

    Args:
        error: what stands for the reason in the record, if anything does.
    """

    def __init__(self, ended: Ended, error: BaseException | None = None) -> None:
        super().__init__(ended.value)
        self.ended = ended
        self.error = error


def last_look(attempt: Attempt) -> float:
    """Look at the lease, last thing before the body starts; answers when that is, in monotonic seconds.

    Raises:
        UnstartedError: it is to end, or the lease is not trusted any more.
    """
    now = time.monotonic()
    if attempt.ended_by is not None:
        raise UnstartedError(attempt.ended_by)
    permit = attempt.permit
    if now >= attempt.trusted_until or (permit is not None and now >= permit.until):
        late = now - attempt.trusted_until
        event(log, logging.WARNING, "attempt.untrusted", **attempt.told(), late_s=late)
        raise UnstartedError(Ended.DRAINED)
    return now


def succeeded(attempt: Attempt, job: AnyJob, value: object, clock: Clock, *, has_parent: bool = False) -> Finish | None:
    """The finish of a body that returned.

    Args:
        has_parent: a run waits for the result, whether the job keeps it or not.
    """
    if log.isEnabledFor(logging.DEBUG):
        event(log, logging.DEBUG, "attempt.done", **attempt.told(), seconds=_took(attempt))
    record, keep_ms = b"", 0
    if has_parent or job.declaration.result_ttl is not None or job.declaration.retention is not None:
        ttl, keep = job.declaration.result_ttl_s, job.declaration.keep_s
        try:
            result = job.encode_result(value) if has_parent or ttl is not None else None
        except Exception as error:  # noqa: BLE001 - the user's own class or codec
            why = "its body ended well, but its result cannot be kept"
            return conclude(attempt, job, Outcome("dead", counted=True, why=why), error, clock)
        record, keep_ms = pack(result=result, duration_ms=_ms(_took(attempt)), keep=keep), _ms(ttl or 0)
    _observe(attempt, DONE, None)
    return Finish(attempt.delivery, "done", counted=True, record=record, keep_ms=keep_ms)


def failed(
    attempt: Attempt, envelope: Envelope | None, job: AnyJob | None, error: BaseException | None, clock: Clock
) -> Finish | None:
    """The finish of an attempt that did not simply return; None: nothing is to be written.

    Never raises: the job must neither be lost nor go round in circles, whatever the error is like.
    """
    try:
        return conclude(attempt, job, *judge(attempt, envelope, job, error), clock)
    except Exception as bug:  # noqa: BLE001 - see above
        event(log, logging.ERROR, "attempt.undecided", **attempt.told(), exc_info=bug)
        return _undecided(attempt, envelope, job, bug, error)
    finally:
        if error is not None:
            let_go(error)


def judge(
    attempt: Attempt, envelope: Envelope | None, job: AnyJob | None, error: BaseException | None
) -> tuple[Outcome, BaseException | None]:
    """What becomes of an attempt that did not simply return, and the error that stands for it."""
    ended, cause = _how(attempt, job, error)
    number = attempt.delivery.attempts + 1
    return decide(ended, cause, number, _rules(envelope, job), max(0, attempt.delivery.start - number)), cause


def _undecided(
    attempt: Attempt, envelope: Envelope | None, job: AnyJob | None, bug: Exception, error: BaseException | None
) -> Finish:
    """The finish of an attempt whose end could not be judged: another one, as long as there is one left."""
    why = f"what became of this attempt could not be decided ({type_of(bug)})"
    last = attempt.delivery.attempts + 1 >= _rules(envelope, job).max_attempts
    word: Literal["dead", "retry"] = "dead" if last else "retry"
    delay = 0.0 if last else UNDECIDED_RETRY_S
    _observe(attempt, Outcome(word, delay, counted=True, why=why), error)
    return Finish(attempt.delivery, word, _ms(delay), counted=True, record=pack(why=why))


def conclude(
    attempt: Attempt, job: AnyJob | None, outcome: Outcome, error: BaseException | None, clock: Clock
) -> Finish | None:
    """The finish with this outcome, of which log and observer are told; None: nothing is to be written."""
    _tell(attempt, outcome, error)
    _observe(attempt, outcome, error)
    if outcome.word == "lost":
        return None
    described = None
    if error is not None and outcome.word in ("retry", "dead"):
        described = describe(error, attempt.delivery.attempts + 1, clock.now())
    duration_ms = None if attempt.began_at is None else _ms(_took(attempt))
    ttl = keep = None
    if job is not None and outcome.word in FINAL:
        ttl, keep = job.declaration.result_ttl_s, job.declaration.keep_s
    record = pack(described, outcome.why, duration_ms, keep=keep, waits=outcome.waits, undone=outcome.undone)
    keep_ms = 0 if ttl is None else _ms(ttl)
    skips = job is not None and job.declaration.lane_on_failure == "skip"
    return Finish(attempt.delivery, outcome.word, _ms(outcome.delay), outcome.counted, record, keep_ms, skips)


def _how(attempt: Attempt, job: AnyJob | None, error: BaseException | None) -> tuple[Ended, BaseException | None]:
    """How the attempt ended, and the error that stands for it."""
    if isinstance(error, UnstartedError):
        return error.ended, error.error
    ended = attempt.ended_by or Ended.RAISED
    if ended is Ended.TIMED_OUT and job is not None:
        timeout = JobTimeoutError(f"job {job.name!r} ran past its timeout ({job.declaration.timeout_s:g} s)")
        timeout.__cause__ = None if isinstance(error, asyncio.CancelledError) else error
        return ended, timeout
    return ended, error


def _rules(envelope: Envelope | None, job: AnyJob | None) -> Rules:
    if job is None:
        return Rules(1, retries=lambda _: False, delay=lambda _, __: 0.0)
    most = None if envelope is None else envelope.max_attempts
    return Rules(most or job.declaration.max_attempts, job.retries, job.delay_after)


def _tell(attempt: Attempt, outcome: Outcome, error: BaseException | None) -> None:
    level, name = _EVENTS[outcome.word]
    if outcome.word == "parked" and not attempt.lane.first_of_late(attempt.job):
        level = logging.DEBUG
    if not log.isEnabledFor(level):
        return
    event(
        log, level, name, **attempt.told(), why=outcome.why or None, delay_s=outcome.delay or None,
        error=None if error is None else type_of(error), message=None if error is None else message_of(error, 200),
        seconds=None if attempt.began_at is None else _took(attempt),
    )  # fmt: skip


def _observe(attempt: Attempt, outcome: Outcome, error: BaseException | None) -> None:
    observer = attempt.lane.observer
    if observer is not None:
        observer.ended(attempt, outcome, error)


def _took(attempt: Attempt) -> float:
    return 0.0 if attempt.began_at is None else time.monotonic() - attempt.began_at


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
