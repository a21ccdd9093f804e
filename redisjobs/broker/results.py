"""How a job ended, for whoever waits for it: its result, or the outcome that its tombstone leads to."""

from __future__ import annotations

import time
from typing import NamedTuple, cast

import redis.asyncio as async_redis

from redisjobs.broker.client import command
from redisjobs.broker.keys import Keys
from redisjobs.broker.values import Outcome, Result, Word

LOOK_MS = 2_000
"""Between looks whether the job has ended without a result."""


class Standing(NamedTuple):
    """Where `jobs` says that a job stands.

    Args:
        life: how often it was redriven.
        outcome: the stream entry that tells its end; None while it lives, and where nothing is known of it.
    """

    life: int
    outcome: bytes | None


class Results:
    """Waits for results. A job that keeps its result leaves it in a stream of its own.

    What ends without its body, as by a cancel while it waits, leaves none: its tombstone, looked at now and then,
    leads to the outcome. The end of a life before a redrive is not the job's end.

    Args:
        blocking: a client whose socket timeout exceeds the block.
    """

    def __init__(self, redis: async_redis.Redis, blocking: async_redis.Redis, keys: Keys) -> None:
        self._redis = redis
        self._blocking = blocking
        self._keys = keys

    async def wait(self, queue: str, job_id: bytes, timeout: float) -> Result | None:
        """How the job ended; None after `timeout` seconds."""
        stream, ends_at, after = self._keys.result(queue, job_id), time.monotonic() + timeout, b"0-0"
        while True:
            left = min(LOOK_MS, int((ends_at - time.monotonic()) * 1000))
            block = ("BLOCK", left) if left > 0 else ()
            reply = await command(self._blocking, "XREAD", "COUNT", 1, *block, "STREAMS", stream, after)
            stands = _read(await command(self._redis, "HGET", self._keys.key(queue, "jobs"), job_id))
            if reply:
                after, fields = reply[0][1][0]
                if int(fields.get(b"life", 0)) >= stands.life:
                    return Result(fields[b"word"].decode(), fields[b"record"])
            elif stands.outcome is not None and (told := await self._told(queue, job_id, stands.outcome)):
                return told
            if left <= 0:
                return None

    async def _told(self, queue: str, job_id: bytes, position: bytes) -> Result | None:
        """The end that this outcome tells; None where it is none, or has gone, or a result was kept and has gone."""
        entries = await command(self._redis, "XRANGE", self._keys.key(queue, "outcomes"), position, position)
        text = entries[0][1].get(job_id) if entries else None
        if text is None:
            return None
        told = outcome(position, job_id, text, 0)
        return None if told.word in ("done", "suspended") else Result(cast("Word", told.word), told.record)


def _read(record: bytes | None) -> Standing:
    if record is None:
        return Standing(0, None)
    head = record.partition(b"\n")[0].split(b" ")
    if head[0] == b"!":  # ! outcome number start life consumer
        return Standing(int(head[4]), head[1] if head[1] != b"-" else None)
    return Standing(int(head[3]), None)  # entry expiry number life flags …


def outcome(position: bytes, job_id: bytes, text: bytes, now_ms: int) -> Outcome:
    """One outcome, from the text that `finish` wrote, read at this Redis time."""
    end = text.index(b"\n")
    word, life, number, attempts, due, size = text[:end].split(b" ")
    split = end + 1 + int(size)
    delay_s = max(0, int(due) - now_ms) / 1000 if due != b"0" else -1.0 if word == b"suspended" else 0.0
    return Outcome(
        position,
        job_id,
        word.decode(),
        int(life),
        int(number),
        int(attempts),
        delay_s,
        text[end + 1 : split],
        text[split:],
    )
