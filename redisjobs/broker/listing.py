"""The jobs of a queue that wait, run or are due, one after the other, however many there are."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, cast

from redisjobs.base.envelope import Envelope
from redisjobs.broker import limit_lines, share_lines
from redisjobs.broker.client import in_our_words
from redisjobs.broker.keys import Keys
from redisjobs.errors import DecodeError

AT_ONCE = 500
RECORDS_AT_ONCE = 50
"""A record can hold a megabyte of arguments."""


def ids(redis: Any, keys: Keys, queue: str, where: str) -> Generator[list[bytes]]:
    """Job ids in pieces: what waits and runs in the order of its band, what is due by its time, and so what is limited.

    Jobs may move meanwhile: one that stays where it is is told once, one that moves on may be told or not.

    Raises:
        BrokerUnavailable, StoreRefused: Redis cannot be asked.
    """
    with in_our_words("XRANGE"):
        if where in ("due", "limited"):
            for piece in _due(redis, keys.key(queue, "due")):
                limited = limit_lines.known(redis, keys, piece)
                yield [job for job in piece if (job in limited) == (where == "limited")]
        elif where == "behind":
            yield from share_lines.members(redis, keys.key(queue, "behind"))
        else:
            for stream in keys.streams(queue):
                yield from _running(redis, stream) if where == "running" else _waiting(redis, stream)
            if where == "waiting":
                yield from share_lines.members(redis, keys.key(queue, "shares"))


def direct(redis: Any, keys: Keys, queue: str, job_ids: Sequence[bytes]) -> dict[bytes, Envelope]:
    """Those of these jobs that were put there directly, with what travels beside their arguments."""
    found: dict[bytes, Envelope] = {}
    for first in range(0, len(job_ids), RECORDS_AT_ONCE):
        piece = job_ids[first : first + RECORDS_AT_ONCE]
        with in_our_words("HMGET"):
            records = redis.execute_command("HMGET", keys.key(queue, "jobs"), *piece)
        for job_id, record in zip(piece, records, strict=True):
            if record is None or record.startswith(b"!"):
                continue
            head, _, rest = record.partition(b"\n")
            words = head.split(b" ")
            if len(words) == 8 and b"d" in words[4]:
                try:
                    found[job_id] = Envelope.unpack(rest[int(words[7]) :])
                except DecodeError:
                    found[job_id] = Envelope("(unreadable)", "unreadable", b"")
    return found


def _waiting(redis: Any, stream: bytes) -> Generator[list[bytes]]:
    """Entries behind the last one that was delivered."""
    groups = _unless_gone(redis, "XINFO", "GROUPS", stream)
    read = [_map(group).get(b"last-delivered-id", b"0-0") for group in groups if _map(group).get(b"name") == b"workers"]
    last: bytes = read[0] if read else b"0-0"
    while entries := redis.execute_command("XRANGE", stream, b"(" + last, "+", "COUNT", AT_ONCE):
        last = entries[-1][0]
        yield [job for _, fields in entries if (job := _job_of(fields))]


def _running(redis: Any, stream: bytes) -> Generator[list[bytes]]:
    last = b"-"
    while pending := _unless_gone(redis, "XPENDING", stream, "workers", last, "+", AT_ONCE, parse_detail=True):
        entries = [_entry_of(each) for each in pending]
        last = b"(" + entries[-1]
        pipeline = redis.pipeline(transaction=False)
        for entry in entries:
            pipeline.execute_command("XRANGE", stream, entry, entry)
        found = pipeline.execute()
        yield [job for each in found for _, fields in each if (job := _job_of(fields))]


def _due(redis: Any, due: bytes) -> Generator[list[bytes]]:
    """By score, and not by rank: what is taken out meanwhile makes nothing slip past."""
    score, seen = b"-inf", set[bytes]()
    while True:
        count = AT_ONCE + len(seen)
        flat = redis.execute_command("ZRANGEBYSCORE", due, score, "+inf", "WITHSCORES", "LIMIT", 0, count)
        pairs = [(flat[at], flat[at + 1]) for at in range(0, len(flat), 2)] if flat and _is_flat(flat) else flat
        fresh = [job for job, _ in pairs if job not in seen]
        if not fresh:
            return
        yield fresh
        last = pairs[-1][1]
        score = last if isinstance(last, bytes) else repr(last).encode()
        seen = {job for job, each in pairs if each == last}


def _unless_gone(redis: Any, *words: Any, **options: Any) -> list[Any]:
    """What a command on a stream or group answers; nothing where that is not there."""
    pipeline = redis.pipeline(transaction=False)
    pipeline.execute_command(*words, **options)
    (reply,) = pipeline.execute(raise_on_error=False)
    if isinstance(reply, Exception):
        if "no such key" in str(reply) or "NOGROUP" in str(reply):
            return []
        raise reply
    return list(reply)


def _is_flat(reply: Sequence[Any]) -> bool:
    return isinstance(reply[0], bytes)


def _map(reply: Any) -> dict[bytes, Any]:
    if isinstance(reply, dict):
        return cast("dict[bytes, Any]", reply)
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _entry_of(pending: Any) -> bytes:
    return bytes(cast("dict[str, bytes]", pending)["message_id"] if isinstance(pending, dict) else pending[0])


def _job_of(fields: Any) -> bytes | None:
    job = cast("dict[bytes, bytes]", fields).get(b"j") if isinstance(fields, dict) else None
    return job if job is not None and len(job) == 16 else None
