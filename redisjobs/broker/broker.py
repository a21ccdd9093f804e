"""Redis as producers and workers see it: every script is safe to repeat with the same arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Self

import redis.asyncio as async_redis

from redisjobs import progress
from redisjobs.base import scripts
from redisjobs.broker.client import COMMAND_TIMEOUT_S, command, connect, run
from redisjobs.broker.keys import Keys
from redisjobs.broker.results import Results
from redisjobs.broker.slots import Argument
from redisjobs.broker.values import Answer, Delivery, Entry, Finish, Promoted, Publication, Result, Taken
from redisjobs.errors import StoreRefused
from redisjobs.progress import Progress

_ENQUEUE = scripts.load("enqueue")
_TAKE = scripts.load("take")
_BEGIN = scripts.load("begin")
_RECALL = scripts.load("recall")
_RECLAIM = scripts.load("reclaim")
_PROMOTE = scripts.load("promote")
_BURY = scripts.load("bury")
_OVERTAKE = scripts.load("overtake")
_FINISH = scripts.load("finish")
_LEAVE = scripts.load("leave")
_HOLDER = scripts.load("holder")
_WAKE = scripts.load("wake")

GRACE_MS = 60_000
"""For how long a tombstone stays once its outcome is in Postgres."""
MOST_AT_ONCE = 500
"""Jobs in one call of a script."""
MOST_HELD = 20_000
"""Deliveries of one worker in one band that a recall answers with."""
LONGEST_BLOCK_MS = 5_000
CALLS_AT_ONCE = 100
"""A worker of thousands of queues makes its calls in turn, and not by more connections than there can be."""
WAITS_AT_ONCE = 1_900
"""Likewise with reads that wait, each of which occupies a connection."""


class Broker:
    """The queues in Redis, for one process and one event loop.

    Nothing is repeated inside: a `BrokerUnavailable` leaves it open whether the call took place. Every
    script may be repeated with the same arguments; after a `take`, `begin`, `reclaim` or `wait` with an unknown
    end ask `recall` for what has become yours meanwhile.

    Args:
        redis: a client without retries, as `connect` makes it.
        blocking: another one for blocking reads, whose socket timeout exceeds the longest block.
        prefix: what every key begins with.
    """

    def __init__(self, redis: async_redis.Redis, blocking: async_redis.Redis, prefix: str = "rj") -> None:
        self.redis = redis
        self.keys = Keys(prefix)
        self._blocking = blocking
        self._calls, self._waits = asyncio.Semaphore(CALLS_AT_ONCE), asyncio.Semaphore(WAITS_AT_ONCE)

    @classmethod
    def connect(cls, url: str, prefix: str = "rj", password: str | None = None) -> Self:
        """A broker on this URL; connections open with the first call.

        Raises:
            ConfigurationError: the URL cannot be read.
        """
        longest = LONGEST_BLOCK_MS / 1000 + COMMAND_TIMEOUT_S
        return cls(connect(url, password=password), connect(url, timeout=longest, password=password), prefix)

    async def close(self) -> None:
        """Give the connections back."""
        await self.redis.aclose()
        await self._blocking.aclose()

    async def ping(self) -> None:
        """Raises BrokerUnavailable or StoreRefused where Redis cannot be used."""
        await command(self.redis, "PING")

    # -- producers
    async def enqueue_direct(self, queue: str, jobs: Sequence[Publication]) -> list[tuple[str, bytes | None]]:
        """Put jobs straight into Redis: new, repeat, or dup or kept with the owner of the key, for each."""
        words: list[tuple[str, bytes | None]] = []
        for first in range(0, len(jobs), MOST_AT_ONCE):
            piece = jobs[first : first + MOST_AT_ONCE]
            arguments = [value for job in piece for value in job.arguments()]
            reply = await self._run(_ENQUEUE, queue, len(piece), *arguments)
            words += placed(reply, len(piece))
        await command(self.redis, "SADD", self.keys.queues, queue)
        return words

    async def holder(self, queue: str, key: str) -> bytes | None:
        """The id of the job that holds an idempotency key now, or in its window."""
        found: bytes = await self._run(_HOLDER, queue, key)
        return found or None

    async def wait_result(self, queue: str, job_id: bytes, timeout: float) -> Result | None:
        """How a job ended, waited for without polling hard; None after `timeout` seconds."""
        return await Results(self.redis, self._blocking, self.keys).wait(queue, job_id, timeout)

    async def progress(self, queue: str, job_id: bytes) -> Progress | None:
        """What a live job last reported of itself; None: nothing, or it has ended."""
        return progress.read(await command(self.redis, "HGET", self.keys.key(queue, "runs"), job_id) or b"")

    async def queues(self) -> set[str]:
        """The names of the queues that Redis has seen."""
        return {name.decode() for name in await command(self.redis, "SMEMBERS", self.keys.queues)}

    # -- workers
    async def take(self, queue: str, consumer: str, count: int, *, lease_ms: int, low_first: bool = False) -> Taken:
        """Read at most `count` waiting jobs and begin them; does not wait."""
        order = "3210" if low_first else "3012"
        return taken(queue, await self._run(_TAKE, queue, consumer, lease_ms, min(count, MOST_AT_ONCE), order))

    async def wait(self, queue: str, consumer: str, block_ms: int) -> list[Entry]:
        """Wait for an entry: one, or where several bands got one at once, one of each. Hand them to `begin`."""
        streams = self.keys.streams(queue)
        try:
            async with self._waits:
                reply = await command(
                    self._blocking, "XREADGROUP", "GROUP", "workers", consumer, "COUNT", 1,
                    "BLOCK", min(block_ms, LONGEST_BLOCK_MS), "STREAMS", *streams, *[">"] * len(streams),
                )  # fmt: skip
        except StoreRefused as error:
            if "NOGROUP" in str(error):  # the first time, or Redis was emptied: `take` makes the groups again
                return []
            raise
        return [
            Entry(streams.index(stream), entry, fields.get(b"j", b"") if fields else b"")
            for stream, entries in reply or ()
            for entry, fields in entries  # one without a job is foreign: `begin` drops it
        ]

    async def begin(
        self, queue: str, consumer: str, entries: Sequence[Entry], *, lease_ms: int, room: int | None = None
    ) -> Taken:
        """Begin entries just waited for, at most `room` of them; the others go back to their streams."""
        flat: list[Argument] = [value for each in entries for value in (each.band, each.entry, each.job_id)]
        most = len(entries) if room is None else room
        return taken(queue, await self._run(_BEGIN, queue, consumer, lease_ms, most, *flat))

    async def recall(self, queue: str, consumer: str, *, lease_ms: int) -> list[Delivery]:
        """Everything that is this consumer's, under the same tokens as before: held, or never heard of."""
        return taken(queue, await self._run(_RECALL, queue, consumer, lease_ms, MOST_HELD)).deliveries

    async def reclaim(self, queue: str, consumer: str, count: int, *, lease_ms: int, max_losses: int) -> list[Delivery]:
        """At most `count` deliveries whose lease has ended. The loss counts; `max_losses` of them are a dead letter."""
        reply = await self._run(_RECLAIM, queue, consumer, lease_ms, min(count, MOST_AT_ONCE), max_losses)
        return taken(queue, reply).deliveries

    async def promote(self, queue: str, limit: int = 1000) -> Promoted:
        """Move at most `limit` due jobs to their streams, and bury old tombstones."""
        moved, wait, graves, waiting, *cancelled = await self._run(_PROMOTE, queue, limit, GRACE_MS)
        while graves > 0:
            graves = (await self._run(_BURY, queue, 50, GRACE_MS)) - 49
        return Promoted(moved, None if wait < 0 else wait, cancelled, max(0, waiting))

    async def overtake(self, consumer: str, delivery: Delivery, fence: tuple[int, int]) -> tuple[int, int] | None:
        """A token (number, start) above this one, for a delivery of this consumer; its old token is worth nothing then.

        Answers None where Redis does not know the consumer as its holder under the delivery's token.
        """
        held, (number, above) = delivery, fence
        reply = await self._run(
            _OVERTAKE, held.queue, consumer, held.job_id, held.entry, held.start, number, above
        )  # fmt: skip
        return (reply[1], reply[2]) if reply[0] == b"ok" else None

    async def finish(self, queue: str, consumer: str, finishes: Sequence[Finish]) -> list[Answer]:
        """End attempts: a word each: ok, repeat (accepted before), lost (another's by now) or gone (nothing known)."""
        answers: list[Answer] = []
        for first in range(0, len(finishes), MOST_AT_ONCE):
            answers += await self._finish(queue, consumer, finishes[first : first + MOST_AT_ONCE])
        return answers

    async def _finish(self, queue: str, consumer: str, finishes: Sequence[Finish]) -> list[Answer]:
        keys, arguments = self.keys.of(queue, _FINISH), [consumer]
        results: list[bytes] = []
        add: Any = arguments.extend
        for each in finishes:
            kept = ""
            if each.keep_ms > 0:
                results.append(self.keys.result(queue, each.delivery.job_id))
                kept = f"{len(results)} {each.keep_ms}"
            held = each.delivery
            word = "retry skip" if each.skips and each.word == "retry" else each.word
            add((held.job_id, held.entry, held.start, word, each.delay_ms, int(each.counted), each.record, kept))
        async with self._calls:
            reply = await run(self.redis, _FINISH, [*keys, *results], arguments)
        answers: list[Answer] = ["ok"] * len(finishes)
        for at in range(0, len(reply), 2):
            answers[reply[at]] = reply[at + 1].decode()
        return answers

    async def wake(self, queue: str, jobs: Sequence[tuple[bytes, int]]) -> list[str]:
        """Bring jobs that wait for a limit, each with its ms until then (0: now), to the front: a word each.

        woken; held: as soon as its worker gives it back; ready: it stands in a stream; gone: it does not wait.
        """
        words: list[str] = []
        for first in range(0, len(jobs), MOST_AT_ONCE):
            piece = jobs[first : first + MOST_AT_ONCE]
            flat: list[Argument] = [value for each in piece for value in each]
            words += [word.decode() for word in await self._run(_WAKE, queue, len(piece), *flat)]
        return words

    async def mark_dirty(self, queues: Sequence[str]) -> None:
        """Tell the relay that these queues have outcomes waiting."""
        if queues:
            async with self._calls:
                await command(self.redis, "SADD", self.keys.dirty, *queues)

    async def leave(self, queue: str, consumer: str) -> int:
        """Go from the queue's groups; answers how many entries are still held, and stays while that is not 0."""
        return int(await self._run(_LEAVE, queue, consumer))

    async def _run(self, script: scripts.Script, queue: str, *arguments: Argument) -> Any:
        async with self._calls:
            return await run(self.redis, script, self.keys.of(queue, script), arguments)


def taken(queue: str, reply: list[Any]) -> Taken:
    """The deliveries in a reply of eight values each, behind its first word."""
    if reply[0] == b"paused":
        return Taken(paused=True)
    deliveries: list[Delivery] = []
    for at in range(1, len(reply), 8):
        entry, job_id, band, record, start, attempts, losses, expired = reply[at : at + 8]
        end = record.index(b"\n")
        _, _, number, life, flags, _, _, size = record[:end].split(b" ")
        deliveries.append(
            Delivery(
                queue, band, job_id, entry, start, int(number), int(life), attempts, losses,
                b"c" in flags, expired == 1, b"d" in flags, record[end + 1 + int(size) :],
            )
        )  # fmt: skip
    return Taken(deliveries)


def placed(reply: list[Any], count: int) -> list[tuple[str, bytes | None]]:
    """A word for each of `count` jobs, from a reply that names only what is not simply new.

    Raises:
        StoreRefused: the script could not read its arguments.
    """
    if reply[0] != b"ok":
        raise StoreRefused(f"the arguments of enqueue were refused: {reply[0].decode()}")
    words: list[tuple[str, bytes | None]] = [("new", None)] * count
    for at in range(1, len(reply), 3):
        words[reply[at]] = (reply[at + 1].decode(), reply[at + 2] or None)
    return words
