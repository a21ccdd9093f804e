"""How a batch that failed is split until whoever is to blame stands alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

MOST_FAILED = 4
"""Where more groups of one size fail, it is not a few of the items that fail but what all of them need."""


def halves(failed: Sequence[Sequence[T]]) -> list[Sequence[T]]:
    """The groups to run next, after these of one size have failed; none: each is to fail as it is.

    A group of one is counted, and not split. Up to `MOST_FAILED` culprits are found, at two runs each for every time
    the batch can be halved; where everything fails, no more than 15 runs show it, whatever the size.
    """
    if len(failed) > MOST_FAILED:
        return []
    found: list[Sequence[T]] = []
    for group in failed:
        middle = (len(group) + 1) // 2
        if middle < len(group):
            found += [group[:middle], group[middle:]]
    return found
