"""Every script call may be repeated with the same arguments: its reply may have been lost. Nothing changes then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from redisjobs.base import scripts
from redisjobs.broker import Delivery, Entry, Publication
from tests.support.builders import publication
from tests.support.queue import QueueByHand

Call = Callable[[], Awaitable[object]]


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
REDRIVEN = publication(key=b"again")
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
}


def test_every_script_is_in_the_table():
    covered = {name.split()[0].rstrip(",") for name in CALLS}

    assert covered == set(scripts.names())


@pytest.mark.parametrize("name", CALLS)
async def test_a_repeated_call_changes_nothing(q: QueueByHand, name: str):
    stage = Stage(q)
    await stage.set()
    script, arguments = CALLS[name](stage)

    first = q.script(script, *arguments)
    before = q.dump(without=["swept"])
    second = q.script(script, *arguments)
    third = q.script(script, *arguments)

    assert q.dump(without=["swept"]) == before
    assert second == third
    if script in ("begin", "recall", "renew", "audit", "open", "adopt", "settled", "holder", "cancel"):
        assert second == _as_repeated(name, first)


def _as_repeated(name: str, first: Any) -> Any:
    """What a repeat answers: the same, but for jobs that had ended by the first call."""
    if name == "cancel":
        return [b"ok", b"over", b"over", b"running", b"unknown"]
    if name == "begin without room":
        return [b"ok"]
    return first


async def test_every_reply_lost_on_the_way_of_a_job_it_still_ends_once(q: QueueByHand):
    """Each call is made twice and only the second answer is heard."""
    job = publication(key=b"k")
    await _twice(lambda: q.publish(job))
    await q.take()
    (delivery,) = await q.broker.recall("q", "w1", lease_ms=1000)
    assert await _twice(lambda: q.finish(delivery, "retry")) == "repeat"
    await _twice(lambda: q.broker.promote("q"))
    await q.take()
    (delivery,) = await q.broker.recall("q", "w1", lease_ms=1000)
    assert (delivery.start, delivery.attempts) == (2, 1)
    assert await _twice(lambda: q.finish(delivery)) == "repeat"

    assert [outcome.word for outcome in await q.outcomes()] == ["retry", "done"]
    await _twice(q.settle)
    q.bury()
    assert q.left() == {}


async def _twice(call: Call) -> object:
    await call()
    return await call()


async def test_an_emptied_script_cache_is_not_noticed(q: QueueByHand):
    ran: list[bytes] = []

    async def storm() -> None:
        while len(ran) < 300:
            await q.broker.redis.script_flush()

    flushing = asyncio.create_task(storm())
    while len(ran) < 300:
        assert await q.publish(*[publication() for _ in range(10)]) == [("new", None)] * 10
        for delivery in await q.take():
            lease = (delivery.job_id, delivery.entry, delivery.start, delivery.band)
            assert await asyncio.to_thread(q.heart.renew, "q", "w1", [lease]) == {}
            assert await q.finish(delivery) == "ok"
            ran.append(delivery.job_id)
    await flushing

    assert len(ran) == len(set(ran)) == len(await q.settle())
