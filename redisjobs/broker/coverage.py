"""How whole a cluster is: slots that are served, and primaries that somebody could stand in for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from redisjobs.broker.client import in_our_words

ALL = 16_384


@dataclass(frozen=True, slots=True)
class Coverage:
    """What one node knows of the whole.

    Args:
        served: how many slots some node has.
        primaries: how many nodes have slots. alone: those without a replica that is well.
    """

    served: int
    primaries: int
    alone: list[str] = field(default_factory=list[str])


def coverage(redis: Any) -> Coverage:
    """Ask a cluster.

    Raises:
        BrokerUnavailable, StoreRefused: no node answers.
    """
    with in_our_words("CLUSTER SLOTS"):
        told: list[Any] = redis.execute_command("CLUSTER", "SLOTS")
    nodes = {(_text(primary[0]), int(primary[1])): len(replicas) for _, _, primary, *replicas in told}
    alone = [f"{host}:{port}" for (host, port), replicas in nodes.items() if not replicas]
    return Coverage(sum(int(last) - int(first) + 1 for first, last, *_ in told), len(nodes), alone)


def _text(word: object) -> str:
    return word.decode(errors="replace") if isinstance(word, bytes) else str(word)
