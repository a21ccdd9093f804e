"""take, wait, begin and recall: entries become deliveries, each under a token of its own."""

from __future__ import annotations

import asyncio

import pytest

from redisjobs.broker import Entry
from tests.support.builders import publication
from tests.support.queue import QueueByHand


async def test_the_high_band_comes_first_and_low_first_turns_it_round(q: QueueByHand):
    jobs = [publication(band=band) for band in (2, 1, 0, 2, 1, 0)]
    await q.publish(*jobs)

    first = (await q.broker.take("q", "w1", 3, lease_ms=1000)).deliveries
    second = (await q.broker.take("q", "w1", 2, lease_ms=1000, low_first=True)).deliveries

    assert [each.band for each in first] == [0, 0, 1]
    assert [each.band for each in second] == [2, 2]


async def test_a_band_hands_out_in_the_order_of_publication(q: QueueByHand):
    jobs = [publication() for _ in range(10)]
    await q.publish(*jobs)

    assert [each.job_id for each in await q.take()] == [job.job_id for job in jobs]


async def test_take_makes_the_groups_and_finds_what_was_published_before(q: QueueByHand):
    assert await q.take() == []  # the very first look, at an empty Redis
    q.redis.delete(q.key("ready1"))
    await q.publish(publication())

    assert len(await q.take()) == 1


async def test_no_free_slot_takes_nothing(q: QueueByHand):
    await q.publish(publication())

    assert await q.take(count=0) == []
    assert len(await q.take(count=1)) == 1


async def test_a_paused_queue_gives_nothing_until_it_is_resumed(q: QueueByHand):
    await q.publish(publication())
    await q.open(token=2, paused=True)

    assert (await q.broker.take("q", "w1", 10, lease_ms=1000)).paused is True

    await q.open(token=3, paused=False)
    assert len(await q.take()) == 1


async def waited(q: QueueByHand, count: int, consumer: str = "w1") -> list[Entry]:
    """Entries as a blocking read brings them."""
    await q.take(consumer, 0)
    for stream in ("ready0", "ready1", "ready2", "ready3"):
        q.redis.xgroup_create(q.key(stream), "workers", "0", mkstream=True)
    await q.publish(*[publication() for _ in range(count)])
    entries: list[Entry] = []
    while len(entries) < count:
        entries += await q.broker.wait("q", consumer, 1000)
    return entries


async def test_an_entry_that_was_waited_for_is_begun(q: QueueByHand):
    entries = await waited(q, 1)

    (delivery,) = (await q.broker.begin("q", "w1", entries, lease_ms=1000)).deliveries

    assert (delivery.entry, delivery.job_id, delivery.start) == (entries[0].entry, entries[0].job_id, 1)
    assert await q.finish(delivery) == "ok"


async def test_waiting_ends_without_a_group_and_with_the_time(q: QueueByHand):
    assert await q.broker.wait("q", "w1", 1000) == []
    await q.take()
    assert await q.broker.wait("q", "w1", 1) == []


async def test_a_repeated_begin_answers_the_same_token(q: QueueByHand):
    entries = await waited(q, 3)

    first = await q.broker.begin("q", "w1", entries, lease_ms=1000)
    before = q.dump()
    second = await q.broker.begin("q", "w1", entries, lease_ms=1000)

    assert first == second
    assert q.dump() == before


async def test_entries_beyond_the_room_go_back_for_others(q: QueueByHand):
    entries = await waited(q, 3)

    begun = (await q.broker.begin("q", "w1", entries, lease_ms=1000, room=1)).deliveries

    assert [each.job_id for each in begun] == [entries[0].job_id]
    assert {each.job_id for each in await q.take("w2")} == {entries[1].job_id, entries[2].job_id}


async def test_entries_of_a_paused_queue_go_back_and_count_no_start(q: QueueByHand):
    entries = await waited(q, 2)
    await q.open(token=2, paused=True)

    assert (await q.broker.begin("q", "w1", entries, lease_ms=1000)).paused is True

    await q.open(token=3, paused=False)
    assert [(each.job_id, each.start) for each in await q.take()] == [(each.job_id, 1) for each in entries]


@pytest.mark.parametrize("paused", [True, False])
async def test_what_was_begun_already_is_never_put_back(q: QueueByHand, paused: bool):
    entries = await waited(q, 2)
    begun = (await q.broker.begin("q", "w1", entries, lease_ms=1000)).deliveries
    await q.open(token=2, paused=paused)

    await q.broker.begin("q", "w1", entries, lease_ms=1000, room=0)

    assert await q.broker.recall("q", "w1", lease_ms=1000) == begun
    assert [await q.finish(each) for each in begun] == ["ok", "ok"]


async def test_an_entry_that_another_reclaimed_is_dropped(q: QueueByHand):
    entries = await waited(q, 1)
    q.redis.xclaim(q.key("ready1"), "workers", "w2", 0, [entries[0].entry])

    assert (await q.broker.begin("q", "w1", entries, lease_ms=1000)).deliveries == []
    assert len(await q.broker.recall("q", "w2", lease_ms=1000)) == 1


async def test_begin_outlives_an_emptied_redis(q: QueueByHand):
    entries = await waited(q, 1)
    q.redis.flushall()

    assert (await q.broker.begin("q", "w1", entries, lease_ms=1000)).deliveries == []


async def test_a_foreign_entry_is_dropped_and_what_is_behind_it_runs(q: QueueByHand):
    await q.take()
    q.redis.xadd(q.key("ready1"), {b"payload": b"\x80\x04cos\nsystem\n"})
    q.redis.xadd(q.key("ready1"), {b"j": b"nobody"})
    await q.publish(publication())

    entries = await q.broker.wait("q", "w1", 1000)
    assert (await q.broker.begin("q", "w1", entries, lease_ms=1000)).deliveries == []
    assert len(await q.take()) == 1
    assert q.depths() == [0, 1, 0, 0]


async def test_two_blocked_readers_never_get_the_same_job(q: QueueByHand):
    await q.take()
    started: list[bytes] = []

    async def read(consumer: str) -> None:
        while len(started) < 50:
            entries = await q.broker.wait("q", consumer, 200)
            started.extend(
                each.job_id for each in (await q.broker.begin("q", consumer, entries, lease_ms=5000)).deliveries
            )

    readers = [asyncio.create_task(read(name)) for name in ("w1", "w2")]
    jobs = [publication() for _ in range(50)]
    for job in jobs:
        await q.publish(job)
    await asyncio.gather(*readers)

    assert sorted(started) == sorted(job.job_id for job in jobs)


async def test_recall_tells_what_is_mine_with_the_same_tokens(q: QueueByHand):
    await q.publish(*[publication(band=band) for band in (0, 1, 2, 1)])
    taken = await q.take("w1", 3)
    await q.take("w2", 1)

    assert await q.broker.recall("q", "w1", lease_ms=1000) == taken
    assert await q.broker.recall("q", "w3", lease_ms=1000) == []


async def test_recall_begins_what_was_read_and_never_begun(q: QueueByHand):
    entries = await waited(q, 1)

    (delivery,) = await q.broker.recall("q", "w1", lease_ms=1000)

    assert (delivery.job_id, delivery.start) == (entries[0].job_id, 1)


async def test_recall_gives_back_what_was_never_begun_while_the_queue_is_paused(q: QueueByHand):
    await q.publish(publication())
    begun = await q.take_one()
    assert await q.take() == []  # which makes the groups of all bands
    await q.publish(publication())
    entries = await q.broker.wait("q", "w1", 1000)
    await q.open(token=2, paused=True)

    assert await q.broker.recall("q", "w1", lease_ms=1000) == [begun]

    await q.open(token=3, paused=False)
    assert [each.job_id for each in await q.take("w2")] == [entries[0].job_id]


async def test_a_group_that_was_lost_starts_nothing_twice(q: QueueByHand):
    await q.publish(publication(), publication())
    running = await q.take_one()
    q.redis.xgroup_destroy(q.key("ready1"), "workers")

    again = await q.take()

    assert len(again) == 1
    assert again[0].job_id != running.job_id
    assert q.heart.renew("q", "w1", [(running.job_id, running.entry, running.start, running.band)]) == {}
    assert [await q.finish(each) for each in (running, *again)] == ["ok", "ok"]
    assert q.depths() == [0, 0, 0, 0]
