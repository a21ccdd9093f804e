"""One job in Redis, looked up in two round trips; only reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from redis import exceptions

from redisjobs.base.envelope import Envelope
from redisjobs.broker.client import in_our_words
from redisjobs.broker.keys import Keys
from redisjobs.broker.results import outcome
from redisjobs.broker.values import BANDS, stream_of
from redisjobs.errors import DecodeError

Spot: TypeAlias = Literal["waiting", "read", "running", "due", "behind", "ended", "torn"]

_NOT_THERE = ("NOGROUP", "no such key", "requires the key to exist")
MOST_BEFORE = 1_001
"""Entries before a job are counted up to here."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A job in Redis. Distances are seconds by Redis' clock.

    Args:
        spot: waiting, read by a worker that has not begun it, running, due, behind the head of its lane, ended; torn:
            its record names a place where it is not.
        number: publications. life: redrives. losses: leases lost in a row.
        before: entries of its stream that are delivered earlier, at most MOST_BEFORE. above: those of higher bands, and
            of the front.
        holder: the worker that has it; of an ended job: whose finish was accepted, None where no worker ended it.
        held_s: since its lease was renewed. lease_left_s: below 0: it has lapsed.
        last: the worker whose last finish brought it back here.
        lane: the lane that it is in. head: the job of it that goes first; None: nobody has the lane.
        share: the share that it waits in, with `before` jobs of it before; None: it stands in a stream, or not there.
        share_paused: nothing of that share starts.
        limited: it waits for a limit, or for the time at which a rate lets it start.
        word: how it ended. settled: that is in Postgres.
    """

    queue: str
    spot: Spot
    number: int
    life: int
    job: str | None = None
    max_attempts: int | None = None
    band: int = 1
    starts: int = 0
    attempts: int = 0
    losses: int = 0
    before: int = 0
    above: int = 0
    holder: str | None = None
    held_s: float | None = None
    lease_left_s: float | None = None
    due_in_s: float | None = None
    expires_in_s: float | None = None
    last: str | None = None
    word: str | None = None
    settled: bool = False
    direct: bool = False
    cancel_requested: bool = False
    parked: bool = False
    limited: bool = False
    lane: str | None = None
    share: str | None = None
    share_paused: bool = False
    head: bytes | None = None


def find(redis: Any, keys: Keys, queues: Sequence[str], job_id: bytes) -> str | None:
    """The first of these queues that knows the job, in one round trip."""
    pipeline = redis.pipeline(transaction=False)
    for queue in queues:
        pipeline.execute_command("HEXISTS", keys.key(queue, "jobs"), job_id)
    with in_our_words("HEXISTS"):
        found: list[int] = pipeline.execute()
    return next((queue for queue, there in zip(queues, found, strict=True) if there), None)


def longest_held(redis: Any, keys: Keys, queue: str, idle_s: float, most: int) -> list[Trace]:
    """Jobs that were read and not renewed for so long, at most so many of each band."""
    found: list[Trace | None] = []
    with in_our_words("XPENDING"):
        for stream in keys.streams(queue):
            words = ("XPENDING", stream, "workers", "IDLE", int(idle_s * 1000), "-", "+", most)
            try:
                pending: list[dict[str, Any]] = redis.execute_command(*words, parse_detail=True)
            except exceptions.ResponseError as error:
                if any(word in str(error) for word in _NOT_THERE):
                    continue
                raise
            for each in pending:
                for _, fields in redis.execute_command("XRANGE", stream, each["message_id"], each["message_id"]):
                    found.append(Tracer(redis, keys, queue, fields.get(b"j", b"")).trace())
    return [each for each in found if each is not None]


class Tracer:
    """Looks for one job in one queue."""

    def __init__(self, redis: Any, keys: Keys, queue: str, job_id: bytes) -> None:
        self._redis = redis
        self._keys = keys
        self._queue = queue
        self._id = job_id

    def trace(self) -> Trace | None:
        """Where the job is; None: Redis does not know it in this queue."""
        record, run, due, settled, time, *streams = self._ask(
            ("HGET", self._key("jobs"), self._id),
            ("HGET", self._key("runs"), self._id),
            ("ZSCORE", self._key("due"), self._id),
            ("HGET", self._key("life"), "settled"),
            ("TIME",),
            *(
                words
                for stream in self._keys.streams(self._queue)
                for words in (("XLEN", stream), ("XINFO", "GROUPS", stream))
            ),
        )
        if not isinstance(record, bytes):
            return None
        try:
            if record.startswith(b"!"):
                return self._ended(record, settled or b"0-0")
            now_s = int(time[0]) + int(time[1]) / 1e6
            return self._live(record, run, None if due is None else float(due) / 1000 - now_s, streams, now_s)
        except ValueError:  # no script wrote this: the scripts treat it as a job that is nowhere
            return Trace(self._queue, "torn", 0, 0)

    def _ended(self, record: bytes, settled: bytes) -> Trace:
        _, position, number, _, life, holder = record.split(b" ")[:6]
        (found,) = self._ask(("XRANGE", self._key("outcomes"), position, position))
        text = found[0][1].get(self._id) if found else None
        return Trace(
            self._queue, "ended", int(number), int(life),
            holder=None if holder == b"-" else holder.decode(),
            word=outcome(position, self._id, text, 0).word if text else None,
            settled=_reaches(settled, position),
        )  # fmt: skip

    def _live(
        self, record: bytes, run: bytes | None, due_in_s: float | None, streams: Sequence[Any], now_s: float
    ) -> Trace:
        head, _, rest = record.partition(b"\n")
        entry, expire, number, life, flags, band_text, _, size = head.split(b" ")
        starts, attempts, losses, holder, held, lease, last = (run or b"0 0 0 - - 0 -").split(b" ")
        (band, at), (job, most) = stream_of(int(band_text)), _of_envelope(rest[int(size) :])
        made = Trace(
            self._queue, "due", int(number), int(life), job, most, band, int(starts), int(attempts), int(losses),
            above=sum(_waiting(streams[2 * each], streams[2 * each + 1]) for each in _read_before(at)),
            expires_in_s=int(expire) / 1000 - now_s if expire != b"0" else None,
            last=None if last == b"-" else last.rpartition(b"/")[0].decode(),
            direct=b"d" in flags, cancel_requested=b"c" in flags, parked=b"p" in flags,
            limited=b"l" in flags, lane=lane_of(flags, rest, int(size)),
        )  # fmt: skip
        if entry.startswith(b"="):
            return self._behind(made, entry[1:])
        if entry.startswith(b"%"):
            return self._in_share(made, entry[1:], share_of(rest, int(size)))
        if entry == b"-":
            return replace(made, spot="torn" if due_in_s is None else "due", due_in_s=due_in_s)
        found = self._in_stream(made, entry, at, _delivered(streams[2 * at + 1]))
        if found.spot == "read" and held == entry and holder != b"-":
            return replace(found, spot="running", lease_left_s=int(lease) / 1000 - (found.held_s or 0.0))
        return found

    def _behind(self, made: Trace, place: bytes) -> Trace:
        lane = (made.lane or "").encode()
        there, head = self._ask(
            ("ZSCORE", self._key("behind"), b"\0".join((lane, place, self._id))), ("HGET", self._key("lanes"), lane)
        )
        return replace(made, spot="torn" if there is None else "behind", head=None if head is None else head[-16:])

    def _in_share(self, made: Trace, place: bytes, share: bytes) -> Trace:
        start = b"%b\0%d" % (share, made.band)
        member = start + place + self._id
        there, turn, before, rule = self._ask(
            ("ZSCORE", self._key("shares"), member),
            ("ZSCORE", self._key("ring"), b"%d%b" % (made.band, share)),
            ("ZLEXCOUNT", self._key("shares"), b"[" + start, b"(" + member),
            ("HGET", self._key("life"), b"share:" + share),
        )
        name, paused = share.decode(errors="replace"), (rule or b"").endswith(b" paused")
        spot: Spot = "torn" if there is None or (turn is None and not paused) else "waiting"
        return replace(made, spot=spot, share=name, share_paused=paused, before=int(before or 0), above=0)

    def _in_stream(self, made: Trace, entry: bytes, at: int, delivered: bytes) -> Trace:
        """Whether the entry waits, has been read, or is not there; and what goes with that."""
        stream = self._keys.streams(self._queue)[at]
        there, pending, before = self._ask(
            ("XRANGE", stream, entry, entry),
            ("XPENDING", stream, "workers", entry, entry, 1),
            ("XRANGE", stream, b"(" + delivered, b"(" + entry, "COUNT", MOST_BEFORE),
        )
        if not there:
            return replace(made, spot="torn")
        if pending:
            held = pending[0]
            return replace(
                made, spot="read", holder=held["consumer"].decode(), held_s=held["time_since_delivered"] / 1000
            )
        return replace(made, spot="waiting", before=len(before or ()))

    def _key(self, name: str) -> bytes:
        return self._keys.key(self._queue, name)

    def _ask(self, *commands: tuple[bytes | str | int, ...]) -> list[Any]:
        """The replies in one round trip; None where a stream or its group is not there yet."""
        pipeline = self._redis.pipeline(transaction=False)
        for words in commands:
            pipeline.execute_command(*words, **({"parse_detail": True} if words[0] == "XPENDING" else {}))
        with in_our_words(str(commands[0][0])):
            replies: list[Any] = pipeline.execute(raise_on_error=False)
            for reply in replies:
                if isinstance(reply, Exception) and not any(word in str(reply) for word in _NOT_THERE):
                    raise reply
        return [None if isinstance(reply, Exception) else reply for reply in replies]


def _of_envelope(packed: bytes) -> tuple[str | None, int | None]:
    try:
        envelope = Envelope.unpack(packed)
    except DecodeError:
        return None, None
    return envelope.job, envelope.max_attempts


def lane_of(flags: bytes, rest: bytes, size: int) -> str | None:
    """The lane of a job, from what stands behind the head of its record; None: it is in none."""
    if b"x" not in flags:
        return None
    sizes, _, region = rest[:size].partition(b"\n")
    key, lane, _, _ = sizes.split(b" ")
    return region[int(key) + 16 : int(key) + int(lane)].decode(errors="replace") or None


def share_of(rest: bytes, size: int) -> bytes:
    """The share of a job that waits in one, from what stands behind the head of its record."""
    sizes, _, region = rest[:size].partition(b"\n")
    key, lane, share, _ = sizes.split(b" ")
    start = int(key) + int(lane)
    return region[start : start + int(share)]


def _read_before(stream: int) -> list[int]:
    """The streams that are read before this one: the front, and the bands above."""
    return [] if stream == BANDS else [BANDS, *range(stream)]


def _group(groups: Any) -> dict[bytes, Any]:
    """The workers' group in a reply of XINFO GROUPS; empty where there is none yet."""
    for each in groups or ():
        group: dict[bytes, Any] = dict(zip(each[::2], each[1::2], strict=True))
        if group[b"name"] == b"workers":
            return group
    return {}


def _delivered(groups: Any) -> bytes:
    return bytes(_group(groups).get(b"last-delivered-id", b"0-0"))


def _waiting(length: Any, groups: Any) -> int:
    return max(0, int(length or 0) - int(_group(groups).get(b"pending", 0)))


def _reaches(settled: bytes, position: bytes) -> bool:
    """Whether the settled position is at this one, or behind it."""
    return [int(part) for part in settled.split(b"-")] >= [int(part) for part in position.split(b"-")]
