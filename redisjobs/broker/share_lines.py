"""The shares of a queue: who waits in them since when, and what is set for them; only reads."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from redisjobs.broker.hashes import whole_hash
from redisjobs.broker.keys import Keys

MOST_SHARES = 100
"""The oldest is looked for in so many shares of a queue, those whose turn comes first."""
AT_ONCE = 500
MOST_TOLD = 1_000
"""Shares that are told of, of those in the ring."""


@dataclass(frozen=True, slots=True)
class ShareLine:
    """A share of a queue.

    Args:
        waiting: jobs that stand in it. weight, paused: as Redis has been told.
    """

    share: str
    waiting: int = 0
    weight: float = 1.0
    paused: bool = False


def look(redis: Any, keys: Keys, queue: str) -> list[ShareLine]:
    """The shares in which jobs wait or for which something is set, by name; in three round trips."""
    told = whole_hash(redis, keys.key(queue, "life"))
    rules = {field[6:]: rule.split(b" ") for field, rule in told.items() if field.startswith(b"share:")}
    turns = redis.execute_command("ZRANGE", keys.key(queue, "ring"), 0, MOST_TOLD - 1)
    wanted = sorted(share for share in {*rules, *(turn[1:] for turn in turns)} if share)
    pipeline = redis.pipeline(transaction=False)
    for share in wanted:
        pipeline.execute_command("ZLEXCOUNT", keys.key(queue, "shares"), b"[" + share + b"\0", b"(" + share + b"\1")
    lines: list[ShareLine] = []
    for share, waiting in zip(wanted, pipeline.execute() if wanted else [], strict=True):
        weight, *state = rules.get(share, [b"1"])
        if waiting or share in rules:
            lines.append(ShareLine(share.decode(errors="replace"), waiting, float(weight), state == [b"paused"]))
    return lines


def oldest(redis: Any, keys: Keys, queues: Sequence[str]) -> dict[str, float]:
    """Of queues with jobs in shares: when the first of them came, in ms of Redis time; in two round trips."""
    pipeline = redis.pipeline(transaction=False)
    for queue in queues:
        pipeline.execute_command("ZRANGE", keys.key(queue, "ring"), 0, MOST_SHARES - 1)
    rings: list[list[bytes]] = pipeline.execute() if queues else []
    asked = [(queue, turn) for queue, ring in zip(queues, rings, strict=True) for turn in ring]
    pipeline = redis.pipeline(transaction=False)
    for queue, turn in asked:
        start = turn[1:] + b"\0" + turn[:1]
        pipeline.execute_command(
            "ZRANGE", keys.key(queue, "shares"), b"[" + start, b"(" + start + b":", "BYLEX", "LIMIT", 0, 1
        )
    firsts: list[list[bytes]] = pipeline.execute() if asked else []
    found: dict[str, float] = {}
    for (queue, _), first in zip(asked, firsts, strict=True):
        micros = int(first[0][-32:-16]) if first else 0
        if micros:  # one that was put back has lost its time
            found[queue] = min(found.get(queue, float("inf")), micros / 1000)
    return found


def members(redis: Any, key: bytes) -> Generator[list[bytes]]:
    """The ids at the ends of the members of a sorted set without scores, in pieces."""
    at = b"-"
    while found := redis.execute_command("ZRANGE", key, at, "+", "BYLEX", "LIMIT", 0, AT_ONCE):
        at = b"(" + found[-1]
        yield [member[-16:] for member in found]
