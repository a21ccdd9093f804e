"""move: what waits gets another band or time, what runs is left alone, and each job keeps one place."""

from __future__ import annotations

from uuid import uuid4

import pytest

from redisjobs.broker import Fence, Move, OtherLife, Publication, Stale
from tests.support.builders import envelope, publication
from tests.support.queue import QueueByHand


def moving(job: Publication, band: int = 1, delay_ms: int | None = None, **given: int) -> Move:
    fields = {"life": job.life, "after": job.after} | given
    return Move(job.job_id, fields["life"], fields["after"], band, delay_ms, job.envelope)


def due_in_ms(q: QueueByHand, job: Publication) -> float:
    seconds, micros = q.redis.time()
    score: float = q.redis.zscore(q.key("due"), job.job_id)
    return score - float(seconds * 1000 + micros / 1000)


async def move(q: QueueByHand, *moves: Move) -> list[str]:
    return await q.carrier.move(q.fence, moves)


async def test_a_waiting_job_goes_to_the_end_of_its_new_band(q: QueueByHand):
    low, first, second = publication(band=2), publication(band=0), publication(band=1)
    await q.publish(low, first, second)

    assert await move(q, moving(low, 0), moving(second, 2)) == ["moved", "moved"]

    assert q.depths()[:3] == [2, 0, 1]
    assert [each.job_id for each in await q.take()] == [first.job_id, low.job_id, second.job_id]


async def test_a_job_keeps_its_place_in_line_where_its_band_stays(q: QueueByHand):
    one, other = publication(), publication()
    await q.publish(one, other)

    assert await move(q, moving(one, 1), moving(one, 1, 0)) == ["moved", "moved"]

    assert [each.job_id for each in await q.take()] == [one.job_id, other.job_id]


async def test_a_waiting_job_waits_for_its_new_time(q: QueueByHand):
    job = publication(key=b"k")
    await q.publish(job)

    assert await move(q, moving(job, 0, 60_000)) == ["moved"]

    assert await q.take() == []
    assert 50_000 < due_in_ms(q, job) <= 60_000
    assert await move(q, moving(job, 0, 0)) == ["moved"]
    assert [(each.job_id, each.band) for each in await q.take()] == [(job.job_id, 0)]
    assert await q.publish(publication(key=b"k")) == [("dup", job.job_id)]


async def test_a_job_that_is_due_gets_another_band_and_keeps_its_time(q: QueueByHand):
    job = publication(delay_ms=60_000)
    await q.publish(job)
    before = due_in_ms(q, job)

    assert await move(q, moving(job, 2)) == ["moved"]

    assert abs(due_in_ms(q, job) - before) < 5_000
    q.redis.zadd(q.key("due"), {job.job_id: 1})
    assert await q.run_all() == [job.job_id]


async def test_a_retry_may_come_at_once_and_a_parked_job_is_no_longer_parked(q: QueueByHand):
    failed, parked = publication(), publication()
    await q.publish(failed, parked)
    for each, word in zip(await q.take(), ("retry", "parked"), strict=True):
        await q.finish(each, word, delay_ms=60_000, counted=word == "retry")  # type: ignore[arg-type]

    assert await move(q, moving(failed, 1, 0), moving(parked, 1, 0)) == ["moved", "moved"]

    again, tried = await q.take()
    assert (again.start, again.attempts) == (2, 1)
    assert (q.record(tried.job_id) or b"").split(b" ")[4] == b"-"


async def test_what_is_told_of_the_job_is_new_as_well(q: QueueByHand):
    job = publication(key=b"a key")
    await q.publish(job)

    await q.carrier.move(q.fence, [Move(job.job_id, 0, 0, 0, None, envelope("another").pack())])

    taken = await q.take_one()
    assert taken.body == envelope("another").pack()
    await q.finish(taken)
    assert q.redis.hgetall(q.key("keys")) == {}


async def test_a_running_job_is_left_as_it_is(q: QueueByHand):
    job = publication()
    await q.publish(job)
    held = await q.take_one()
    before = q.dump()

    assert await move(q, moving(job, 0, 60_000)) == ["running"]

    assert q.dump() == before
    assert await q.finish(held) == "ok"
    assert await move(q, moving(job, 0)) == ["over"]


async def test_an_entry_that_was_read_but_not_begun_moves_and_is_begun_once(q: QueueByHand):
    await q.take()
    job = publication()
    await q.publish(job)
    (entry,) = await q.broker.wait("q", "w1", 1000)

    assert await move(q, moving(job, 0)) == ["moved"]

    assert (await q.broker.begin("q", "w1", [entry], lease_ms=1000)).deliveries == []
    assert await q.broker.recall("q", "w1", lease_ms=1000) == []
    assert [each.job_id for each in await q.take("w2")] == [job.job_id]


async def test_a_job_without_a_place_or_of_another_life_is_unknown(q: QueueByHand):
    trimmed, redriven, suspended = publication(), publication(), publication()
    await q.publish(trimmed)
    (entry,) = [entry for entry, _ in q.redis.xrange(q.key("ready1"))]
    q.redis.xdel(q.key("ready1"), entry)
    await q.publish(suspended)
    await q.finish(await q.take_one(), "suspended", delay_ms=-1)
    await q.publish(redriven)

    moves = [moving(trimmed, 0), moving(publication(job_id=uuid4().bytes), 0), moving(redriven, 0, life=1)]
    assert await move(q, *moves, moving(suspended, 0, after=1)) == ["unknown"] * 4

    assert (await q.take_one()).job_id == redriven.job_id


async def test_thousands_move_in_one_call_and_each_has_one_end(q: QueueByHand):
    jobs = [publication(key=str(n).encode(), delay_ms=60_000 * (n % 2)) for n in range(3000)]
    await q.publish(*jobs)

    assert set(await move(q, *[moving(job, n % 3, 0) for n, job in enumerate(jobs)])) == {"moved"}
    assert set(await move(q, *[moving(job, n % 3, 0) for n, job in enumerate(jobs)])) == {"moved"}

    assert sorted(await q.run_all()) == sorted(job.job_id for job in jobs)
    assert len(await q.settle()) == 3000
    q.bury()
    assert q.left() == {}


async def test_a_stale_relay_moves_nothing(q: QueueByHand):
    job = publication()
    await q.publish(job)
    await q.carrier.open("q", 2, paused=False)
    before = q.dump()

    with pytest.raises(Stale):
        await move(q, moving(job, 0))
    with pytest.raises(OtherLife):
        await q.carrier.move(Fence("q", 2, "life-0"), [moving(job, 0)])

    assert q.dump() == before
