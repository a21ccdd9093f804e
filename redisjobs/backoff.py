"""How long a failed job waits before its next attempt."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, cast

from redisjobs.base.durations import Duration, seconds
from redisjobs.errors import OptionError

logger = logging.getLogger("redisjobs.retry")


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that grow: `base`, `base * factor`, … up to `cap`, each by its jitter made shorter at random.

    Args:
        base: seconds or a timedelta before the second attempt.
        cap: no wait is longer.
        factor: by how much each wait is longer than the one before.
        jitter: full: anything from 0 to the wait, so that what failed together does not return together.
    """

    base: float | timedelta = 1.0
    cap: float | timedelta = 3600.0
    factor: float = 2.0
    jitter: Literal["full", "none"] = "full"

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", seconds("base", self.base))
        object.__setattr__(self, "cap", seconds("cap", self.cap))
        object.__setattr__(self, "factor", seconds("factor", self.factor, least=1.0, most=1e6))
        if self.jitter not in ("full", "none"):
            raise OptionError("jitter", self.jitter, "is unknown: pass 'full' or 'none'")

    def delay(self, attempt: int, random: Callable[[], float] = random.random) -> float:
        """Seconds to wait after this attempt (from 1); defined for any number of attempts.

        Args:
            random: answers a number from 0 up to 1.
        """
        wait = self._longest(attempt)
        return wait * random() if self.jitter == "full" else wait

    def _longest(self, attempt: int) -> float:
        base, cap = cast(float, self.base), cast(float, self.cap)
        if base == 0 or base >= cap:
            return min(base, cap)
        # Compared as logarithms: the power itself is beyond a float at some hundred attempts.
        if (attempt - 1) * math.log(self.factor) >= math.log(cap / base):
            return cap
        return min(cap, base * self.factor ** max(0, attempt - 1))


Rule = Callable[[int, BaseException], float | timedelta]
RetryRule = Backoff | Sequence[Duration] | Rule

DEFAULT = Backoff()


def check_retry(retry: object) -> Backoff | tuple[float, ...] | Rule:
    """The retry rule of a declaration, with a list's delays in seconds.

    Raises:
        OptionError: it is neither a Backoff nor a list of delays nor a callable.
    """
    given = retry
    if isinstance(retry, Backoff):
        return retry
    if callable(retry):
        return cast(Rule, retry)
    if isinstance(retry, (list, tuple)) and retry:
        delays = cast(Sequence[object], retry)
        return tuple(seconds(f"retry[{index}]", delay) for index, delay in enumerate(delays))
    raise OptionError("retry", given, "is no rule: pass a Backoff, a list of delays, or f(attempt, error) -> seconds")


def delay_after(retry: Backoff | tuple[float, ...] | Rule, attempt: int, error: BaseException) -> float:
    """Seconds to wait after this attempt (from 1). The last delay of a list repeats.

    Never raises: a rule of the user's that fails or answers nonsense is logged, and the default backoff used.
    """
    if isinstance(retry, Backoff):
        return retry.delay(attempt)
    if not callable(retry):
        return retry[min(max(attempt, 1), len(retry)) - 1]
    try:
        return seconds("the delay of the retry rule", retry(attempt, error))
    except Exception as failure:  # noqa: BLE001  # the user's own code
        logger.warning("retry rule failed, the default backoff is used: %s", type(failure).__name__)
        return DEFAULT.delay(attempt)
