"""Every error and signal of redisjobs, in one tree.

RedisjobsError
 ├ ConfigurationError         a bad option, URL or schema: nothing was started
 │   └ OptionError            an option out of its range
 ├ EnqueueError               refused at the call: nothing was written
 │   ├ ArgumentsError         the arguments do not fit the job's signature
 │   └ EncodeError            a value cannot be encoded, or is too large
 ├ DecodeError                a payload cannot be read
 ├ UnknownJobError            no job of this name is registered here
 ├ StoreUnavailable           a store does not answer, or not now: repeat later
 │   ├ BrokerUnavailable      Redis
 │   └ DatabaseUnavailable    Postgres
 ├ StoreRefused               a store refuses, and a repeat changes nothing
 ├ PortTaken                  another process listens where this one shall
 ├ LeaseLost                  the right to a delivery is gone: write nothing more
 ├ JobAbortedError            this attempt may write no record of its run any more
 │   └ StepRefused            its token does not stand in the run's row any more
 ├ StepDuplicateError         a name that this run has used already
 ├ StepFailed                 a step has failed; raised where its result is asked for, also on a replay
 │   ├ ChildFailed            a child ended otherwise than done
 │   └ StepTimeoutError       a try of a step ran past its timeout
 ├ JobTimeoutError            an attempt ran past its timeout
 ├ ProcessEnded               the process of a body ended before the body did
 ├ ResultTimeout              a result did not come in time
 ├ JobFailed                  the job ended dead; raised where its result is asked for
 ├ JobCancelled               the job ended cancelled
 └ JobExpired                 the job passed its `expires_at` before it could start

Signal (a BaseException)      a body steers its own job, past its own `except Exception`
 ├ Retry                      try again, counted
 ├ Snooze                     come back later, uncounted
 ├ Cancel                     end as cancelled
 ├ Dead                       end as a dead letter, whatever attempts are left
 └ Suspend                    (internal) leave the slot until what the run waits for is there
"""

from __future__ import annotations

from datetime import timedelta


class RedisjobsError(Exception):
    """The root of the errors of this library."""


class ConfigurationError(RedisjobsError):
    """Something was set up wrongly; nothing was started or written."""


class OptionError(ConfigurationError, ValueError):
    """An option is out of its range.

    Args:
        name: the option as the caller wrote it.
        value: what was given.
        why: what is wrong with it and what to pass instead.
    """

    def __init__(self, name: str, value: object, why: str) -> None:
        shown = repr(value)
        super().__init__(f"{name} ({shown if len(shown) <= 80 else shown[:79] + '…'}) {why}")
        self.name = name
        self.value = value


class EnqueueError(RedisjobsError):
    """The call was refused; nothing was written."""


class ArgumentsError(EnqueueError, TypeError):
    """The arguments do not fit the job's signature."""


class EncodeError(EnqueueError, ValueError):
    """A value cannot be encoded, or the whole is too large.

    Args:
        path: where the value stands, such as `order.lines[3].price`.
        why: what is wrong with it and what to pass instead.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path


class DecodeError(RedisjobsError):
    """A payload cannot be read."""


class UnknownJobError(RedisjobsError):
    """No job of this name is registered here."""


class StoreUnavailable(RedisjobsError):
    """A store does not answer, or not now. The same call may succeed later."""


class BrokerUnavailable(StoreUnavailable):
    """Redis does not answer, or not now."""


class DatabaseUnavailable(StoreUnavailable):
    """Postgres does not answer, or not now."""


class StoreRefused(RedisjobsError):
    """A store refuses the call, and a repeat changes nothing."""


class PortTaken(RedisjobsError):
    """Another process listens where this one shall."""


class LeaseLost(RedisjobsError):
    """The right to a delivery is gone. Write nothing after it."""


class JobAbortedError(RedisjobsError):
    """This attempt was cancelled or replaced: it may write no record of its run any more.

    Args:
        job: its name. step: what was to be written. why: what ended the right.
    """

    def __init__(self, job: str, step: str, why: str) -> None:
        super().__init__(f"job {job!r}, step {step!r}: {why}; nothing was recorded, and nothing more will be")
        self.job = job
        self.step = step
        self.why = why


class StepRefused(JobAbortedError):
    """The token of this attempt does not stand in the run's row any more: another has claimed it, or it has ended."""


class StepDuplicateError(RedisjobsError):
    """A run has used this name already: give each step a name of its own, and in a loop one with an index."""


class StepFailed(RedisjobsError):
    """A step has failed; raised where its result is asked for, and again on a replay.

    The first time `__cause__` is what its body raised; on a replay there is none.

    Args:
        step: its name.
        error: type and message of what its last try raised.
        tries: how often it was tried.

    Attributes:
        beside: what else failed in the same `ctx.gather`.
    """

    beside: tuple[BaseException, ...] = ()

    def __init__(self, step: str, error: str, tries: int = 1) -> None:
        super().__init__(f"step {step!r} failed after {tries} {'try' if tries == 1 else 'tries'}: {error}")
        self.step = step
        self.error = error
        self.tries = tries


class ChildFailed(StepFailed):
    """A child ended otherwise than done.

    Args:
        child: its job id. word: dead, cancelled, expired or deduplicated.
    """

    def __init__(self, step: str, error: str, child: str, word: str) -> None:
        RedisjobsError.__init__(self, f"step {step!r}: child {child} ended {word}: {error}")
        self.step = step
        self.error = error
        self.tries = 1
        self.child = child
        self.word = word


class StepTimeoutError(StepFailed):
    """A try of a step ran past its timeout, and it was the last."""


class JobTimeoutError(RedisjobsError):
    """An attempt ran past its timeout."""


class ProcessEnded(RedisjobsError):
    """The process in which a body ran ended before the body did: a crash, the end of its memory, a kill."""


class ResultTimeout(RedisjobsError):
    """A result did not come within the time that the caller gave."""


class JobFailed(RedisjobsError):
    """The job ended as a dead letter; raised where its result is asked for.

    Args:
        job_id: the job.
        error: type and message of what went wrong last.
    """

    def __init__(self, job_id: str, error: str) -> None:
        super().__init__(f"job {job_id} failed: {error}")
        self.job_id = job_id
        self.error = error


class JobCancelled(RedisjobsError):
    """The job ended cancelled; raised where its result is asked for."""


class JobExpired(RedisjobsError):
    """The job passed its `expires_at` before it could start."""


class Signal(BaseException):
    """A body steers its own job; a `BaseException`, so that `except Exception` lets it pass."""


def _text(reason: object) -> str:
    """A reason as text: whatever it is, its end must be told."""
    try:
        return str(reason)
    except BaseException as error:  # noqa: BLE001 - a class of the user's: nothing that it raises may get further
        return f"(the reason cannot be read: its __str__ raised {type(error).__name__})"


class Retry(Signal):
    """Try the job again; the attempt counts.

    Args:
        after: seconds or a timedelta until the next attempt; None: as the job's backoff says.
        reason: kept as the attempt's error.
    """

    def __init__(self, after: float | timedelta | None = None, reason: str = "asked for a retry") -> None:
        super().__init__(_text(reason))
        self.after = after
        self.reason = _text(reason)


class Snooze(Signal):
    """Come back later; the attempt does not count.

    Args:
        after: seconds or a timedelta until then.
    """

    def __init__(self, after: float | timedelta) -> None:
        super().__init__(f"snoozed for {after}")
        self.after = after


class RateLimited(Signal):
    """Somebody else's limit was met: come back later, and so long nothing of the job's rates starts. Uncounted.

    Args:
        retry_after: seconds or a timedelta until then.
    """

    def __init__(self, retry_after: float | timedelta) -> None:
        super().__init__(f"rate limited for {retry_after}")
        self.after = retry_after


class Cancel(Signal):
    """End the job as cancelled."""

    def __init__(self, reason: str = "cancelled by its own body") -> None:
        super().__init__(_text(reason))
        self.reason = _text(reason)


class Dead(Signal):
    """End the job as a dead letter, whatever attempts are left."""

    def __init__(self, reason: str = "given up by its own body") -> None:
        super().__init__(_text(reason))
        self.reason = _text(reason)


class Suspend(Signal):
    """Leave the slot until what the run waits for is there. Raised by `sleep` and the like; let it pass.

    Args:
        after: seconds until the run is to be looked at again; None: only when it is woken.
        waits: for an event or a child; else only for the time.
    """

    def __init__(self, after: float | None, *, waits: bool) -> None:
        super().__init__("the run is suspended")
        self.after = after
        self.waits = waits
