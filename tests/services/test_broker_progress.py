"""progress: written by the holder alone, kept with the run, and gone with it (rule W9)."""

from __future__ import annotations

from redisjobs.broker import Delivery
from tests.support.builders import publication
from tests.support.eventually import eventually
from tests.support.queue import QueueByHand


def report(delivery: Delivery, text: bytes) -> tuple[bytes, bytes, int, bytes]:
    return delivery.job_id, delivery.entry, delivery.start, text


async def done(q: QueueByHand, job_id: bytes) -> tuple[float, int] | None:
    told = await q.broker.progress("q", job_id)
    return (told.done, told.start) if told else None


async def test_the_latest_report_of_the_holder_stands(q: QueueByHand):
    await q.publish(publication(), publication())
    first, second = await q.take()

    q.heart.progress("q", "w1", [report(first, b'[1,10,""]'), report(second, b'[5,null,""]')])
    q.heart.progress("q", "w1", [report(first, b'[2,10,""]')])

    assert await done(q, first.job_id) == (2, 1)
    assert await done(q, second.job_id) == (5, 1)
    assert q.heart.renew("q", "w1", [(first.job_id, first.entry, first.start, first.band)]) == {}


async def test_whoever_lost_the_lease_writes_nothing(q: QueueByHand):
    await q.publish(publication())
    lost = await q.take_one(lease_ms=1)
    (held,) = await eventually(lambda: q.reclaim("w2"), "the lease has lapsed")

    q.heart.progress("q", "w1", [report(lost, b'[9,10,""]')])
    assert await done(q, held.job_id) is None

    q.heart.progress("q", "w2", [report(held, b'[1,10,""]')])
    q.heart.progress("q", "w1", [report(lost, b'[9,10,""]'), report(held, b'[9,10,""]')])
    assert await done(q, held.job_id) == (1, 2)


async def test_it_goes_with_the_job(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()
    q.heart.progress("q", "w1", [report(held, b'[1,10,""]')])

    assert await q.finish(held) == "ok"
    q.heart.progress("q", "w1", [report(held, b'[10,10,""]')])

    assert await done(q, held.job_id) is None
    assert q.run(held.job_id) == []


async def test_it_stays_while_the_job_waits_for_its_next_attempt(q: QueueByHand):
    await q.publish(publication())
    held = await q.take_one()
    q.heart.progress("q", "w1", [report(held, b'[1,10,""]')])

    assert await q.finish(held, "retry", delay_ms=1, counted=True) == "ok"
    q.heart.progress("q", "w1", [report(held, b'[7,10,"last words"]')])  # after its end, before another start
    assert await done(q, held.job_id) == (7, 1)

    while not (await q.broker.promote("q")).moved:
        pass
    again = await q.take_one("w2")
    assert (again.start, again.attempts) == (2, 1)
    assert await done(q, held.job_id) == (7, 1)
    q.heart.progress("q", "w1", [report(held, b'[8,10,""]')])
    assert await done(q, held.job_id) == (7, 1)
    assert await q.finish(again, consumer="w2") == "ok"
