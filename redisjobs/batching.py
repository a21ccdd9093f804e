"""How the calls of a batch job are gathered, as it is declared."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from redisjobs.base.durations import Duration, positive, whole
from redisjobs.errors import OptionError

MOST_CALLS = 1000
LONGEST_S = 3600.0

Key: TypeAlias = Callable[[Any], Hashable]


@dataclass(frozen=True, slots=True)
class Batching:
    """The options that `@app.batch_job(...)` has beside those of a job.

    Args:
        size: with so many calls a batch runs, 1 to 1000.
        within: so long after its first call it runs with what it has, at most an hour. Seconds or a timedelta.
        key: a plain function of a call's argument; only calls with equal keys come into one batch.
        split: a batch of more than one whose body raises is halved, and each half is run again at once, until single
            calls fail; False: all of its calls fail.

    Raises:
        OptionError: an option out of its range.
    """

    size: int = 100
    within: Duration = 1.0
    key: Key | None = None
    split: bool = True

    def __post_init__(self) -> None:
        whole("size", self.size, most=MOST_CALLS)
        object.__setattr__(self, "within", positive("within", self.within, most=LONGEST_S))
        if self.key is not None and not callable(cast(object, self.key)):
            raise OptionError(
                "key", self.key, "is no function: pass one of a call's argument, lambda order: order.shop"
            )
        if not isinstance(cast(object, self.split), bool):
            raise OptionError("split", self.split, "says neither yes nor no: pass True or False")

    @property
    def within_s(self) -> float:
        """The longest time for which a batch gathers, in seconds."""
        return cast(float, self.within)

    def key_of(self, argument: object) -> Hashable:
        """The key of a call with this argument.

        Raises:
            TypeError: it is none that can be compared: it has no hash.
            Exception: whatever `key` raises.
        """
        if self.key is None:
            return None
        key = self.key(argument)
        hash(key)
        return key
