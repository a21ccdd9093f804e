"""Redis as the relay sees it: fenced by its token for the queue and by the life of Redis that it believes in."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis.asyncio as async_redis

from redisjobs.base import scripts
from redisjobs.broker.broker import placed
from redisjobs.broker.client import Argument, command, in_our_words, run
from redisjobs.broker.keys import Keys
from redisjobs.broker.results import outcome
from redisjobs.broker.values import Life, Mark, Outcome, Publication
from redisjobs.errors import RedisjobsError, StoreRefused
from redisjobs.logs import event

log = logging.getLogger("redisjobs.relay")

_OUTCOME = re.compile(rb"[a-z]+ \d+ \d+ \d+ \d+ \d+\n")

_OPEN = scripts.load("open")
_ADOPT = scripts.load("adopt")
_PUBLISH = scripts.load("publish")
_SETTLED = scripts.load("settled")
_CANCEL = scripts.load("cancel")
_AUDIT = scripts.load("audit")
_FORGET = scripts.load("forget")


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

    async def open(self, queue: str, token: int, *, paused: bool) -> Life:
        """Set the queue's fence to this token; the first act of every new holder.

        Raises:
            Stale: a higher token has been there.
        """
        word, *rest = await self._run(_OPEN, queue, token, int(paused))
        if word == b"stale":
            fence = int(rest[0])
            raise Stale(f"queue {queue}: token {token} is below the fence {fence}", fence)
        return Life(rest[0].decode(), rest[1])

    async def adopt(self, fence: Fence, keys: Iterable[tuple[bytes, bytes, int]]) -> None:
        """Name this life of Redis, and restore idempotency keys whose window is open: key, job id, ms left."""
        flat: list[Argument] = [value for each in keys for value in each]
        self._check(fence, await self._run(_ADOPT, fence.queue, fence.token, fence.epoch, *flat))

    async def publish(self, fence: Fence, jobs: Sequence[Publication]) -> list[tuple[str, bytes | None]]:
        """Put jobs where they wait or are due: new, repeat, or dup or kept with the owner of the key, for each."""
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

    async def cancel(self, fence: Fence, jobs: Sequence[tuple[bytes, int]]) -> list[str]:
        """End waiting jobs, flag running ones, each given as id and life: ended, running, over or unknown."""
        flat: list[Argument] = [value for job in jobs for value in job]
        word, *words = await self._run(_CANCEL, fence.queue, fence.token, fence.epoch, *flat)
        self._check(fence, word)
        return [each.decode() for each in words]

    async def audit(self, fence: Fence, rows: Sequence[tuple[bytes, int]]) -> list[bytes]:
        """Which of these published rows, each given as id and life, are not placed in Redis."""
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

    async def some_jobs(self, queue: str, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """A slice of the ids in `jobs`, then in `runs`: the next cursor (0: through) and the ids."""
        in_runs = cursor % 2  # the cursor of one of them, doubled, plus which
        key = self.keys.key(queue, "runs" if in_runs else "jobs")
        place, found = await command(self.redis, "HSCAN", key, cursor // 2, "COUNT", count)
        if int(place):
            return 2 * int(place) + in_runs, list(found)
        return 1 - in_runs, list(found)

    async def lives(self, queues: Sequence[str]) -> list[Mark]:
        """In which life each queue is, and its fence, in one round trip."""
        with in_our_words("HMGET"):
            pipeline: Any = self.redis.pipeline(transaction=False)
            for queue in queues:
                pipeline.execute_command("HMGET", self.keys.key(queue, "life"), "epoch", "fence")
            replies: list[Any] = await pipeline.execute()
        return [Mark((epoch or b"").decode(), int(fence or 0)) for epoch, fence in replies]

    async def unsettled(self, settled: Mapping[str, bytes]) -> set[str]:
        """The queues with an outcome behind this position, in one round trip; whether or not a worker named them."""
        with in_our_words("XRANGE"):
            pipeline: Any = self.redis.pipeline(transaction=False)
            for queue, position in settled.items():
                pipeline.execute_command("XRANGE", self.keys.key(queue, "outcomes"), b"(" + position, "+", "COUNT", 1)
            replies: list[Any] = await pipeline.execute()
        return {queue for queue, entries in zip(settled, replies, strict=True) if entries}

    async def info(self, section: str) -> dict[str, str]:
        """What Redis says of itself in one section: memory, server, replication.

        Raises:
            StoreRefused: this user may not ask.
        """
        told: dict[str, object] = await command(self.redis, "INFO", section)
        return {key: str(value) for key, value in told.items()}

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
