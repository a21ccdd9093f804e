"""Redis as an operator sees it: only reads, over a sync connection of its own."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from uuid import UUID

from redisjobs import progress
from redisjobs.base.envelope import Envelope
from redisjobs.broker import limit_lines, listing, presence, share_lines
from redisjobs.broker.client import in_our_words, sync_nodes_of
from redisjobs.broker.infos import fullness
from redisjobs.broker.looking import Looking
from redisjobs.broker.share_lines import ShareLine
from redisjobs.broker.trace import Trace, Tracer, find, lane_of, longest_held
from redisjobs.broker.values import STREAMS, stream_of
from redisjobs.errors import DecodeError
from redisjobs.progress import Progress

Where: TypeAlias = Literal["waiting", "running", "due", "limited", "behind", "ended"]

TIMEOUT_S = 5.0
QUEUES_AT_ONCE = 100
_PARTS = 3 * STREAMS + 4


@dataclass(frozen=True, slots=True)
class Consumer:
    """A worker's connection to a queue.

    Args:
        running: deliveries that it holds. idle_s: since it last read or renewed.
    """

    name: str
    running: int
    idle_s: float


@dataclass(frozen=True, slots=True)
class QueueView:
    """What Redis holds of a queue: jobs waiting for a worker (in their shares too), running, due, waiting for a
    limit, and `behind` another job of their lane.

    Args:
        shared: of those that wait, how many stand in their shares.
        settle_lag_s: the age of the oldest outcome that is not in Postgres yet; 0: all are.
    """

    waiting: int = 0
    running: int = 0
    due: int = 0
    limited: int = 0
    behind: int = 0
    shared: int = 0
    settle_lag_s: float = 0.0
    paused: bool = False
    epoch: str | None = None
    fence: int | None = None
    consumers: list[Consumer] = field(default_factory=list[Consumer])


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job is in Redis.

    Args:
        job: its name; None once it has ended.
        direct: it has no row in Postgres.
        holder: the worker that runs it, or whose finish was accepted.
        lease_left_s: below 0: its lease has lapsed, and another worker will take it.
        due_in_s: until it joins its stream.
        lane: the lane that it is in. head: of one that is behind its lane, the job that goes first.
    """

    queue: str
    where: Where
    job: str | None
    number: int
    life: int
    band: int | None = None
    starts: int = 0
    attempts: int = 0
    losses: int = 0
    holder: str | None = None
    lease_left_s: float | None = None
    due_in_s: float | None = None
    direct: bool = False
    cancel_requested: bool = False
    parked: bool = False
    progress: Progress | None = None
    lane: str | None = None
    head: UUID | None = None


@dataclass(frozen=True, slots=True)
class ServerView:
    """What Redis says of itself; `full` compares the memory used with its limit, as the relay does."""

    version: str
    used_memory: int
    maxmemory: int
    policy: str
    role: str

    def is_full(self, budget: float) -> bool:
        """Whether a relay with this budget has stopped publishing."""
        return self.maxmemory > 0 and self.used_memory > self.maxmemory * budget


class View(Looking):
    """Looks into Redis. Every method raises BrokerUnavailable or StoreRefused.

    Args:
        url: the Redis URL.
        prefix: what every key begins with.
    """

    timeout = TIMEOUT_S

    def ping(self) -> None:
        """Raises where Redis cannot be used."""
        with in_our_words("PING"):
            self._redis.execute_command("PING")

    def server(self) -> ServerView:
        """What Redis says of itself; of a cluster, its fullest node."""
        with in_our_words("INFO"):
            nodes: list[Any] = list(sync_nodes_of(self._redis))
            told: dict[str, Any] = max((node.info() for node in nodes), key=fullness)
        return ServerView(
            version=str(told.get("valkey_version") or told.get("redis_version", "")),
            used_memory=int(told.get("used_memory", 0)),
            maxmemory=int(told.get("maxmemory", 0)),
            policy=str(told.get("maxmemory_policy", "")),
            role=str(told.get("role", "")),
        )

    def queues(self) -> set[str]:
        """The names of the queues that Redis has seen."""
        with in_our_words("SMEMBERS"):
            return {name.decode() for name in self._redis.execute_command("SMEMBERS", self._keys.queues)}

    def workers(self) -> list[presence.Presence]:
        """The workers that are there, what each does, and those that fell silent within the last minutes."""
        return presence.look(self._redis, self._keys)

    def ids(self, queue: str, where: str) -> Generator[list[bytes]]:
        """The ids of the jobs that are waiting, running, due, limited or behind, in pieces."""
        return listing.ids(self._redis, self._keys, queue, where)

    def shares(self, queue: str) -> list[ShareLine]:
        """The shares of a queue in which jobs wait, or for which something is set."""
        with in_our_words("ZLEXCOUNT"):
            return share_lines.look(self._redis, self._keys, queue)

    def direct(self, queue: str, job_ids: Sequence[bytes]) -> dict[bytes, Envelope]:
        """Those of these jobs that have no row in Postgres, with what travels beside their arguments."""
        return listing.direct(self._redis, self._keys, queue, job_ids)

    def look(self, queues: Sequence[str]) -> dict[str, QueueView]:
        """What Redis holds of these queues."""
        views: dict[str, QueueView] = {}
        with in_our_words("ZLEXCOUNT"):
            limited = limit_lines.waiting(self._redis, self._keys, queues)
        for first in range(0, len(queues), QUEUES_AT_ONCE):
            piece = queues[first : first + QUEUES_AT_ONCE]
            pipeline = self._redis.pipeline(transaction=False)
            for queue in piece:
                self._ask(pipeline, queue)
            with in_our_words("XINFO"):
                replies = pipeline.execute(raise_on_error=False)
            parts = [replies[at * _PARTS : (at + 1) * _PARTS] for at in range(len(piece))]
            lags = self._settle_lags(piece, parts)
            views |= {
                queue: _view(part, lag, limited[queue]) for queue, part, lag in zip(piece, parts, lags, strict=True)
            }
        return views

    def _settle_lags(self, queues: Sequence[str], parts: Sequence[Sequence[Any]]) -> list[float]:
        """The ages of the oldest outcomes behind the settled positions."""
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.execute_command("TIME")
        for queue, (*_, life) in zip(queues, parts, strict=True):
            settled = (None if isinstance(life, Exception) else life[3]) or b"0-0"
            pipeline.execute_command("XRANGE", self._keys.key(queue, "outcomes"), b"(" + settled, "+", "COUNT", 1)
        with in_our_words("XRANGE"):
            (seconds, micros), *found = pipeline.execute()
        now_s = int(seconds) + int(micros) / 1e6
        return [max(0.0, now_s - int(each[0][0].split(b"-")[0]) / 1000) if each else 0.0 for each in found]

    def _ask(self, pipeline: Any, queue: str) -> None:
        for stream in self._keys.streams(queue):
            pipeline.execute_command("XLEN", stream)
            pipeline.execute_command("XINFO", "GROUPS", stream)
            pipeline.execute_command("XINFO", "CONSUMERS", stream, "workers")
        for name in ("due", "shares", "behind"):
            pipeline.execute_command("ZCARD", self._keys.key(queue, name))
        pipeline.execute_command("HMGET", self._keys.key(queue, "life"), "paused", "epoch", "fence", "settled")

    def place(self, queue: str, job_id: bytes) -> Place | None:
        """Where a job of this queue is; None: Redis does not know it."""
        with in_our_words("HGET"):
            record = self._redis.execute_command("HGET", self._keys.key(queue, "jobs"), job_id)
            run = self._redis.execute_command("HGET", self._keys.key(queue, "runs"), job_id)
            if record is None:
                return None
            if record.startswith(b"!"):
                _, _, number, _, life, holder = record.split(b" ")[:6]
                return Place(queue, "ended", None, int(number), int(life), holder=holder.decode())
            return self._live(queue, job_id, record, run)

    def trace(self, queue: str, job_id: bytes) -> Trace | None:
        """Where a job of this queue is, and what stands before it; None: Redis does not know it."""
        return Tracer(self._redis, self._keys, queue, job_id).trace()

    def longest_held(self, queue: str, idle_s: float, most: int = 20) -> list[Trace]:
        """Jobs of this queue that were not renewed for so long, at most so many of each band."""
        return longest_held(self._redis, self._keys, queue, idle_s, most)

    def find(self, queues: Sequence[str], job_id: bytes) -> str | None:
        """The first of these queues that knows the job."""
        return find(self._redis, self._keys, queues, job_id)

    def key_owner(self, queue: str, key: str) -> bytes | None:
        """The id of the job that holds an idempotency key, or had it when its window began."""
        with in_our_words("HGET"):
            found: bytes | None = self._redis.execute_command("HGET", self._keys.key(queue, "keys"), key.encode())
            return found

    def _live(self, queue: str, job_id: bytes, record: bytes, run: bytes | None) -> Place:
        head, _, rest = record.partition(b"\n")
        entry, _, number, life, flags, number_of_band, _, size = head.split(b" ")
        band, stream = stream_of(int(number_of_band))
        known = run or b"0 0 0 - - 0 -"
        starts, attempts, losses, holder, held, lease, _ = known.partition(b"\n")[0].split(b" ")
        running = held == entry and holder != b"-"
        lane = lane_of(flags, rest, int(size))
        return Place(
            queue,
            _where(entry, flags, running=running),
            _job_name(rest[int(size) :]),
            int(number),
            int(life),
            band=band,
            starts=int(starts),
            attempts=int(attempts),
            losses=int(losses),
            holder=holder.decode() if running else None,
            lease_left_s=self._lease_left(queue, stream, entry, int(lease)) if running else None,
            due_in_s=self._due_in(queue, job_id) if entry == b"-" else None,
            direct=b"d" in flags,
            cancel_requested=b"c" in flags,
            parked=b"p" in flags,
            progress=progress.read(known),
            lane=lane,
            head=self._head(queue, lane) if entry.startswith(b"=") and lane else None,
        )

    def _head(self, queue: str, lane: str) -> UUID | None:
        head = self._redis.execute_command("HGET", self._keys.key(queue, "lanes"), lane.encode())
        return None if head is None else UUID(bytes=head[-16:])

    def _lease_left(self, queue: str, stream: int, entry: bytes, lease_ms: int) -> float | None:
        pending = self._redis.execute_command(
            "XPENDING", self._keys.streams(queue)[stream], "workers", entry, entry, 1, parse_detail=True
        )
        return (lease_ms - pending[0]["time_since_delivered"]) / 1000 if pending else None

    def _due_in(self, queue: str, job_id: bytes) -> float | None:
        score = self._redis.execute_command("ZSCORE", self._keys.key(queue, "due"), job_id)
        seconds, micros = self._redis.execute_command("TIME")
        return None if score is None else float(score) / 1000 - (int(seconds) + int(micros) / 1e6)


def _where(entry: bytes, flags: bytes, *, running: bool) -> Where:
    if entry == b"-":
        return "limited" if b"l" in flags else "due"
    if entry.startswith(b"="):
        return "behind"
    return "running" if running else "waiting"


def _job_name(envelope: bytes) -> str | None:
    try:
        return Envelope.unpack(envelope).job
    except DecodeError:
        return None


def _view(replies: Sequence[Any], settle_lag_s: float, limited: int) -> QueueView:
    """One queue, from its part of the replies; a stream or group that is not there yet answers with an error."""
    length = pending = 0
    consumers: dict[str, Consumer] = {}
    for band in range(STREAMS):
        entries, groups, members = replies[3 * band : 3 * band + 3]
        length += _number(entries)
        pending += sum(int(group[b"pending"]) for group in _maps(groups) if group[b"name"] == b"workers")
        for member in _maps(members):
            name, idle_s = member[b"name"].decode(), int(member[b"idle"]) / 1000
            known = consumers.get(name, Consumer(name, 0, idle_s))
            consumers[name] = Consumer(name, known.running + int(member[b"pending"]), min(known.idle_s, idle_s))
    due, shared, behind, life = replies[3 * STREAMS :]
    paused, epoch, fence, _ = (None, None, None, None) if isinstance(life, Exception) else life
    return QueueView(
        waiting=max(0, length - pending) + _number(shared),
        running=pending,
        due=max(0, _number(due) - limited),
        limited=min(_number(due), limited),
        behind=_number(behind),
        shared=_number(shared),
        settle_lag_s=settle_lag_s,
        paused=paused == b"1",
        epoch=epoch.decode() if epoch else None,
        fence=int(fence) if fence else None,
        consumers=sorted(consumers.values(), key=lambda each: each.name),
    )


def _number(reply: Any) -> int:
    return reply if isinstance(reply, int) else 0


def _maps(reply: Any) -> list[dict[bytes, Any]]:
    """The maps of an XINFO reply, which come as flat lists."""
    if isinstance(reply, Exception):
        return []
    return [dict(zip(each[::2], each[1::2], strict=True)) for each in reply]
