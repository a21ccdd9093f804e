"""Which jobs of a queue wait for a limit: `due` has them too, for a late time at which they would ask by themselves."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from redisjobs.broker.keys import NO_QUEUE, Keys

MOST_LINES = 5_000
"""Jobs are counted in so many lines; a line is that of one limit key and one queue."""


def waiting(redis: Any, keys: Keys, queues: Collection[str]) -> dict[str, int]:
    """How many jobs of each queue stand in lines, in two round trips however long these are."""
    found = dict.fromkeys(queues, 0)
    pipeline = redis.pipeline(transaction=False)
    for name in ("heads", "idle"):
        pipeline.execute_command("ZRANGE", keys.key(NO_QUEUE, name), 0, MOST_LINES - 1)
    heads, idle = pipeline.execute()
    lines = {part for part in (*map(_of_head, heads), *map(_of_idle, idle)) if part[1].decode() in found}
    if not lines:
        return found
    pipeline = redis.pipeline(transaction=False)
    for key, queue in lines:
        start = key + b"\n" + queue
        pipeline.execute_command("ZLEXCOUNT", keys.key(NO_QUEUE, "line"), b"[" + start + b"\n", b"(" + start + b"\x0b")
    for (_, queue), count in zip(lines, pipeline.execute(), strict=True):
        found[queue.decode()] += int(count)
    return found


def known(redis: Any, keys: Keys, job_ids: Sequence[bytes]) -> set[bytes]:
    """Those of these jobs that the limiter has in a line, or keeps something for."""
    pipeline = redis.pipeline(transaction=False)
    for name in ("tickets", "held"):
        pipeline.execute_command("HMGET", keys.key(NO_QUEUE, name), *job_ids)
    tickets, permits = pipeline.execute()
    return {
        job_id
        for job_id, ticket, permit in zip(job_ids, tickets, permits, strict=True)
        if ticket is not None or (permit is not None and permit.startswith(b"r "))
    }


def _of_head(member: bytes) -> tuple[bytes, bytes]:
    """Limit key and queue of `key LF seq LF queue LF id`."""
    key, _, rest = member[:-17].partition(b"\n")
    return key, rest.partition(b"\n")[2]


def _of_idle(member: bytes) -> tuple[bytes, bytes]:
    """The same of `queue LF key`."""
    queue, _, key = member.partition(b"\n")
    return key, queue
