"""How many jobs have come into a queue's streams and gone out of them, ever: the difference of two looks is a rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from redisjobs.broker.client import in_our_words
from redisjobs.broker.looking import Looking
from redisjobs.broker.presence import Presence, look
from redisjobs.broker.values import STREAMS

QUEUES_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Flow:
    """One queue's streams since Redis got its data.

    Args:
        came: entries ever added: published jobs, and those that came back after a retry or when they were due.
        went: entries that are gone again: attempts that ended.
    """

    came: int
    went: int


class Flows(Looking):
    """Looks at the streams of queues, and at the workers.

    Args:
        timeout: seconds for each answer.
    """

    def queues(self) -> set[str]:
        """The names of the queues that Redis has seen."""
        with in_our_words("SMEMBERS"):
            return {name.decode() for name in self._redis.execute_command("SMEMBERS", self._keys.queues)}

    def workers(self) -> list[Presence]:
        """The workers that are there, and those that fell silent within the last minutes."""
        return look(self._redis, self._keys)

    def look(self, queues: Sequence[str]) -> dict[str, Flow]:
        """What came and went; a Redis before 7 does not count, and its queues are left out.

        Raises:
            BrokerUnavailable, StoreRefused: it does not say.
        """
        found: dict[str, Flow] = {}
        for first in range(0, len(queues), QUEUES_AT_ONCE):
            piece = queues[first : first + QUEUES_AT_ONCE]
            pipeline = self._redis.pipeline(transaction=False)
            for queue in piece:
                for stream in self._keys.streams(queue):
                    pipeline.execute_command("XINFO", "STREAM", stream)
            with in_our_words("XINFO"):
                replies = pipeline.execute(raise_on_error=False)
            for at, queue in enumerate(piece):
                told = [_map(reply) for reply in replies[at * STREAMS : (at + 1) * STREAMS] if not _is_gone(reply)]
                if all(b"entries-added" in each for each in told):
                    came = sum(int(each[b"entries-added"]) for each in told)
                    found[queue] = Flow(came, came - sum(int(each[b"length"]) for each in told))
        return found


def _is_gone(reply: Any) -> bool:
    if not isinstance(reply, Exception):
        return False
    if "no such key" in str(reply):
        return True
    with in_our_words("XINFO"):
        raise reply


def _map(reply: Any) -> dict[bytes, Any]:
    if isinstance(reply, dict):
        return cast("dict[bytes, Any]", reply)
    return dict(zip(reply[::2], reply[1::2], strict=True))
