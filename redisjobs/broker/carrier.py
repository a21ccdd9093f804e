"""Redis as the relay sees it: fenced by its token for the queue and by the life of Redis that it believes in."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import redis.asyncio as async_redis

from redisjobs.base import scripts
from redisjobs.broker.broker import placed
from redisjobs.broker.client import command, in_our_words, is_cluster, on_each_node, run, together
from redisjobs.broker.infos import one_info
from redisjobs.broker.keys import Keys
from redisjobs.broker.results import outcome
from redisjobs.broker.slots import Argument
from redisjobs.broker.values import Life, Mark, Move, Outcome, Publication, ShareRule
from redisjobs.errors import RedisjobsError, StoreRefused
from redisjobs.logs import event

log = logging.getLogger("redisjobs.relay")

_OUTCOME = re.compile(rb"[a-z]+ \d+ \d+ \d+ \d+ \d+\n")

_OPEN = scripts.load("open")
_ADOPT = scripts.load("adopt")
_PUBLISH = scripts.load("publish")
_SETTLED = scripts.load("settled")
_CANCEL = scripts.load("cancel")
_MOVE = scripts.load("move")
_AUDIT = scripts.load("audit")
_FORGET = scripts.load("forget")
_FREE = scripts.load("free")
_VACATE = scripts.load("vacate")


class Stale(RedisjobsError):
    """A younger relay holds the queue: stop working on it at once.

    Args:
        fence: the highest token that Redis has seen, where it told; 0: it did not.
    """

    def __init__(self, message: str, fence: int = 0) -> None:
        super().__init__(message)
        self.fence = fence


class OtherLife(RedisjobsError):
    """Redis lost its data since: recover the queue before anything else."""


@dataclass(frozen=True, slots=True)
class Fence:
    """What a relay shows with every call: its token, and the epoch of the Redis life that it knows."""

    queue: str
    token: int
    epoch: str


class Carrier:
    """The relay's calls. Stale or OtherLife are raised as the fence says, BrokerUnavailable for an unknown end."""

    def __init__(self, redis: async_redis.Redis, prefix: str = "rj") -> None:
        self.redis = redis
        self.keys = Keys(prefix)

    async def open(self, queue: str, token: int, *, paused: bool, shares: Sequence[ShareRule] = ()) -> Life:
        """Set the queue's fence to this token; the first act of every new holder.

        Args:
            paused: its jobs must not start. shares: what operators have set for shares; others have weight 1.

        Raises:
            Stale: a higher token has been there.
        """
        rules: list[Argument] = [
            value for each in shares for value in (each.share, f"{each.weight:g}", int(each.paused))
        ]
        word, *rest = await self._run(_OPEN, queue, token, int(paused), *rules)
        if word == b"stale":
            fence = int(rest[0])
            raise Stale(f"queue {queue}: token {token} is below the fence {fence}", fence)
        return Life(rest[0].decode(), rest[1])

    async def adopt(self, fence: Fence, keys: Iterable[tuple[bytes, bytes, int]]) -> None:
        """Name this life of Redis, and restore keys: key, job id, ms left of the window, or -1 until the job ends.

        Where ms is -2, the key is a lane that this job has until it ends.
        """
        flat: list[Argument] = [value for each in keys for value in each]
        self._check(fence, await self._run(_ADOPT, fence.queue, fence.token, fence.epoch, *flat))

    async def publish(self, fence: Fence, jobs: Sequence[Publication]) -> list[tuple[str, bytes | None]]:
        """Put jobs where they wait or are due: new, repeat, or dup or kept with the owner of the key; or replaces.

        `replaces`: it is placed, and the job that had its key is to be cancelled.
        """
        flat: list[Argument] = [value for job in jobs for value in job.arguments()]
        reply = await self._run(_PUBLISH, fence.queue, fence.token, fence.epoch, *flat)
        self._check(fence, reply[0])
        return placed(reply, len(jobs))

    async def outcomes(self, queue: str, after: bytes, count: int) -> list[Outcome]:
        """The outcomes behind a position, in their order, from at most `count` entries."""
        stream = self.keys.key(queue, "outcomes")
        while entries := await command(self.redis, "XRANGE", stream, b"(" + after, "+", "COUNT", count):
            seconds, micros = await command(self.redis, "TIME")
            now_ms = int(seconds) * 1000 + int(micros) // 1000
            read = [
                outcome(position, job_id, text, now_ms)
                for position, fields in entries
                for job_id, text in fields.items()
                if len(job_id) == 16 and _OUTCOME.match(text)
            ]
            ours = {each.position for each in read}
            foreign = [position for position, _ in entries if position not in ours]
            if foreign:  # no script wrote them, and nobody else would ever remove them
                event(log, logging.WARNING, "outcomes.foreign", queue=queue, entries=foreign)
                await command(self.redis, "XDEL", stream, *foreign)
            if read:
                return read
        return []

    async def settled(self, fence: Fence, positions: Sequence[bytes]) -> None:
        """These outcomes are in Postgres; the next read begins behind the last of them."""
        self._check(fence, await self._run(_SETTLED, fence.queue, fence.token, fence.epoch, *positions))

    async def cancel(self, fence: Fence, jobs: Sequence[tuple[bytes, int, int]]) -> list[str]:
        """End waiting jobs, flag running ones: ended, running, over or unknown.

        Args:
            jobs: id, life, and the publication whose end has settled, of which nothing counts any more.
        """
        flat: list[Argument] = [value for job in jobs for value in job]
        word, *words = await self._run(_CANCEL, fence.queue, fence.token, fence.epoch, *flat)
        self._check(fence, word)
        return [each.decode() for each in words]

    async def move(self, fence: Fence, moves: Sequence[Move]) -> list[str]:
        """Give waiting jobs another band or time: moved, running (left alone), over or unknown."""
        flat: list[Argument] = [value for each in moves for value in each.arguments()]
        word, *words = await self._run(_MOVE, fence.queue, fence.token, fence.epoch, *flat)
        self._check(fence, word)
        return [each.decode() for each in words]

    async def audit(self, fence: Fence, rows: Sequence[tuple[bytes, int, int]]) -> list[bytes]:
        """Which of these published rows, each given as in `cancel`, are not placed in Redis."""
        flat: list[Argument] = [value for row in rows for value in row]
        word, *rest = await self._run(_AUDIT, fence.queue, fence.token, fence.epoch, *flat)
        self._check(fence, word)
        missing: list[bytes] = rest
        return missing

    async def forget(self, fence: Fence, job_ids: Sequence[bytes]) -> int:
        """Jobs that Postgres does not know leave Redis, unless they are held or their outcome is under way."""
        return (await self.clear_owners(fence, job_ids))[0]

    async def clear_owners(self, fence: Fence, job_ids: Sequence[bytes]) -> tuple[int, set[bytes]]:
        """As `forget`; answers how many went, and which are live jobs that never had a row."""
        word, *rest = await self._run(_FORGET, fence.queue, fence.token, fence.epoch, *job_ids)
        self._check(fence, word)
        return int(rest[0]), set(rest[1:])

    async def free(self, fence: Fence, keys: Sequence[tuple[bytes, bytes, int]]) -> int:
        """Let keys go of jobs that have ended in Postgres without Redis hearing of it; answers how many they held.

        Args:
            keys: key, job id, ms of the window that begins now, or 0.
        """
        flat: list[Argument] = [value for each in keys for value in each]
        word, *rest = await self._run(_FREE, fence.queue, fence.token, fence.epoch, *flat)
        self._check(fence, word)
        return int(rest[0])

    async def tell_duplicates(self, queue: str, jobs: Sequence[tuple[bytes, bytes, int]]) -> None:
        """Whoever waits for the results of these jobs waits for those of others: job, the other one, ms to tell it."""
        if not jobs:
            return
        with in_our_words("XADD"):
            pipeline: Any = self.redis.pipeline(transaction=False)
            for job_id, owner, keep_ms in jobs:
                stream = self.keys.result(queue, job_id)
                record = msgpack.packb({"by": owner})
                fields = ("word", "deduplicated", "record", record, "life", 0)
                pipeline.execute_command("XADD", stream, "MAXLEN", 1, "*", *fields)
                pipeline.execute_command("PEXPIRE", stream, keep_ms)
            await pipeline.execute()

    async def vacate(self, fence: Fence, lanes: Sequence[tuple[bytes, bytes]]) -> int:
        """Let lanes go on whose head has ended without Redis hearing of it; answers how many did.

        Args:
            lanes: each with the id of a job that has no row.
        """
        flat: list[Argument] = [value for each in lanes for value in each]
        word, *rest = await self._run(_VACATE, fence.queue, fence.token, fence.epoch, *flat)
        self._check(fence, word)
        return int(rest[0])

    async def some_lanes(self, queue: str, cursor: int, count: int) -> tuple[int, list[tuple[bytes, bytes]]]:
        """A slice of the lanes that somebody has: the next cursor (0: through), and each with the id of its job."""
        place, found = await command(self.redis, "HSCAN", self.keys.key(queue, "lanes"), cursor, "COUNT", count)
        return int(place), [(lane, head[-16:]) for lane, head in found.items()]

    async def some_keys(self, queue: str, cursor: int, count: int) -> tuple[int, list[tuple[bytes, bytes]]]:
        """A slice of the idempotency keys: the next cursor (0: through), and each with the id of its job."""
        place, found = await command(self.redis, "HSCAN", self.keys.key(queue, "keys"), cursor, "COUNT", count)
        return int(place), list(found.items())

    async def some_jobs(self, queue: str, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """A slice of the ids in `jobs`, then in `runs`: the next cursor (0: through) and the ids."""
        in_runs = cursor % 2  # the cursor of one of them, doubled, plus which
        key = self.keys.key(queue, "runs" if in_runs else "jobs")
        place, found = await command(self.redis, "HSCAN", key, cursor // 2, "COUNT", count)
        if int(place):
            return 2 * int(place) + in_runs, list(found)
        return 1 - in_runs, list(found)

    @property
    def is_spread(self) -> bool:
        """Whether queues are on several servers, each of which may be away while others are not."""
        return is_cluster(self.redis)

    async def lives(self, queues: Sequence[str]) -> list[Mark | None]:
        """In which life each queue is, and its fence, in one round trip; None: its node does not answer, others do."""
        asked = [("HMGET", self.keys.key(queue, "life"), "epoch", "fence") for queue in queues]
        replies = await together(self.redis, asked)
        return [None if reply is None else Mark((reply[0] or b"").decode(), int(reply[1] or 0)) for reply in replies]

    async def unsettled(self, settled: Mapping[str, bytes]) -> set[str]:
        """The queues with an outcome behind this position, in one round trip; whether or not a worker named them."""
        asked = [
            ("XRANGE", self.keys.key(queue, "outcomes"), b"(" + position, "+", "COUNT", 1)
            for queue, position in settled.items()
        ]
        replies = await together(self.redis, asked)
        return {queue for queue, entries in zip(settled, replies, strict=True) if entries}

    async def info(self, section: str) -> dict[str, str]:
        """What Redis says of itself in one section: memory, server, replication; as `one_info`.

        Raises:
            StoreRefused: this user may not ask.
        """
        told = await on_each_node(self.redis, "INFO", section)
        return one_info(section, told)

    async def dirty(self) -> set[str]:
        """The names of queues with outcomes waiting; they stay until the queue's holder takes them by `clean`."""
        names: set[bytes] = await command(self.redis, "SMEMBERS", self.keys.dirty)
        return {name.decode(errors="replace") for name in names}

    async def clean(self, queues: Sequence[str]) -> None:
        """The outcomes of these queues are about to be read; later ones name their queue again."""
        if queues:
            await command(self.redis, "SREM", self.keys.dirty, *queues)

    async def announce(self, queues: Sequence[str]) -> None:
        """Let workers that serve globs know these queues; writes only what is missing."""
        if not queues:
            return
        known: list[int] = await command(self.redis, "SMISMEMBER", self.keys.queues, *queues)
        missing = [queue for queue, there in zip(queues, known, strict=True) if not there]
        if missing:
            await command(self.redis, "SADD", self.keys.queues, *missing)

    async def _run(self, script: scripts.Script, queue: str, *arguments: Argument) -> Any:
        return await run(self.redis, script, self.keys.of(queue, script), arguments)

    @staticmethod
    def _check(fence: Fence, word: bytes) -> None:
        if word == b"ok":
            return
        if word == b"stale":
            raise Stale(f"queue {fence.queue}: token {fence.token} is below the fence")
        if word == b"epoch":
            raise OtherLife(f"queue {fence.queue}: Redis is not in the life {fence.epoch!r} any more")
        raise StoreRefused(f"queue {fence.queue}: a script answered {word!r}")
