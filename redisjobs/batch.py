"""What the body of a batch job is given: its calls, each with its own end, and a context of the batch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, Literal, cast

from redisjobs.context import Context, State_co
from redisjobs.errors import Cancel, Dead, RedisjobsError, Retry, Snooze

if sys.version_info >= (3, 13):
    from typing import TypeVar
else:  # its defaults are new in 3.13
    from typing_extensions import TypeVar

A_co = TypeVar("A_co", covariant=True, default=Any)


@dataclass(slots=True, eq=False)
class BatchCall(Generic[A_co]):
    """One call in a batch: a job of its own, with its own attempt and its own end.

    What the body says of a call is its end, whatever the body does after it; the last word counts. A call of which
    nothing is said ends as its batch does.

    Args:
        argument: what it was enqueued with.
        context: of its own attempt; in a test of a body it may be left out.
    """

    argument: A_co
    context: Context[Any] = field(default_factory=lambda: Context.detached("batch"), repr=False)
    _said: tuple[object, BaseException | None] | None = field(default=None, init=False, repr=False)
    _asked: Literal["", "lost", "cancelled"] = field(default="", init=False, repr=False)
    _over: bool = field(default=False, init=False, repr=False)

    @property
    def id(self) -> str:
        """The job's id."""
        return self.context.job_id

    @property
    def attempt(self) -> int:
        """Which attempt of the job this is, from 1."""
        return self.context.attempt

    @property
    def lost(self) -> bool:
        """Its lease was lost while the batch runs: another worker may run it, and nothing said of it counts."""
        return self._asked == "lost"

    @property
    def cancelled(self) -> bool:
        """Its cancel was asked for while the batch runs. It ends as cancelled, unless it is done all the same."""
        return self._asked == "cancelled"

    def done(self, result: object = None) -> None:
        """It is done, with this result."""
        self._say(result, None)

    def fail(self, error: BaseException | str) -> None:
        """It has failed, as if a body of its own had raised this error. A text is the message of a RuntimeError."""
        self._say(None, RuntimeError(error) if isinstance(error, str) else error)

    def retry(self, after: float | timedelta | None = None, reason: str = "asked for a retry") -> None:
        """Try it again; the attempt counts. None: after the time that its retry rule says."""
        self._say(None, Retry(after, reason))

    def snooze(self, after: float | timedelta) -> None:
        """Have it come back later; the attempt does not count."""
        self._say(None, Snooze(after))

    def cancel(self, reason: str = "cancelled by its own body") -> None:
        """End it as cancelled."""
        self._say(None, Cancel(reason))

    def dead(self, reason: str = "given up by its own body") -> None:
        """End it as a dead letter, whatever attempts are left."""
        self._say(None, Dead(reason))

    def _say(self, result: object, error: BaseException | None) -> None:
        if self.lost:
            return
        if self._over:
            raise RedisjobsError(f"call {self.id}: its end is decided already; say it before the body returns")
        if error is not None and not isinstance(cast(object, error), BaseException):
            raise TypeError(f"call {self.id}: fail takes an exception or a text, not a {type(error).__name__}")
        self._said = (result, error)


@dataclass(slots=True)
class BatchContext(Context[State_co], Generic[State_co]):
    """What the body of a batch job may know about the run of its batch. Middleware around it is given this too.

    `job_id` is made for this run, and no job has it: each call has its own `context`. `attempt` is the highest of
    the calls; `tenant_id` is theirs where all have the same, else None. Progress that is reported is that of each call.

    Args:
        calls: those of the batch, in the order in which they were delivered.
    """

    calls: Sequence[BatchCall[Any]] = ()


def settle(calls: Sequence[BatchCall[Any]], answer: object) -> None:
    """What a body returned, as the end of each call of which it has said nothing.

    Raises:
        Dead: it is neither None nor a list with one result for each call.
    """
    results: Sequence[object] = [None] * len(calls)
    if answer is not None:
        if not isinstance(answer, (list, tuple)):
            raise Dead(f"the body of a batch returned a {type(answer).__name__}: return None, or a list of results")
        results = cast("Sequence[object]", answer)
        if len(results) != len(calls):
            raise Dead(f"the body of a batch returned {len(results)} results for {len(calls)} calls: one for each")
    for call, result in zip(calls, results, strict=True):
        if call._said is None:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            call._said = (result, None)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def said(call: BatchCall[Any]) -> tuple[object, BaseException | None] | None:
    """The result or the error of a call, if anything was said of it."""
    return call._said  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def close(call: BatchCall[Any]) -> None:
    """Take no further word on a call."""
    call._over = True  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def ask(call: BatchCall[Any], asked: Literal["lost", "cancelled"]) -> None:
    """Let the body see that a call has been lost or is to be cancelled."""
    call._asked = asked  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
