"""What an attempt came to, as values that a test can compare: `assert await run(add, 1, 2) == Succeeded(3)`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Succeeded(Generic[R]):
    """The body returned.

    Args:
        value: what it returned; of a job that keeps its result, as `handle.result()` answers it.
    """

    value: R


@dataclass(frozen=True, slots=True)
class Retried:
    """The attempt counts, and another one follows.

    Args:
        after: seconds until then.
        error: what the body raised; not compared.
    """

    after: float
    error: BaseException | None = field(default=None, compare=False)
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The job comes back, and the attempt does not count.

    Args:
        after: seconds until then.
    """

    after: float


@dataclass(frozen=True, slots=True)
class Limited:
    """The body met a limit of somebody else's, by `ctx.rate_limited(…)`; the attempt does not count.

    Args:
        after: seconds until the job comes back.
    """

    after: float


@dataclass(frozen=True, slots=True)
class Suspended:
    """The run has left its slot, and the attempt does not count: it comes back when what it waits for is there.

    Args:
        after: seconds until it comes back by itself; None: only when it is woken.
        waits: for an event or a child; else only for the time.
    """

    after: float | None = field(default=None, compare=False)
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Died:
    """The job ends as a dead letter.

    Args:
        error: what the body raised; not compared, and neither is the reason.
    """

    error: BaseException | None = field(default=None, compare=False)
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The job ends as cancelled."""

    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Expired:
    """The job was past its `expires`, and its body did not start."""


Outcome: TypeAlias = Succeeded[R] | Retried | Snoozed | Limited | Suspended | Died | Cancelled | Expired
