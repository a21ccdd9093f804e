"""publish and enqueue: a job is put in its place once, whatever is repeated."""

from __future__ import annotations

from uuid import uuid4

import pytest

from redisjobs.base.envelope import Envelope
from redisjobs.broker import Fence, OtherLife, Publication, Stale
from redisjobs.errors import StoreRefused
from tests.support.builders import envelope, publication
from tests.support.queue import QueueByHand

EVERY_BYTE = bytes(range(256))
YEAR_9999_MS = 252_000_000_000_000  # some 8 000 years


async def test_a_job_goes_to_the_stream_of_its_band_and_comes_out_as_it_was(q: QueueByHand):
    jobs = [publication(band=band, number=3, life=2, attempts=4) for band in (0, 1, 2)]

    assert await q.publish(*jobs) == [("new", None)] * 3

    assert q.depths() == [1, 1, 1, 0]
    taken = await q.take()
    assert [(each.job_id, each.body) for each in taken] == [(job.job_id, job.envelope) for job in jobs]
    assert {(each.number, each.life, each.attempts, each.start, each.losses) for each in taken} == {(3, 2, 4, 1, 0)}


async def test_a_placed_job_is_a_repeat_and_nothing_is_written(q: QueueByHand):
    waiting, later, running, ended = (publication(), publication(delay_ms=60_000), publication(), publication())
    await q.publish(running, ended)
    await q.take_one()
    await q.finish(await q.take_one())
    await q.publish(waiting, later)
    before = q.dump()

    words = await q.publish(waiting, later, running, ended)

    assert words == [("repeat", None)] * 4
    assert q.dump() == before


async def test_the_same_job_twice_in_one_call_is_one_job(q: QueueByHand):
    job = publication()

    assert [word for word, _ in await q.publish(job, job)] == ["new", "repeat"]

    assert q.depths() == [0, 1, 0, 0]
    assert len(await q.take()) == 1


async def test_a_key_belongs_to_the_first_of_two_jobs_in_one_call(q: QueueByHand):
    first, second = publication(key=b"order-1"), publication(key=b"order-1")

    assert await q.publish(first, second) == [("new", None), ("dup", first.job_id)]

    assert [each.job_id for each in await q.take()] == [first.job_id]
    assert await q.broker.holder("q", "order-1") == first.job_id


@pytest.mark.parametrize("key", [b"order-1", b"two words\nand a line", b"\xff\xfe\x00\n ", EVERY_BYTE, b"0" * 512])
async def test_a_key_is_held_until_its_job_ends_and_compared_byte_for_byte(q: QueueByHand, key: bytes):
    first = publication(Envelope("add", "raw", EVERY_BYTE), key=key)
    await q.publish(first)

    assert await q.publish(publication(key=key)) == [("dup", first.job_id)]
    assert await q.publish(publication(key=key + b" ")) == [("new", None)]
    assert (await q.take_one()).body == first.envelope

    await q.run_all()
    await q.broker.recall("q", "w1", lease_ms=1000)
    assert await q.finish((await q.broker.recall("q", "w1", lease_ms=1000))[0]) == "ok"
    assert await q.publish(publication(key=key)) == [("new", None)]


async def test_a_window_keeps_the_key_after_the_end_and_then_gives_it_free(q: QueueByHand):
    first = publication(key=b"k", window_ms=60_000)
    await q.publish(first)
    await q.run_all()

    assert await q.publish(publication(key=b"k")) == [("kept", first.job_id)]
    assert await q.broker.holder("q", "k") == first.job_id

    q.redis.zadd(q.key("windows"), {b"k": 1})  # its end has come
    assert await q.broker.holder("q", "k") is None
    assert await q.publish(publication(key=b"k")) == [("new", None)]
    await q.run_all()
    await q.settle()
    q.bury()
    assert q.left() == {}


async def test_a_window_that_ended_is_buried_but_not_under_a_new_owner(q: QueueByHand):
    await q.publish(publication(key=b"k", window_ms=1), publication(key=b"other", window_ms=1))
    await q.run_all()
    q.redis.zadd(q.key("windows"), {b"k": 1, b"other": 1})
    second = publication(key=b"k")
    await q.publish(second)

    q.script("bury", 100, 0)

    assert q.redis.hgetall(q.key("keys")) == {b"k": second.job_id}


async def test_a_key_without_window_whose_owner_is_unknown_is_free(q: QueueByHand):
    q.redis.hset(q.key("keys"), b"k", uuid4().bytes)

    assert await q.broker.holder("q", "k") is None
    assert await q.publish(publication(key=b"k")) == [("new", None)]


async def test_other_queues_have_other_keys(q: QueueByHand, redis_url: str):
    await q.publish(publication(key=b"k"))

    async with QueueByHand(redis_url, "other") as other:
        assert await other.publish(publication(key=b"k")) == [("new", None)]


@pytest.mark.parametrize("expire_ms", [-5_000, 0])
async def test_what_has_expired_says_so_and_is_still_delivered(q: QueueByHand, expire_ms: int):
    await q.publish(publication(expire_ms=expire_ms))

    assert (await q.take_one()).expired is True


@pytest.mark.parametrize("expire_ms", [None, 60_000, YEAR_9999_MS])
async def test_what_expires_later_or_never_does_not_say_so(q: QueueByHand, expire_ms: int | None):
    job = publication(expire_ms=expire_ms, key=b"k")
    await q.publish(job)

    delivery = await q.take_one()

    assert (delivery.expired, delivery.body) == (False, job.envelope)
    assert await q.finish(delivery) == "ok"


async def test_a_job_of_the_far_future_waits(q: QueueByHand):
    await q.publish(publication(delay_ms=YEAR_9999_MS))

    promoted = await q.broker.promote("q")

    assert promoted.moved == 0
    assert promoted.next_due_ms is not None
    assert promoted.next_due_ms > YEAR_9999_MS - 60_000


async def test_a_higher_life_is_no_repeat_and_clears_what_remains(q: QueueByHand):
    job = publication(key=b"k")
    await q.publish(job)
    await q.finish(await q.take_one(), "dead")
    again = publication(job_id=job.job_id, life=1, number=2, key=b"k")

    assert await q.publish(again) == [("new", None)]
    assert await q.publish(again) == [("repeat", None)]
    assert await q.publish(job) == [("repeat", None)]  # a late request of the former life

    delivery = await q.take_one()
    assert (delivery.life, delivery.number, delivery.start) == (1, 2, 1)
    assert await q.publish(publication(key=b"k")) == [("dup", job.job_id)]


async def test_a_running_job_of_a_lower_life_loses_its_right(q: QueueByHand):
    job = publication()
    await q.publish(job)
    former = await q.take_one("w1")

    await q.publish(publication(job_id=job.job_id, life=1, number=2))
    present = await q.take_one("w2")

    assert await q.finish(former, consumer="w1") == "lost"
    assert await q.finish(present, consumer="w2") == "ok"
    assert [outcome.life for outcome in await q.outcomes()] == [1]


async def test_a_relay_below_the_fence_writes_nothing(q: QueueByHand):
    await q.carrier.open("q", 2, paused=False)
    before = q.dump()

    with pytest.raises(Stale, match="token 1 is below the fence"):
        await q.publish(publication())

    assert q.dump() == before


async def test_a_relay_in_another_life_writes_nothing(q: QueueByHand):
    before = q.dump()

    with pytest.raises(OtherLife, match="life-0"):
        await q.carrier.publish(Fence("q", 1, "life-0"), [publication()])

    assert q.dump() == before


async def test_a_direct_job_has_no_fence_and_is_repeated_by_its_id(q: QueueByHand):
    job = publication(direct=True, key=b"k")

    assert await q.broker.enqueue_direct("q", [job]) == [("new", None)]
    assert await q.broker.enqueue_direct("q", [job, publication(key=b"k")]) == [("repeat", None), ("dup", job.job_id)]

    assert (await q.take_one()).direct is True
    assert await q.broker.queues() == {"q"}


def test_direct_jobs_that_do_not_come_in_sevens_are_refused(q: QueueByHand):
    with pytest.raises(StoreRefused, match="malformed"):
        from redisjobs.broker.broker import placed  # noqa: PLC0415

        placed(q.script("enqueue", 2, *publication().arguments()), 2)
    assert q.depths() == [0, 0, 0, 0]


async def test_a_record_that_nobody_can_read_is_replaced(q: QueueByHand):
    job = publication()
    q.redis.hset(q.key("jobs"), job.job_id, EVERY_BYTE)

    assert await q.publish(job) == [("new", None)]
    assert (await q.take_one()).body == job.envelope


async def test_every_envelope_comes_back_byte_for_byte(q: QueueByHand):
    bodies = [EVERY_BYTE, b"", b"\n", b"\n\n0 0", b"! 1-1 1 1 0 w", "zwölf".encode(), envelope().pack()]
    jobs = [Publication(bytes([n]) + b"\n \x00\xff" + bytes(11), body, key=b"\n") for n, body in enumerate(bodies)]
    for job in jobs:
        await q.publish(job)
        delivery = await q.take_one()
        assert (delivery.job_id, delivery.body) == (job.job_id, job.envelope)
        assert await q.finish(delivery, "retry", record=EVERY_BYTE) == "ok"
        await q.broker.promote("q")
        delivery = await q.take_one()
        assert delivery.body == job.envelope
        assert await q.finish(delivery, record=EVERY_BYTE) == "ok"
    assert {outcome.record for outcome in await q.outcomes()} == {EVERY_BYTE}
