"""Which workers are there: each says so every few seconds, in Redis, and what it does."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self, cast

import redis as sync_redis

from redisjobs.base import scripts
from redisjobs.broker.client import in_our_words, run_sync
from redisjobs.broker.keys import NO_QUEUE, Keys

EVERY_S = 5.0
"""How often a worker speaks."""
TTL_MS = 15_000
"""For how long its word counts: three times missed, and it is taken for gone."""
KEEP_MS = 600_000
"""For how long the word of one that fell silent is still shown."""

_PRESENT = scripts.load("present")
_KINDS: dict[str, Any] = {
    "host": str, "pid": int, "state": str, "queues": list, "slots": dict, "running": dict, "oldest_s": int | float,
    "start_lag_s": dict, "processed": int, "failed": int, "up_s": int | float,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Presence:
    """What a worker says of itself. Everything but its name may be at its default: another release wrote it.

    Args:
        state: running, quiet or draining.
        queues: names and globs, as it was told to serve them.
        slots: of each queue that it serves now. running: bodies that run in each; 0 is left out.
        oldest_s: how long the oldest of them has been running.
        start_lag_s: seconds from the commit, or the due time, to the start: of each queue, the median of a few jobs
            that it started last.
        processed: attempts that ended since it began. failed: those that did not succeed.
        up_s: since it began.
        seen_s: how long ago it spoke, by Redis' clock.
    """

    worker_id: str
    host: str = ""
    pid: int = 0
    state: str = ""
    queues: Sequence[str] = ()
    slots: dict[str, int] = field(default_factory=dict[str, int])
    running: dict[str, int] = field(default_factory=dict[str, int])
    oldest_s: float | None = None
    start_lag_s: dict[str, float] = field(default_factory=dict[str, float])
    processed: int = 0
    failed: int = 0
    up_s: float = 0.0
    seen_s: float = 0.0

    @property
    def is_there(self) -> bool:
        """Whether it spoke within the last seconds; one that leaves says so, and is listed no more."""
        return self.seen_s < TTL_MS / 1000

    def is_meant_for(self, queue: str) -> bool:
        """Whether it was told to serve this queue."""
        return any(fnmatch.fnmatchcase(queue, each) for each in self.queues)

    def serves(self, queue: str) -> bool:
        """Whether it is there and takes jobs of this queue."""
        return self.is_there and self.state not in ("draining", "quiet") and self.is_meant_for(queue)

    def pack(self) -> bytes:
        """Its word as it stands in Redis."""
        told = asdict(self)
        del told["seen_s"], told["worker_id"]
        return json.dumps(told, separators=(",", ":")).encode()

    @classmethod
    def unpack(cls, worker_id: str, word: bytes, seen_s: float) -> Self:
        """What a worker said; whatever cannot be read is left out."""
        try:
            told: Any = json.loads(word)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            return cls(worker_id, seen_s=seen_s)
        said = cast("dict[str, Any]", told)
        fitting = {key: said[key] for key, kind in _KINDS.items() if isinstance(said.get(key), kind)}
        return cls(worker_id, **fitting, seen_s=seen_s)


def tell(redis: sync_redis.Redis, keys: Keys, worker_id: str, word: bytes) -> None:
    """Say that a worker is there; an empty word: it goes.

    Raises:
        BrokerUnavailable, StoreRefused: it was not heard.
    """
    run_sync(redis, _PRESENT, keys.of(NO_QUEUE, _PRESENT), [worker_id, TTL_MS if word else 0, KEEP_MS, word])


def look(redis: Any, keys: Keys) -> list[Presence]:
    """The workers that are there, and those that fell silent of late; by name, in two round trips.

    Raises:
        BrokerUnavailable, StoreRefused: Redis cannot be asked.
    """
    with in_our_words("ZRANGE"):
        pipeline = redis.pipeline(transaction=False)
        pipeline.execute_command("TIME")
        pipeline.execute_command("ZRANGE", keys.key(NO_QUEUE, "seen"), 0, -1, "WITHSCORES")
        (seconds, micros), listed = pipeline.execute()
        now_ms = int(seconds) * 1000 + int(micros) / 1000
        until = {name: float(score) for name, score in _pairs(listed)}
        if not until:
            return []
        words = redis.execute_command("HMGET", keys.key(NO_QUEUE, "workers"), *until)
    found = [
        Presence.unpack(name.decode(errors="replace"), word, max(0.0, (now_ms - last + TTL_MS) / 1000))
        for (name, last), word in zip(until.items(), words, strict=True)
        if word is not None
    ]
    return sorted(found, key=lambda each: each.worker_id)


def _pairs(listed: Sequence[Any]) -> list[tuple[bytes, Any]]:
    """Members with their scores; raw replies have them in turn, those that the client has parsed do not."""
    if listed and isinstance(listed[0], bytes):
        return list(zip(listed[::2], listed[1::2], strict=True))
    return [(name, score) for name, score in listed]
