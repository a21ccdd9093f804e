"""A call: one job asked for, with its arguments encoded and its options checked. A value; nothing is sent yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from redisjobs.base.durations import Duration, positive, seconds, whole
from redisjobs.base.plain import refuse_unwritable, write_json
from redisjobs.errors import EncodeError, OptionError
from redisjobs.policy import Debounce, Mode, Policy, Singleton, Throttle, one_of
from redisjobs.progress import Progress

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

LONGEST_WINDOW = 366 * 86_400.0
HEADERS_BYTES = 16_384

_JOB = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,200}\Z")  # what [:cntrl:] means to Postgres
_QUEUE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}\Z")


@dataclass(frozen=True, slots=True)
class Options:
    """How a call is to be run, apart from its arguments. Checked: what a row may not hold is refused here.

    Args:
        queue: None: the job's own.
        delay: seconds from now, by the clock of Postgres.
        run_at: an aware moment; not together with `delay`.
        idempotency_key: while a job with this key lives in its queue, a second one is not run.
        window: keeps the key for so long after the end.
        priority: -100 to 100; above 0 goes before, below 0 behind the ordinary. None: the job's own.
        max_attempts: None: the job's definition decides, when it runs.
        expires: a moment, or a duration from now; a job that has not started by then never does.
        tenant: goes into the body's context and log lines.
        headers: plain JSON for the body's context, at most 16 KiB.
        enqueued_by: who asked, for people.
        lane: jobs of one lane of a queue run one after another. None: as the job declares.
        share: jobs of a queue are taken in turn by this key. None: as the job declares.
        throttle: of the calls with its key, which is `idempotency_key` here or computed, the first runs, and none of
            the others for a while. In place of what the job declares, as the next two.
        debounce: the last of them runs, when no further one has come for a while.
        singleton: at most one of them lives at a time.

    Raises:
        OptionError: an option out of its range.
    """

    queue: str | None = None
    delay: Duration | None = None
    run_at: datetime | None = None
    idempotency_key: str | None = None
    window: Duration | None = None
    priority: int | None = None
    max_attempts: int | None = None
    expires: Duration | datetime | None = None
    tenant: str | None = None
    headers: Mapping[str, Any] | None = field(default=None, repr=False)
    enqueued_by: str | None = None
    lane: str | None = None
    share: str | None = None
    throttle: Throttle | None = None
    debounce: Debounce | None = None
    singleton: Singleton | Mode | None = None

    def __post_init__(self) -> None:
        if self.queue is not None:
            check_queue(self.queue)
        self._check_times()
        self._check_key()
        if self.headers is not None and not _is_mapping(self.headers):
            raise OptionError(
                "headers", type(self.headers).__name__, "is no mapping: pass names with plain JSON values"
            )
        if self.priority is not None:
            check_priority(self.priority)
        if self.max_attempts is not None:
            check_max_attempts(self.max_attempts)
        if self.tenant is not None:
            _check_text("tenant", self.tenant, least=1, most=200)
        if self.enqueued_by is not None:
            _check_text("enqueued_by", self.enqueued_by, least=0, most=200)
        if self.lane is not None:
            _check_text("lane", self.lane, least=1, most=200)
        if self.share is not None:
            _check_text("share", self.share, least=1, most=200)
        if self._has_policy and (policy := self.policy) is not None:
            self._check_policy(policy)

    @property
    def policy(self) -> Policy | None:
        """The policy of this call; None: that of the job."""
        return one_of(self.throttle, self.debounce, self.singleton)

    @property
    def has_groups(self) -> bool:
        """Whether it names a lane, a share or a policy."""
        return self.lane is not None or self.share is not None or self._has_policy

    @property
    def _has_policy(self) -> bool:
        return self.throttle is not None or self.debounce is not None or self.singleton is not None

    def _check_policy(self, policy: Policy) -> None:
        kind = type(policy).__name__
        if self.idempotency_key is not None and policy.key is not None:
            why = f"is a key, and {kind}(…) has one: pass one of them"
            raise OptionError("idempotency_key", self.idempotency_key, why)
        if self.window is not None:
            raise OptionError("window", self.window, f"keeps a key after the end, and {kind}(…) does not: leave it out")
        for option in ("delay", "run_at"):
            if isinstance(policy, Debounce) and getattr(self, option) is not None:
                why = "says when to run, and so does Debounce(…): pass one of them"
                raise OptionError(option, getattr(self, option), why)

    def _check_times(self) -> None:
        if self.delay is not None and self.run_at is not None:
            raise OptionError("delay", self.delay, "says when to run, and so does run_at: pass one of them")
        if self.delay is not None:
            seconds("delay", self.delay)
        if self.run_at is not None:
            check_moment("run_at", self.run_at)
        if isinstance(self.expires, datetime):
            check_moment("expires", self.expires)
        elif self.expires is not None:
            positive("expires", self.expires)

    def _check_key(self) -> None:
        if self.idempotency_key is not None:
            _check_text("idempotency_key", self.idempotency_key, least=1, most=512)
            size = len(self.idempotency_key.encode())
            if size > 512:
                raise OptionError("idempotency_key", self.idempotency_key[:60], f"has {size} bytes: pass at most 512")
        if self.window is not None:
            seconds("window", self.window, most=LONGEST_WINDOW)
            if self.idempotency_key is None:
                raise OptionError("window", self.window, "keeps a key, and there is none: pass idempotency_key too")


@dataclass(frozen=True, slots=True)
class Call(Generic[R_co]):
    """One job asked for. Its fields are the columns of an outbox row; times of the caller's clock are not among them.

    Args:
        id: made here, so that staging needs no answer from the database.
        delay: seconds; Postgres adds them to its own time.
        expires_in: seconds, likewise.
        key_window: seconds.
        headers: JSON text.
        version: only workers that know this version of the job run it.
        lane: jobs of one lane of the queue run one after another.
        share_key: jobs of the queue are taken in turn by it.
        key_policy: what the key does: skip, throttle, debounce or replace. None: skip.
        key_wait, key_longest: seconds, of debounce.
        result_ttl: seconds for which whoever waits for the result of a duplicate is told whose result it is.
    """

    id: UUID
    job: str
    queue: str
    codec: str
    payload: bytes = field(repr=False)
    idempotency_key: str | None = None
    key_window: float | None = None
    priority: int = 0
    max_attempts: int | None = None
    run_at: datetime | None = None
    delay: float | None = None
    expires_at: datetime | None = None
    expires_in: float | None = None
    tenant_id: str | None = None
    traceparent: str | None = None
    enqueued_by: str | None = None
    headers: str | None = field(default=None, repr=False)
    version: str | None = None
    lane: str | None = None
    share_key: str | None = None
    key_policy: str | None = None
    key_wait: float | None = None
    key_longest: float | None = None
    result_ttl: float | None = None


class Home(Protocol):
    """Where a handle asks about its job: the app."""

    async def result_of(self, handle: Handle[R], timeout: Duration | None) -> R: ...

    async def progress_of(self, handle: Handle[Any]) -> Progress | None: ...


@dataclass(frozen=True, slots=True)
class Handle(Generic[R]):
    """A job that was enqueued.

    Args:
        id: the job's id; that of the holder of the idempotency key, if this call was a duplicate.
        duplicate: the broker answered that another job holds the key. Only `enqueue_direct` can know it at once;
            an outbox row settles as `deduplicated` later.
    """

    id: str
    job: str
    queue: str
    duplicate: bool = False
    _home: Home | None = field(default=None, repr=False, compare=False)

    async def result(self, timeout: Duration | None = None) -> R:
        """What the body returned, once the job has ended; for a job that declares `result_ttl`.

        Args:
            timeout: seconds or a timedelta to wait; None: until it is there. A row that ends as `deduplicated` has no
                result of its own: what comes is that of the job that ran in its place.

        Raises:
            JobFailed: the job ended as a dead letter.
            JobCancelled: it was cancelled.
            JobExpired: it was past its `expires`.
            ResultTimeout: it did not end in time; it goes on all the same.
            ConfigurationError: the job keeps no result.
        """
        if self._home is None:
            raise OptionError("handle", self.id, "belongs to no app: use the handle that enqueue answered")
        return await self._home.result_of(self, timeout)

    async def progress(self) -> Progress | None:
        """How far the body has come, by its last `ctx.progress(…)`; None: it has said nothing, or the job has ended.

        Raises:
            BrokerUnavailable: Redis does not answer.
        """
        if self._home is None:
            raise OptionError("handle", self.id, "belongs to no app: use the handle that enqueue answered")
        return await self._home.progress_of(self)


def check_job(name: object) -> str:
    """A job's name, as the outbox takes it.

    Raises:
        OptionError: it does not.
    """
    if not isinstance(name, str) or not _JOB.match(name) or not name.strip() or not _is_writable(name):
        raise OptionError("name", _short(name), "is no job name: pass 1 to 200 characters, none a control character")
    return name


def check_queue(name: object) -> str:
    """A queue's name, as the outbox takes it.

    Raises:
        OptionError: it does not.
    """
    if not isinstance(name, str) or not _QUEUE.match(name):
        why = "is no queue name: pass 1 to 128 of A-Z, a-z, 0-9 and _.:-, the first a letter, a digit or _"
        raise OptionError("queue", _short(name), why)
    return name


def check_priority(priority: object) -> int:
    """A priority in its range."""
    return whole("priority", priority, least=-100, most=100)


def check_max_attempts(number: object) -> int:
    """A number of attempts in its range."""
    return whole("max_attempts", number, most=1000)


def check_version(version: object) -> str:
    """The version of a job's body, as the outbox takes it."""
    _check_text("version", version, least=1, most=100)
    return str(version)


def headers_text(headers: Mapping[str, Any] | None) -> str | None:
    """The JSON text of a call's headers.

    Raises:
        EncodeError: not plain JSON with texts for keys, or more than 16 KiB of it.
    """
    if headers is None:
        return None
    text = write_json(dict(headers), "headers")
    if len(text.encode()) > HEADERS_BYTES:
        raise EncodeError("headers", f"have {len(text.encode())} bytes as JSON: pass at most {HEADERS_BYTES}")
    return text


def check_moment(name: str, moment: object) -> None:
    """An aware moment that every store can hold.

    Raises:
        OptionError: it is none.
    """
    if not isinstance(moment, datetime):
        raise OptionError(name, _short(moment), f"is a {type(moment).__name__}: pass a datetime with a time zone")
    if moment.utcoffset() is None:
        why = "has no time zone, so it names no moment: pass an aware one, such as datetime.now(UTC) + …"
        raise OptionError(name, moment, why)
    if not 1 < moment.year < 9999:
        raise OptionError(name, moment, "is at the end of the calendar: pass a year from 2 to 9998")


def _check_text(name: str, text: object, *, least: int, most: int) -> None:
    if not isinstance(text, str):
        raise OptionError(name, _short(text), f"is a {type(text).__name__}: pass a text")
    if not least <= len(text) <= most:
        raise OptionError(name, _short(text), f"has {len(text)} characters: pass {least} to {most}")
    if not _is_writable(text):
        why = "has a NUL character or a lone surrogate, which no database can store: leave it out"
        raise OptionError(name, _short(text), why)


def _is_mapping(headers: object) -> bool:
    return isinstance(headers, Mapping)


def _is_writable(text: str) -> bool:
    try:
        refuse_unwritable(text)
    except EncodeError:
        return False
    return True


def _short(value: object) -> object:
    return value[:60] if isinstance(value, (str, bytes)) else value


def as_seconds(duration: Duration | None) -> float | None:
    """The seconds of a checked duration; a float always, for psycopg sends no lists of ints and floats."""
    if duration is None:
        return None
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
