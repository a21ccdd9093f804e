"""The same calls to a modelled queue and to a real one, and both brought into one form that can be compared.

Time passes for both at once: what Redis has written down of times is moved back, so that leases end and jobs are due
without anybody waiting, and a failing run can be made smaller.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import re
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from redis import ResponseError

from redisjobs.broker import Fence as RealFence
from redisjobs.broker import Finish, Move
from redisjobs.broker.values import Delivery as RealDelivery
from redisjobs.broker.values import Entry, Publication
from tests.model.queue_worker import Queue
from tests.model.values import UNTIL_IT_ENDS, Delivery, End, Fence, Id, Item, Keys, Live
from tests.support.builders import envelope
from tests.support.queue import QueueByHand

T = TypeVar("T")

UNIT_MS = 100_000
"""One unit of the model's time: so much that the time that the calls themselves take rounds away."""
WHOLE = ("ready0", "ready1", "ready2", "ready3", "jobs", "runs", "due", "lanes", "behind", "keys", "windows",
         "outcomes", "graves", "cancels", "life")  # fmt: skip
"""The keys that can be lost one by one."""
_HASHES = ("jobs", "runs", "lanes", "keys", "life")
_SETS = ("due", "behind", "windows", "graves")
_LIVE = re.compile(rb"(\S+) (\d+) (\d+) (\d+) (\S+) ([0-5]) (\d+) (\d+)\n")


class BothQueues:
    """A queue of the model and the queue `q` of a real Redis."""

    def __init__(self, url: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.q = QueueByHand(url)
        self.q.redis.flushall()
        self.now = 0
        self.model = Queue("q", lambda: self.now)
        self._entries: dict[tuple[int, int], bytes] = {}
        self._saved: tuple[int, Keys, list[tuple[bytes, bytes]]] | None = None

    def close(self) -> None:
        self.do(self.q.__aexit__())
        self.loop.close()

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(call)

    def fenced(self, call: Coroutine[Any, Any, T]) -> T | str:
        """What a relay's call answers, or stale or epoch."""
        try:
            return self.do(call)
        except Exception as error:
            words = {"Stale": "stale", "OtherLife": "epoch"}
            if type(error).__name__ in words:
                return words[type(error).__name__]
            raise

    # -- time and losses
    def pass_time(self, units: int) -> None:
        self.now += units
        self._age(units)

    def _age(self, units: int) -> None:
        ms, client, pipe = units * UNIT_MS, self.q.redis, self.q.redis.pipeline(transaction=True)
        for name in ("due", "windows", "graves"):
            for member, score in client.zrange(self.q.key(name), 0, -1, withscores=True):
                if score < 8e15:
                    pipe.zincrby(self.q.key(name), -ms, member)
        swept = client.hget(self.q.key("life"), "swept")
        if swept:
            pipe.hset(self.q.key("life"), "swept", int(swept) - ms)
        for n in range(4):
            stream = self.q.key(f"ready{n}")
            for each in self._pending(stream):
                pipe.xclaim(stream, "workers", each["consumer"], 0, [each["message_id"]],
                            idle=each["time_since_delivered"] + ms, justid=True)  # fmt: skip
        pipe.execute()

    def _pending(self, stream: bytes) -> list[dict[str, Any]]:
        if not self.q.redis.exists(stream) or not self.q.redis.xinfo_groups(stream):
            return []
        found: list[dict[str, Any]] = self.q.redis.xpending_range(stream, "workers", "-", "+", 1000)
        return found

    def flush(self) -> None:
        self.q.redis.flushall()
        self.model.k = Keys()

    def lose(self, name: str) -> None:
        """One key, as by an eviction."""
        self.q.redis.delete(self.q.key(name))
        k, empty = self.model.k, Keys()
        if name.startswith("ready"):
            n = int(name[-1])
            k.streams[n], k.unread[n], k.pending[n] = {}, [], {}
        elif name == "life":
            k.epoch, k.fence, k.settled, k.paused, k.swept = "", 0, 0, False, empty.swept
        else:
            setattr(k, name, getattr(empty, name))

    def save(self) -> None:
        client = self.q.redis
        held = [(key, client.dump(key)) for key in client.scan_iter(count=1000)]
        self._saved = self.now, copy.deepcopy(self.model.k), held

    def go_back(self) -> None:
        """Redis as it was when it was saved, as after a failover to a replica that lagged."""
        if self._saved is None:
            return
        then, keys, held = self._saved
        self.q.redis.flushall()
        for key, value in held:
            self.q.redis.restore(key, 0, value)
        self.model.k = copy.deepcopy(keys)
        self._age(self.now - then)

    # -- calls
    def deliveries(self, real: Sequence[RealDelivery], modelled: Sequence[Delivery]) -> list[Delivery]:
        """Both must be the same; answers them, and learns their entries."""
        told = [(d.job_id.decode(), d.band, d.start, d.number, d.life, d.attempts, d.losses, d.cancel)
                for d in real]  # fmt: skip
        assert told == [(m.id, m.stream, m.start, m.number, m.life, m.attempts, m.losses, m.cancel) for m in modelled]
        for d, m in zip(real, modelled, strict=True):
            self._entries[m.stream, m.entry] = d.entry
        return list(modelled)

    def make_groups(self) -> None:
        """As a first read makes them, where they are missing."""
        for n in range(4):
            with contextlib.suppress(ResponseError):
                self.q.redis.xgroup_create(self.q.key(f"ready{n}"), "workers", "0", mkstream=True)

    def waited(self, real: Sequence[Entry], modelled: Sequence[tuple[int, int, Id]]) -> None:
        assert [(each.band, each.job_id.decode()) for each in real] == [(n, job) for n, _, job in modelled]

    def entry(self, stream: int, entry: int) -> bytes:
        return self._entries[stream, entry]

    def finish(self, consumer: str, ends: Sequence[tuple[Delivery, End]]) -> list[str]:
        finishes = [
            Finish(
                RealDelivery(
                    "q", d.stream, d.id.encode(), self.entry(d.stream, d.entry), d.start, d.number, d.life, 0, 0,
                    False, False, False, b"",
                ),
                end.word,  # type: ignore[arg-type]
                end.delay * UNIT_MS if end.delay >= 0 else -1,
                end.counted,
                skips=end.skips,
            )
            for d, end in ends
        ]  # fmt: skip
        return list(self.do(self.q.broker.finish("q", consumer, finishes)))

    @staticmethod
    def publication(item: Item) -> Publication:
        return Publication(
            item.id.encode(), envelope("mail").pack(), number=item.number, life=item.life, band=item.band,
            key=item.key.encode(), delay_ms=item.delay * UNIT_MS, window_ms=item.window * UNIT_MS,
            attempts=item.attempts, after=item.after, lane=item.lane.encode(), order=item.order,
        )  # fmt: skip

    @staticmethod
    def fence(fence: Fence) -> RealFence:
        return RealFence("q", fence.token, fence.epoch)

    @staticmethod
    def moves(rows: Sequence[tuple[Id, int, int, int, int]]) -> list[Move]:
        body = envelope("mail").pack()
        return [
            Move(job.encode(), life, after, band, None if delay < 0 else delay * UNIT_MS, body)
            for job, life, after, band, delay in rows
        ]

    # -- the same form
    def real_state(self) -> dict[str, Any]:
        seen = _Seen(self.q)
        return {
            "streams": [list(each.values()) for each in seen.entries],
            "pending": seen.pending,
            "jobs": {job.decode(): _record(rec, seen.entries, seen.places) for job, rec in seen["jobs"].items()},
            "runs": {job.decode(): _run(text, seen["jobs"].get(job, b"")) for job, text in seen["runs"].items()},
            "due": {job.decode(): seen.units(at) for job, at in seen["due"].items()},
            "lanes": {lane.decode(): (head[-16:].decode(), len(head) > 16) for lane, head in seen["lanes"].items()},
            "behind": {(m[: -43 - 1].decode(), _place(m[-43:-17]), m[-16:].decode()) for m in seen["behind"]},
            "keys": {key.decode(): job.decode() for key, job in seen["keys"].items()},
            "windows": {key.decode(): None if at > 8e15 else seen.units(at) for key, at in seen["windows"].items()},
            "outcomes": [[(job.decode(), *_told(text)) for job, text in each.items()] for _, each in seen.outcomes],
            "graves": {seen.places.get(position): seen.units(at) for position, at in seen["graves"].items()},
            "cancels": {job.decode() for job in seen.found["cancels"]},
            "life": seen.life(),
        }

    def model_state(self) -> dict[str, Any]:
        k, now = self.model.k, self.now
        places = {position: at for at, position in enumerate(k.outcomes)}
        return {
            "streams": [list(each.values()) for each in k.streams],
            "pending": [
                {k.streams[n].get(entry, "?"): (owner, now - since) for entry, (owner, since) in k.pending[n].items()}
                for n in range(4)
            ],
            "jobs": {job: _modelled(k, job, places) for job in k.jobs},
            "runs": {
                job: (r.starts, r.attempts, r.losses, r.holder, _begun(k, job), r.lease, r.last)
                for job, r in k.runs.items()
            },
            "due": {job: at - now for job, at in k.due.items()},
            "lanes": dict(k.lanes),
            "behind": set(k.behind),
            "keys": dict(k.keys),
            "windows": {key: None if at >= UNTIL_IT_ENDS else at - now for key, at in k.windows.items()},
            "outcomes": [
                [(o.id, o.word, o.life, o.number, o.attempts, o.due is not None) for o in each]
                for each in k.outcomes.values()
            ],
            "graves": {places.get(position): at - now for position, at in k.graves.items()},
            "cancels": set(k.cancels),
            "life": (k.epoch, k.fence, k.paused, places.get(k.settled)),
        }


class _Seen:
    """The keys of a real queue, read in one round trip."""

    def __init__(self, q: QueueByHand) -> None:
        pipe = q.redis.pipeline(transaction=True)
        pipe.time()
        for n in range(4):
            pipe.xrange(q.key(f"ready{n}"))
            pipe.xpending_range(q.key(f"ready{n}"), "workers", "-", "+", 1000)
        for name in _HASHES:
            pipe.hgetall(q.key(name))
        for name in _SETS:
            pipe.zrange(q.key(name), 0, -1, withscores=True)
        pipe.xrange(q.key("outcomes"))
        pipe.smembers(q.key("cancels"))
        (seconds, micros), *told = pipe.execute(raise_on_error=False)
        self._now_ms: int = seconds * 1000 + micros // 1000
        streams, told = told[:8], told[8:]
        self.entries: list[dict[bytes, str]] = [
            {entry: fields[b"j"].decode() for entry, fields in each} for each in streams[::2]
        ]
        self.pending = [self._pending(entries, each) for entries, each in zip(self.entries, streams[1::2], strict=True)]
        names = (*_HASHES, *_SETS)
        self.found: dict[str, Any] = dict(zip((*names, "outcomes", "cancels"), told, strict=True))
        self.outcomes: list[tuple[bytes, dict[bytes, bytes]]] = self.found["outcomes"]
        self.places = {position: at for at, (position, _) in enumerate(self.outcomes)}

    def __getitem__(self, name: str) -> dict[bytes, Any]:
        return dict(self.found[name])

    def units(self, at: float) -> int:
        return round((at - self._now_ms) / UNIT_MS)

    @staticmethod
    def _pending(entries: dict[bytes, str], pending: Any) -> dict[str, tuple[str, int]]:
        if isinstance(pending, ResponseError):
            assert str(pending).startswith("NOGROUP")
            return {}
        return {
            entries.get(each["message_id"], "?"): (
                each["consumer"].decode(),
                round(each["time_since_delivered"] / UNIT_MS),
            )
            for each in pending
        }

    def life(self) -> tuple[object, ...]:
        life = self["life"]
        settled = self.places.get(life.get(b"settled", b""))
        return life.get(b"epoch", b"").decode(), int(life.get(b"fence", 0)), life.get(b"paused") == b"1", settled


def _modelled(k: Keys, job: Id, places: dict[int, int]) -> tuple[object, ...]:
    rec = k.jobs[job]
    if not isinstance(rec, Live):
        return ("!", places.get(rec.outcome), rec.number, rec.start, rec.life, rec.consumer)
    stands: object = rec.entry
    if isinstance(rec.entry, int):
        stands = k.streams[rec.stream].get(rec.entry) == job
    flags = {
        letter
        for letter, is_set in (("c", rec.cancel), ("p", rec.parked), ("l", rec.limited), ("w", rec.woken))
        if is_set
    }
    return (stands, rec.number, rec.life, flags, rec.band, rec.front, rec.window)


def _begun(k: Keys, job: Id) -> bool:
    rec = k.jobs.get(job)
    return k.runs[job].entry is not None and isinstance(rec, Live) and rec.entry == k.runs[job].entry


def _place(text: bytes) -> tuple[int, int]:
    order, _, nth = text.partition(b".")
    return int(order), int(nth)


def _record(rec: bytes, entries: list[dict[bytes, str]], places: dict[bytes, int]) -> tuple[object, ...]:
    if rec.startswith(b"!"):
        _, outcome, number, start, life, consumer = rec.split(b" ")
        return ("!", places.get(outcome), int(number), int(start), int(life), consumer.decode())
    match = _LIVE.match(rec)
    assert match is not None
    entry, _, number, life, flags, band, window, _ = match.groups()
    stream = min(int(band), 3)
    stands: object = entry in entries[stream]
    if entry == b"-":
        stands = None
    elif entry.startswith(b"="):
        stands = _place(entry[1:])
    letters = set(flags.decode()) - {"-", "x"}
    return (stands, int(number), int(life), letters, int(band) % 3, int(band) > 2, int(window) // UNIT_MS)


def _run(text: bytes, rec: bytes) -> tuple[object, ...]:
    starts, attempts, losses, holder, entry, lease, last = text.split(b" ")
    consumer, _, start = last.decode().partition("/")
    begun = entry != b"-" and not rec.startswith(b"!") and rec.split(b" ")[0] == entry
    known = (consumer, int(start)) if start else None
    return (int(starts), int(attempts), int(losses), holder.decode(), begun, int(lease) // UNIT_MS, known)


def _told(text: bytes) -> tuple[object, ...]:
    word, life, number, attempts, due, _ = text.partition(b"\n")[0].split(b" ")
    return (word.decode(), int(life), int(number), int(attempts), due != b"0")
