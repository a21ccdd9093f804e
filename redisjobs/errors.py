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
 └ Dead                       end as a dead letter, whatever attempts are left
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
