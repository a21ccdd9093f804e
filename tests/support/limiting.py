"""The limiter, driven by hand: what workers ask it, and a look behind it.

h.admit(h.ask(1, two))  →  h.hold(1)  →  h.release(1)  →  h.left()
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import redis as redis_py
from redis.backoff import NoBackoff
from redis.retry import Retry

from redisjobs.broker import GONE, Ask, Heart, Limiter, Rate, Verdict, Want, Woken
from redisjobs.broker.client import connect
from redisjobs.broker.keys import NO_QUEUE
from tests.support.queue import dump

LEASE_MS = 60_000


def job_id(n: int) -> bytes:
    return n.to_bytes(16, "big")


def limit(key: str, most: int = 1, weight: int = 1) -> Want:
    """So many at once; what stands before a colon is the limit's name."""
    return Want(key, key.partition(":")[0], weight, most=most)


def rate(key: str, count: int, period_ms: int, burst: int = 0) -> Want:
    return Want(key, key.partition(":")[0], rate=Rate(count, period_ms, burst))


def ask(n: int, *wants: Want, start: int = 1, queue: str = "q") -> Ask:
    return Ask(job_id(n), start, queue, wants)


class LimiterByHand:
    """Jobs are numbers here.

    Attributes:
        redis: a plain client without retries, for looking and for doing harm.
    """

    def __init__(self, url: str) -> None:
        self.limiter = Limiter(connect(url))
        self.heart = Heart(url)
        self.redis: Any = redis_py.Redis.from_url(url, socket_timeout=30, retry=Retry(NoBackoff(), 0))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.limiter.redis.aclose()
        self.heart.close()
        self.redis.close()

    async def admit(self, *asks: Ask, consumer: str = "w1", lease_ms: int = LEASE_MS) -> list[Verdict]:
        return await self.limiter.admit(consumer, asks, lease_ms)

    async def words(self, *asks: Ask, consumer: str = "w1", lease_ms: int = LEASE_MS) -> list[str]:
        """Only the words of the verdicts."""
        return [verdict.word for verdict in await self.admit(*asks, consumer=consumer, lease_ms=lease_ms)]

    async def release(self, *jobs: int, start: int = 1, consumer: str = "w1") -> list[int]:
        """Answers who is to come now."""
        return numbers(await self.limiter.release(consumer, [(job_id(n), start) for n in jobs]))

    async def gone(self, *jobs: int) -> list[int]:
        """Jobs that were told to come and are not there."""
        return await self.release(*jobs, start=GONE)

    async def sweep(self, every_ms: int = 0) -> list[int]:
        return numbers(await self.limiter.sweep("w1", every_ms))

    def hold(self, *jobs: int, start: int = 1, consumer: str = "w1", lease_ms: int = LEASE_MS) -> set[int]:
        """Renew; answers what is lost."""
        lost = self.heart.hold(consumer, lease_ms, [(job_id(n), start) for n in jobs])
        return {int.from_bytes(each) for each in lost}

    # -- behind it
    def key(self, name: str) -> bytes:
        return self.limiter.keys.key(NO_QUEUE, name)

    def lapse(self, *jobs: int) -> None:
        """Their lease has ended, or the time for which something was kept for them."""
        for n in jobs:
            self.redis.zadd(self.key("expiry"), {job_id(n): 1}, xx=True)

    def pass_looks(self) -> None:
        """The next sweep looks at all that some sweep is to look at."""
        for key in self.redis.zrange(self.key("look"), 0, -1):
            self.redis.zadd(self.key("look"), {key: 1})

    def used(self) -> dict[str, int]:
        return {key.decode(): int(value) for key, value in self.redis.hgetall(self.key("used")).items() if key}

    def state(self, n: int) -> str:
        """h, r or x, as `lib/permit.lua` has it; empty: it has no permit."""
        permit = self.redis.hget(self.key("held"), job_id(n))
        return permit[:1].decode() if permit else ""

    def left(self) -> dict[bytes, Any]:
        """Everything but `life`."""
        found = dump(self.redis, b"rj:{-}:")
        found.pop(self.key("life"), None)
        return found


def numbers(woken: Iterable[Woken]) -> list[int]:
    return [int.from_bytes(each.job_id) for each in woken]


_HASHES = ("life", "held", "used", "tickets")
_SETS = ("expiry", "line", "heads", "idle", "asleep", "look")


class Lines:
    """Who has what and who waits, as Redis holds it at this moment.

    Attributes:
        permits, tickets: of which jobs there are some.
        seq: the place of each job that has one. in_line: those that stand in a line.
        looked_at: limit keys that the next sweep looks at.
    """

    def __init__(self, h: LimiterByHand) -> None:
        pipeline = h.redis.pipeline(transaction=True)
        pipeline.time()
        for name in _HASHES:
            pipeline.hgetall(h.key(name))
        for name in _SETS:
            pipeline.zrange(h.key(name), 0, -1, withscores=True)
        (seconds, micros), *found = pipeline.execute()
        now_ms = seconds * 1000 + micros // 1000
        self._found: dict[str, dict[bytes, Any]] = dict(zip((*_HASHES, *_SETS), map(dict, found), strict=True))
        self._permits = {int.from_bytes(each): _permit(text) for each, text in self._get("held").items()}
        self._tickets = {int.from_bytes(each): _ticket(text) for each, text in self._get("tickets").items()}
        self.permits, self.tickets = set(self._permits), set(self._tickets)
        self.seq = {n: seq for n, (seq, *_) in self._tickets.items()}
        self.in_line = {n for n, (_, _, where, _) in self._tickets.items() if where}
        self.looked_at = {key.decode() for key, at in self._get("look").items() if at <= now_ms}
        self._asleep = {queue.decode() for queue, until in self._get("asleep").items() if until > now_ms}
        patient = self._get("life").get(b"patient", b"")
        self._patient = int.from_bytes(patient[:16]) if patient else None

    def _get(self, name: str) -> dict[bytes, Any]:
        return self._found[name]

    def used(self) -> dict[str, int]:
        """As the permits have it."""
        used: dict[str, int] = {}
        for state, wants in self._permits.values():
            for kind, key, weight in wants if state != "x" else ():
                if kind == "l" or state == "r":
                    used[key] = used.get(key, 0) + (weight if kind == "l" else 1)
        return used

    def check(self) -> None:
        """Each thing that is written twice says the same."""
        assert {key.decode(): int(value) for key, value in self._get("used").items() if key} == self.used()
        expected = {
            f"{where}\n{queue}\n{seq:016}\n".encode() + job_id(n)
            for n, (seq, queue, where, _) in self._tickets.items()
            if where
        }
        line = set(self._get("line"))
        assert line == expected, "the lines hold exactly the tickets that stand in them"
        first: dict[tuple[bytes, bytes], bytes] = {}
        for member in sorted(line):
            key, queue, rest = member.split(b"\n", 2)
            first.setdefault((key, queue), rest)
        idle = {tuple(reversed(part.split(b"\n"))) for part in self._get("idle")}
        heads = {b"\n".join((key, rest[:16], queue, rest[17:])) for (key, queue), rest in first.items()}
        asleep = {
            b"\n".join((key, rest[:16], queue, rest[17:]))
            for (key, queue), rest in first.items()
            if (key, queue) in idle
        }
        assert set(self._get("heads")) == heads - asleep, "the first of each part that is awake is a head"
        late = {n for n, (_, _, where, _) in self._tickets.items() if not where}
        assert {int.from_bytes(each) for each in self._get("expiry")} == self.permits | late
        assert not self.permits & self.tickets

    def could_begin(self, most: dict[str, int]) -> set[str]:
        """Limit keys whose first one could have all that it wants now."""
        used = self.used()
        heads: dict[str, tuple[int, int]] = {}
        for member in sorted(self._get("heads")):
            key, seq, rest = member.split(b"\n", 2)
            if rest[:-17].decode() not in self._asleep:
                heads.setdefault(key.decode(), (int(seq), int.from_bytes(rest[-16:])))
        claims = (
            {key: weight for _, key, weight in self._tickets[self._patient][3]}
            if self._patient in self._tickets
            else {}
        )
        able: set[str] = set()
        for name, (place, n) in heads.items():
            fits = True
            for _, want, weight in self._tickets[n][3]:
                size = most[want.partition(":")[0]]
                claim = 0 if n == self._patient else min(claims.get(want, 0), size)
                fits = fits and used.get(want, 0) + min(weight, size) + claim <= size
                fits = fits and heads.get(want, (place, n))[0] >= place
            if fits:
                able.add(name)
        return able


def _permit(text: bytes) -> tuple[str, list[tuple[str, str, int]]]:
    head, _, wants = text.partition(b"\n")
    return head[:1].decode(), _wants(wants)


def _ticket(text: bytes) -> tuple[int, str, str, list[tuple[str, str, int]]]:
    head, where, wants = text.decode().split("\n", 2)
    seq, queue, _ = head.split(" ")
    return int(seq), queue, where, _wants(wants.encode())


def _wants(text: bytes) -> list[tuple[str, str, int]]:
    words = [line.split(" ", 5) for line in text.decode().splitlines()]
    return [(kind, key, int(weight)) for kind, weight, _, _, _, key in words]
