"""How much work Redis holds of each queue, and since when: cheap reads over a sync connection of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redisjobs.broker import limit_lines, share_lines
from redisjobs.broker.client import in_our_words
from redisjobs.broker.looking import Looking
from redisjobs.broker.values import STREAMS

QUEUES_AT_ONCE = 100
_PARTS = 3 * STREAMS + 5


@dataclass(frozen=True, slots=True)
class Depth:
    """One queue in Redis.

    Args:
        ready: jobs that no worker has taken yet. running: in a worker's hand. due: that come at their time.
        limited: that wait for a limit. behind: that wait for another job of their lane.
        ready_s: how long the oldest waits. running_s: how long ago the oldest one in hand joined its stream.
        overdue_s: by how much the first one that is due is late; a worker of the queue moves it.
        unsettled_s: the age of the oldest outcome that is not in Postgres.
    """

    ready: int = 0
    running: int = 0
    due: int = 0
    limited: int = 0
    behind: int = 0
    ready_s: float = 0.0
    running_s: float = 0.0
    overdue_s: float = 0.0
    unsettled_s: float = 0.0


class Depths(Looking):
    """Looks at queues. Each look is a few commands a queue, none of which takes longer where the queue is long.

    Args:
        timeout: seconds for each answer.
    """

    def look(self, queues: Sequence[str]) -> dict[str, Depth]:
        """What Redis holds of these queues.

        Raises:
            BrokerUnavailable, StoreRefused: it does not say.
        """
        found: dict[str, Depth] = {}
        with in_our_words("ZLEXCOUNT"):
            limited = limit_lines.waiting(self._redis, self._keys, queues)
        for first in range(0, max(1, len(queues)), QUEUES_AT_ONCE):  # without a queue Redis is asked for the time
            piece = queues[first : first + QUEUES_AT_ONCE]
            parts = self._ask(piece)
            now_ms, oldest = self._ask_oldest(piece, parts)
            shared = [queue for queue, part in zip(piece, parts, strict=True) if part[-3]]
            with in_our_words("ZRANGE"):
                since = share_lines.oldest(self._redis, self._keys, shared)
            for queue, part, first_ones in zip(piece, parts, oldest, strict=True):
                found[queue] = _depth(part, [since.get(queue), *first_ones], now_ms, limited[queue])
        return found

    def _ask(self, queues: Sequence[str]) -> list[list[Any]]:
        pipeline = self._redis.pipeline(transaction=False)
        for queue in queues:
            for stream in self._keys.streams(queue):
                pipeline.execute_command("XLEN", stream)
                pipeline.execute_command("XINFO", "GROUPS", stream)
                pipeline.execute_command("XPENDING", stream, "workers")
            due = self._keys.key(queue, "due")
            pipeline.execute_command("ZCARD", due)
            pipeline.execute_command("ZRANGE", due, 0, 0, "WITHSCORES")
            for name in ("shares", "behind"):
                pipeline.execute_command("ZCARD", self._keys.key(queue, name))
            pipeline.execute_command("HMGET", self._keys.key(queue, "life"), "settled")
        with in_our_words("XINFO"):
            replies = pipeline.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, Exception) and "no such key" not in str(reply) and "NOGROUP" not in str(reply):
                with in_our_words("XINFO"):
                    raise reply
        return [replies[at : at + _PARTS] for at in range(0, len(replies), _PARTS)]

    def _ask_oldest(self, queues: Sequence[str], parts: Sequence[list[Any]]) -> tuple[float, list[list[float | None]]]:
        """Redis' time in ms, and for each queue when its first unread entries and its first outcome came."""
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.execute_command("TIME")
        for queue, part in zip(queues, parts, strict=True):
            for band, stream in enumerate(self._keys.streams(queue)):
                _ask_first(pipeline, stream, _last_read(part[3 * band + 1]))
            _ask_first(pipeline, self._keys.key(queue, "outcomes"), part[-1][0] or b"0-0")
        with in_our_words("XRANGE"):
            (seconds, micros), *found = pipeline.execute()
        came = [float(each[0][0].split(b"-")[0]) if each else None for each in found]
        width = STREAMS + 1
        return int(seconds) * 1000 + int(micros) / 1000, [came[at : at + width] for at in range(0, len(came), width)]


def _ask_first(pipeline: Any, stream: bytes, after: bytes) -> None:
    pipeline.execute_command("XRANGE", stream, b"(" + after, "+", "COUNT", 1)


def _last_read(reply: Any) -> bytes:
    groups: list[Any] = [] if isinstance(reply, Exception) else reply
    for group in groups:
        told: dict[bytes, Any] = dict(zip(group[::2], group[1::2], strict=True))
        if told[b"name"] == b"workers":
            return bytes(told[b"last-delivered-id"])
    return b"0-0"


def _depth(part: Sequence[Any], first_ones: Sequence[float | None], now_ms: float, limited: int) -> Depth:
    length = pending = 0
    taken: list[float] = []
    for band in range(STREAMS):
        entries, _, summary = part[3 * band : 3 * band + 3]
        length += entries if isinstance(entries, int) else 0
        if not isinstance(summary, Exception) and summary["pending"]:
            pending += summary["pending"]
            taken.append(float(summary["min"].split(b"-")[0]))
    due, first_due, shared, behind, _ = part[3 * STREAMS :]
    *unread, outcome = first_ones
    return Depth(
        ready=max(0, length - pending) + shared,
        running=pending,
        due=max(0, due - limited),
        limited=min(due, limited),
        behind=behind,
        ready_s=_age(min((each for each in unread if each is not None), default=None), now_ms),
        running_s=_age(min(taken, default=None), now_ms),
        overdue_s=_age(float(first_due[0][1]) if first_due else None, now_ms),
        unsettled_s=_age(outcome, now_ms),
    )


def _age(came_ms: float | None, now_ms: float) -> float:
    return 0.0 if came_ms is None else max(0.0, now_ms - came_ms) / 1000
