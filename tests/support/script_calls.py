"""Every script, called on a queue in which every kind of job stands. For tests that hold for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from redisjobs.broker import Ask, Delivery, Entry, Publication, Rate, Want
from tests.support.builders import publication
from tests.support.queue import QueueByHand


class Stage:
    """A queue in which every kind of job stands: waiting, due, running, read only, ended, settled, suspended."""

    def __init__(self, q: QueueByHand) -> None:
        self.q = q
        self.waiting = publication(key=b"waiting", band=0)
        self.due = publication(delay_ms=60_000, key=b"due")
        self.slept = publication(key=b"slept", lane=b"slept", order=1)
        self.behind, self.behind_slept = (publication(lane=name, order=9) for name in (b"lane", b"slept"))
        self.shared = [publication(share=share) for share in (b"a", b"a", b"a", b"b")]
        self.running: list[Delivery] = []
        self.entry = Entry(2, b"", b"")
        self.has, self.begins, self.waits, self.called = (_ask(n) for n in (1, 2, 3, 4))

    async def set(self) -> None:
        q = self.q
        assert await q.take() == []  # makes the groups
        lanes = {1: b"lane", 4: b"another"}
        await q.publish(
            *[
                publication(key=str(n).encode(), window_ms=60_000 * (n % 2), lane=lanes.get(n, b""), order=n)
                for n in range(8)
            ]
        )
        *self.running, done, dead = await q.take()
        await q.finish(done)
        await q.settle()
        await q.finish(dead, "dead")
        await q.carrier.cancel(q.fence, [(self.running[0].job_id, 0, 0)])
        await q.publish(self.slept)
        await q.finish(await q.take_one(), "suspended", delay_ms=-1)
        await q.publish(publication(band=2))
        (self.entry,) = await q.broker.wait("q", "w1", 1000)
        await q.publish(self.waiting, self.due, self.behind, self.behind_slept)
        await q.publish(*self.shared)  # one of them has its turn, and stands in the front
        for ask in (self.has, self.begins, self.waits, self.called):
            q.script("admit", "w1", 60_000, *ask.arguments())
        q.script("release", "w1", self.begins.job_id, 1)  # and a place is kept for the next one
        self.last = _ask(5)
        q.script("admit", "w1", 60_000, *self.last.arguments(), *_soon(6), *_soon(7))

    def token(self, n: int) -> tuple[bytes, bytes, int, int]:
        held = self.running[n]
        return held.job_id, held.entry, held.start, held.band


def _ask(n: int) -> Ask:
    """One that wants one of two, which several others want too."""
    return Ask(bytes([n] * 16), 1, "q", (Want("two", "two", most=2),))


def _soon(n: int) -> tuple[bytes | str | int, ...]:
    """One a second may begin."""
    return Ask(bytes([n] * 16), 1, "q", (Want("rate:7", "rate", rate=Rate(1, 1000)),)).arguments()


def _finish(word: str) -> Callable[[Stage], tuple[str, list[Any]]]:
    def call(s: Stage) -> tuple[str, list[Any]]:
        values: list[Any] = ["w1"]
        for n in range(3):
            job_id, entry, start, _ = s.token(n)
            values += [job_id, entry, start, word, 60_000, 1, b"record", ""]
        return "finish", values

    return call


def _jobs(*jobs: Publication) -> list[Any]:
    return [value for job in jobs for value in job.arguments()]


def _moves(*moves: tuple[Publication, int, int]) -> list[Any]:
    return [value for job, band, delay in moves for value in (job.job_id, 0, 0, band, delay, job.envelope)]


LANED = [publication(lane=b"fresh", order=n) for n in (2, 1)]
DIRECT = [publication(lane=name, direct=True) for name in (b"fresh", b"lane")]
FRESH = [publication(key=b"fresh"), publication(key=b"fresh"), publication(delay_ms=60_000, attempts=3)]
CALLS: dict[str, Callable[[Stage], tuple[str, list[Any]]]] = {
    "open": lambda s: ("open", [1, 0]),
    "open to pause": lambda s: ("open", [2, 1]),
    "open with shares": lambda s: ("open", [1, 0, "a", 1, 1, "b", 3, 0]),
    "adopt": lambda s: (
        "adopt",
        [
            1,
            "life-2",
            b"k",
            bytes(16),
            60_000,
            b"run",
            bytes(16),
            -1,
            b"waiting",
            bytes(16),
            60_000,
            b"l",
            bytes(16),
            -2,
        ],
    ),
    "publish": lambda s: ("publish", [1, "life-1", *_jobs(*FRESH, s.waiting, s.due)]),
    "publish what was suspended": lambda s: (
        "publish",
        [1, "life-1", *_jobs(publication(job_id=s.slept.job_id, number=2, after=1, key=b"slept"))],
    ),
    "publish another life": lambda s: (
        "publish",
        [1, "life-1", *_jobs(*[publication(job_id=held.job_id, life=1, number=2) for held in s.running[:1]])],
    ),
    "publish into lanes": lambda s: ("publish", [1, "life-1", *_jobs(*LANED, s.behind, s.behind_slept)]),
    "enqueue into lanes": lambda s: ("enqueue", [2, *_jobs(*DIRECT)]),
    "publish to a share": lambda s: ("publish", [1, "life-1", *_jobs(publication(share=b"c"), *s.shared)]),
    "enqueue": lambda s: ("enqueue", [3, *_jobs(*FRESH)]),
    "take, once nothing waits": lambda s: ("take", ["w2", 60_000, 100, "012"]),
    "begin": lambda s: ("begin", ["w1", 60_000, 1, s.entry.band, s.entry.entry, s.entry.job_id]),
    "begin without room": lambda s: ("begin", ["w1", 60_000, 0, s.entry.band, s.entry.entry, s.entry.job_id]),
    "recall": lambda s: ("recall", ["w1", 60_000, 100]),
    "renew": lambda s: ("renew", ["w1", *s.token(0), *s.token(1)]),
    "overtake": lambda s: ("overtake", ["w1", *s.token(1)[:3], 7, 3]),
    "progress": lambda s: ("progress", ["w1", *s.token(0)[:3], "{}", *s.token(1)[:3], "{}"]),
    "wake": lambda s: ("wake", [2, s.token(0)[0], 0, s.token(1)[0], 5000]),
    "finish limited": _finish("limited"),
    "finish done": _finish("done"),
    "finish dead": _finish("dead"),
    "finish cancelled": _finish("cancelled"),
    "finish expired": _finish("expired"),
    "finish retry": _finish("retry"),
    "finish retry skip": _finish("retry skip"),
    "finish snooze": _finish("snooze"),
    "finish suspended": _finish("suspended"),
    "finish parked": _finish("parked"),
    "finish released": _finish("released"),
    "reclaim": lambda s: ("reclaim", ["w2", 60_000, 100, 3]),
    "promote": lambda s: ("promote", [1000, 60_000]),
    "bury": lambda s: ("bury", [1000, 0]),
    "cancel": lambda s: (
        "cancel",
        [1, "life-1", s.waiting.job_id, 0, 0, s.due.job_id, 0, 0, s.running[1].job_id, 0, 0, bytes(16), 0, 0],
    ),
    "move": lambda s: (
        "move",
        [
            1,
            "life-1",
            *_moves((s.waiting, 2, -1), (s.due, 0, 0)),
            s.running[1].job_id,
            0,
            0,
            0,
            0,
            b"body",
            bytes(16),
            0,
            0,
            0,
            0,
            b"body",
        ],
    ),
    "move in lanes": lambda s: ("move", [1, "life-1", *_moves((s.behind, 0, 0), (s.behind_slept, 2, -1))]),
    "cancel in lanes": lambda s: ("cancel", [1, "life-1", s.behind.job_id, 0, 0, s.behind_slept.job_id, 0, 0]),
    "vacate": lambda s: (
        "vacate",
        [1, "life-1", b"slept", s.slept.job_id, b"lane", s.token(1)[0], b"another", s.behind.job_id],
    ),
    "settled": lambda s: ("settled", [1, "life-1", *s.q.redis.xrange(s.q.key("outcomes"))[-1][:1]]),
    "audit": lambda s: ("audit", [1, "life-1", s.waiting.job_id, 0, 0, s.behind.job_id, 0, 0, bytes(16), 0, 0]),
    "forget": lambda s: (
        "forget",
        [1, "life-1", s.waiting.job_id, s.due.job_id, s.behind.job_id, s.running[0].job_id, bytes(16)],
    ),
    "free": lambda s: ("free", [1, "life-1", b"slept", s.slept.job_id, 60_000, b"1", s.running[0].job_id, 0]),
    "holder": lambda s: ("holder", [b"waiting"]),
    "leave": lambda s: ("leave", ["w9"]),
    "admit": lambda s: (
        "admit",
        ["w1", 60_000, *s.has.arguments(), *_ask(9).arguments(), *s.waits.arguments(), *s.last.arguments(), *_soon(7)],
    ),
    "admit after a restart": lambda s: ("admit", ["w2", 60_000, *replace(s.has, start=2).arguments()]),
    "release": lambda s: ("release", ["w1", s.has.job_id, 1, bytes(16), 1]),
    "release what is gone": lambda s: ("release", ["w1", s.waits.job_id, 0]),
    "hold": lambda s: ("hold", ["w1", 60_000, s.has.job_id, 1, s.waits.job_id, 1]),
    "sweep": lambda s: ("sweep", ["w1", 60_000, 60_000]),
    "ease": lambda s: ("ease", ["rate:7", 60_000]),
    "ease, over": lambda s: ("ease", ["rate:7", 0]),
    "adjust": lambda s: ("adjust", ["two", "max 5", ""]),
    "adjust, taken back": lambda s: ("adjust", ["two", "", ""]),
    "present": lambda s: ("present", ["w1", 15_000, 0, "{}"]),
    "present, to go": lambda s: ("present", ["w1", 0, 0, ""]),
}
