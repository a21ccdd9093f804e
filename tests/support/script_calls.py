"""Every script, called on a queue in which every kind of job stands. For tests that hold for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redisjobs.broker import Delivery, Entry, Publication
from tests.support.builders import publication
from tests.support.queue import QueueByHand


class Stage:
    """A queue in which every kind of job stands: waiting, due, running, read only, ended, settled."""

    def __init__(self, q: QueueByHand) -> None:
        self.q = q
        self.waiting = publication(key=b"waiting", band=0)
        self.due = publication(delay_ms=60_000, key=b"due")
        self.running: list[Delivery] = []
        self.entry = Entry(2, b"", b"")

    async def set(self) -> None:
        q = self.q
        assert await q.take() == []  # makes the groups
        await q.publish(*[publication(key=str(n).encode(), window_ms=60_000 * (n % 2)) for n in range(8)])
        *self.running, done, dead = await q.take()
        await q.finish(done)
        await q.settle()
        await q.finish(dead, "dead")
        await q.carrier.cancel(q.fence, [(self.running[0].job_id, 0)])
        await q.publish(publication(band=2))
        (self.entry,) = await q.broker.wait("q", "w1", 1000)
        await q.publish(self.waiting, self.due)

    def token(self, n: int) -> tuple[bytes, bytes, int, int]:
        held = self.running[n]
        return held.job_id, held.entry, held.start, held.band


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


FRESH = [publication(key=b"fresh"), publication(key=b"fresh"), publication(delay_ms=60_000, attempts=3)]
CALLS: dict[str, Callable[[Stage], tuple[str, list[Any]]]] = {
    "open": lambda s: ("open", [1, 0]),
    "open to pause": lambda s: ("open", [2, 1]),
    "adopt": lambda s: ("adopt", [1, "life-2", b"k", bytes(16), 60_000, b"waiting", bytes(16), 60_000]),
    "publish": lambda s: ("publish", [1, "life-1", *_jobs(*FRESH, s.waiting, s.due)]),
    "publish another life": lambda s: (
        "publish",
        [1, "life-1", *_jobs(*[publication(job_id=held.job_id, life=1, number=2) for held in s.running[:1]])],
    ),
    "enqueue": lambda s: ("enqueue", [3, *_jobs(*FRESH)]),
    "take, once nothing waits": lambda s: ("take", ["w2", 60_000, 100, "012"]),
    "begin": lambda s: ("begin", ["w1", 60_000, 1, s.entry.band, s.entry.entry, s.entry.job_id]),
    "begin without room": lambda s: ("begin", ["w1", 60_000, 0, s.entry.band, s.entry.entry, s.entry.job_id]),
    "recall": lambda s: ("recall", ["w1", 60_000, 100]),
    "renew": lambda s: ("renew", ["w1", *s.token(0), *s.token(1)]),
    "progress": lambda s: ("progress", ["w1", *s.token(0)[:3], "{}", *s.token(1)[:3], "{}"]),
    "finish done": _finish("done"),
    "finish dead": _finish("dead"),
    "finish cancelled": _finish("cancelled"),
    "finish expired": _finish("expired"),
    "finish retry": _finish("retry"),
    "finish snooze": _finish("snooze"),
    "finish suspended": _finish("suspended"),
    "finish parked": _finish("parked"),
    "finish released": _finish("released"),
    "reclaim": lambda s: ("reclaim", ["w2", 60_000, 100, 3]),
    "promote": lambda s: ("promote", [1000, 60_000]),
    "bury": lambda s: ("bury", [1000, 0]),
    "cancel": lambda s: (
        "cancel",
        [1, "life-1", s.waiting.job_id, 0, s.due.job_id, 0, s.running[1].job_id, 0, bytes(16), 0],
    ),
    "settled": lambda s: ("settled", [1, "life-1", *s.q.redis.xrange(s.q.key("outcomes"))[-1][:1]]),
    "audit": lambda s: ("audit", [1, "life-1", s.waiting.job_id, 0, bytes(16), 0]),
    "forget": lambda s: ("forget", [1, "life-1", s.waiting.job_id, s.due.job_id, s.running[0].job_id, bytes(16)]),
    "holder": lambda s: ("holder", [b"waiting"]),
    "leave": lambda s: ("leave", ["w9"]),
    "present": lambda s: ("present", ["w1", 15_000, 0, "{}"]),
    "present, to go": lambda s: ("present", ["w1", 0, 0, ""]),
}
