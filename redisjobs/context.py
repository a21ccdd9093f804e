"""What a body may know about its own attempt."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from redisjobs import occurrence, progress
from redisjobs.base.durations import Duration, seconds
from redisjobs.base.ids import new_id
from redisjobs.durable import Detached, Durable, Engine
from redisjobs.errors import RateLimited

if sys.version_info >= (3, 13):
    from typing import TypeVar
else:  # its defaults are new in 3.13
    from typing_extensions import TypeVar

State_co = TypeVar("State_co", covariant=True, default=object)
"""What the app's lifespan yields."""

LONGEST_S = 366 * 86_400.0
"""How long a `rate_limited` can be."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Context(Durable, Generic[State_co]):
    """One attempt of one job. A body whose first parameter is a `Context` is given it.

    What a durable run can do is told at `Durable`.

    Args:
        attempt: counted from 1; a hand-back at a shutdown does not count.
        deadline: when `timeout` ends this attempt, in `time.monotonic()` seconds; None: never.
        draining: is set when the worker shuts down: end soon, or be handed back.
        headers: what the producer put beside the arguments.
        state: what the app's lifespan yielded, the same object for all attempts of the process; a body that says
            `ctx: Context[Client]` has it typed. None without a lifespan, and in a body with `process=True`.

    The moments are in UTC: `staged_at` by Postgres time, `run_at` and `expires_at` as the producer asked.
    """

    job_id: str
    job: str
    queue: str = "default"
    attempt: int = 1
    max_attempts: int = 1
    idempotency_key: str | None = None
    priority: int = 0
    run_at: datetime | None = None
    expires_at: datetime | None = None
    tenant_id: str | None = None
    traceparent: str | None = None
    enqueued_by: str | None = None
    headers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    staged_at: datetime | None = None
    deadline: float | None = None
    draining: asyncio.Event = field(default_factory=asyncio.Event, repr=False, compare=False)
    reporter: progress.Reporter | None = field(default=None, repr=False, compare=False)
    state: State_co = field(default=None, repr=False, compare=False)  # type: ignore[assignment]  # without a lifespan
    opener: Callable[[Context[Any]], Engine] | None = field(default=None, repr=False, compare=False)
    _fill: Callable[[Context], None] | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def later(cls, fill: Callable[[Context], None]) -> Context:
        """One whose values are set by `fill` once the first is looked at; few bodies look at any, and it takes time."""
        made = object.__new__(cls)
        made.deadline = made.reporter = made.opener = None
        made._fill = fill
        return made

    if not TYPE_CHECKING:  # a checker would take any name for an attribute

        def __getattr__(self, name: str) -> object:
            """Called for what is not set: one made `later`, or no attribute at all."""
            fill, self._fill = object.__getattribute__(self, "_fill"), None
            if fill is None or name not in self.__slots__:
                self._fill = fill
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            fill(self)
            return object.__getattribute__(self, name)

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far this attempt has come, for whoever looks; from async and sync bodies, as often as you like.

        Returns at once: the latest report goes to Redis within about a second, one for each job, together with those
        of others. An attempt that has lost its lease writes nothing. Outside of a worker it is only checked.

        Args:
            done: from 0 to `total`, in units of your own. total: None where it is not known.
            note: what is being done; cut after 200 characters.

        Raises:
            OptionError: a number that is none, not finite, below 0 or above the total.
        """
        text = progress.write(done, total, note)
        if self.reporter is not None:
            self.reporter.report(text)

    def rate_limited(self, retry_after: Duration) -> NoReturn:
        """End this attempt, uncounted: somebody else's limit was met, such as an answer of 429.

        The job comes back after so long, and until then nothing starts of any rate that its call is counted by. A job
        without a rate comes back likewise, and its other calls go on. What runs already goes on.

        Args:
            retry_after: seconds or a timedelta.

        Raises:
            RateLimited: always; let it pass.
            OptionError: no such duration.
        """
        raise RateLimited(seconds("retry_after", retry_after, most=LONGEST_S))

    def remaining(self) -> float | None:
        """Seconds until the timeout ends this attempt, never below 0; None: it has no timeout."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def _durable(self) -> Engine:
        return Detached(self.job) if self.opener is None else self.opener(self)

    @property
    def schedule(self) -> occurrence.Occurrence | None:
        """The occurrence of a schedule that it was dispatched for; None: no schedule asked for this job."""
        return occurrence.read(self.headers)

    @classmethod
    def detached(cls, job: str, queue: str = "default", state: Any = None) -> Context[Any]:
        """A stand-in for a body that is called directly, outside any worker."""
        return Context(job_id=str(new_id()), job=job, queue=queue, state=state)


def moment(micros: int | None) -> datetime | None:
    """The UTC moment of an envelope's microseconds since 1970, exact to the microsecond."""
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)


def micros(moment: datetime) -> int:
    """The microseconds since 1970 of an aware moment, exact."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


running: ContextVar[Context | None] = ContextVar("redisjobs_running", default=None)
"""The attempt that runs here; the worker sets it around a body."""


def current() -> Context | None:
    """The context of the attempt that runs here; None outside a body."""
    return running.get()
