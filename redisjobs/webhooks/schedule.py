"""How long a delivery waits for its next attempt: a ladder over three days, or what the receiver asked for."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from redisjobs.base.durations import Duration, seconds
from redisjobs.errors import OptionError

LADDER_S = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""That of Standard Webhooks: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h; 75 hours and 35 minutes in all."""
ATTEMPTS = len(LADDER_S) + 1
JITTER = 0.1


def over_days(
    delays: Sequence[Duration] = LADDER_S, *, jitter: float = JITTER, random: Callable[[], float] = random.random
) -> Callable[[int, BaseException], float]:
    """A retry rule: these waits, the last one again and again, each made longer or shorter by chance.

    Args:
        delays: before the second attempt, the third, ….
        jitter: by which share of itself a wait may differ, 0 to 1: what failed together shall not return together.
        random: answers a number from 0 up to 1.

    Raises:
        OptionError: no delays, or one of the values is out of its range.
    """
    if not delays:
        raise OptionError("delays", delays, "has none: pass one wait at least")
    waits = [seconds(f"delays[{at}]", each) for at, each in enumerate(delays)]
    spread = _share(jitter)

    def wait(attempt: int, error: BaseException) -> float:
        del error  # what the receiver asked for travels with the error, and goes before any rule
        return waits[min(max(attempt, 1), len(waits)) - 1] * (1 + spread * (2 * random() - 1))

    return wait


def _share(jitter: object) -> float:
    if isinstance(jitter, bool) or not isinstance(jitter, (int, float)) or not 0 <= jitter <= 1:
        raise OptionError("jitter", jitter, "is no share: pass a number from 0 to 1, such as 0.1")
    return float(jitter)
