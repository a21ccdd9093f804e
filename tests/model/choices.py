"""The only source of chance: a run is a list of choices, and choice 0 is always the quiet one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence


class Choices:
    """From a seed, or from a script, beyond whose end all is quiet. `made` replays the run."""

    def __init__(self, seed: int | None = None, script: Sequence[int] | None = None) -> None:
        self._random, self._script = random.Random(seed).random, script
        self.made: list[int] = []

    def below(self, n: int) -> int:
        at = len(self.made)
        if self._script is None:
            value = int(self._random() * n)
        else:
            value = self._script[at] % n if at < len(self._script) else 0
        self.made.append(value)
        return value

    def chance(self, probability: float) -> bool:
        return self.below(1000) >= 1000 - 1000 * probability


def shrink(made: Sequence[int], cost: Callable[[list[int]], int | None], budget: int = 1500) -> list[int]:
    """A shorter script for the same failure, by deleting and zeroing choices.

    Args:
        cost: of a script, the less the better; None: it does not fail in the same way.
    """
    best, score, size = list(made), cost(list(made)), max(1, len(made) // 2)
    while size and budget > 0 and score is not None:
        at, improved = 0, False
        while at < len(best) and budget > 0:
            piece = best[at : at + size]
            for candidate in (best[:at] + best[at + size :], best[:at] + [0] * len(piece) + best[at + size :]):
                budget -= 1
                value = cost(candidate) if candidate != best else None
                if value is not None and (value < score or (value == score and len(candidate) < len(best))):
                    best, score, improved = candidate, value, True
                    break
            else:
                at += size
        size = size if improved and size <= 4 else size // 2
    return best
