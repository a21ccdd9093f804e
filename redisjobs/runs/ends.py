"""How a body leaves its run before its end: suspended, or rewound as far as it goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from redisjobs.errors import Suspend


class Rewound(BaseException):
    """A run on its way to its end has come to what is not recorded: its body goes no further."""


def suspension_in(error: BaseException | None) -> Suspend | None:
    """The suspension in an error, or in a group of which one part is a suspension; several are one."""
    found = [each for each in _leaves(error) if isinstance(each, Suspend)]
    return combined(found) if found else None


def is_rewound(error: BaseException | None) -> bool:
    """Whether the body stopped where nothing is recorded any more."""
    return any(isinstance(each, Rewound) for each in _leaves(error))


def combined(found: Sequence[Suspend]) -> Suspend:
    """One suspension for several: until the first of their times, and for an event where one of them is."""
    times = [each.after for each in found if each.after is not None]
    return Suspend(min(times, default=None), waits=any(each.waits for each in found))


def _leaves(error: BaseException | None) -> Iterator[BaseException]:
    if error is None:
        return
    inner: Sequence[BaseException] | None = getattr(error, "exceptions", None) if is_group(error) else None
    if inner is None:
        yield error
        return
    for each in inner:
        yield from _leaves(each)


def is_group(error: BaseException) -> bool:
    """Whether it holds several."""
    return isinstance(error, BaseExceptionGroup)
