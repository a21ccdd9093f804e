"""Slots move and nodes die under load, with what nobody else was told: all that was committed is done, and once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import redis

from tests.faults.road import Road, last, sized
from tests.faults.shop import order
from tests.faults.test_faults_redis import all_up, load
from tests.support.eventually import eventually
from tests.support.redis_cluster import RedisCluster
from tests.support.sentinels import Sentinels

MakeRoad = Callable[..., Road]
StartCluster = Callable[..., RedisCluster]
StartSentinels = Callable[..., Sentinels]


async def running(road: Road) -> None:
    """Jobs whose bodies have begun, and go on for a second."""
    held = road.enqueue(order.call(seconds=1) for _ in range(10))
    await eventually(lambda: set(held) <= road.journal.started(), "bodies run", 30)


async def waiting(road: Road) -> list[str]:
    """Jobs that are in Redis, and that nobody has begun."""
    jobs = road.enqueue(order.using(delay=2).call() for _ in range(20))
    await eventually(lambda: "staged" not in {road.states().get(job) for job in jobs}, "Redis has them", 30)
    return jobs


@pytest.mark.timeout(sized(180, 900))
async def test_the_slot_of_a_queue_moves_while_its_jobs_run(make_road: MakeRoad, start_cluster: StartCluster):
    cluster = start_cluster()
    road = make_road(redis=cluster.url)
    relays, workers = await road.start(workers=2)

    for _ in range(sized(2, 10)):
        async with load(road):
            await asyncio.to_thread(cluster.move, "default", cluster.another("default"))
            await last(0.5)
        await road.works_within(30)

    assert all_up(*relays, *workers)
    await road.at_rest()


@pytest.mark.timeout(sized(180, 900))
async def test_a_primary_dies_with_what_its_replica_had_not_been_told(make_road: MakeRoad, start_cluster: StartCluster):
    cluster = start_cluster()
    road = make_road(redis=cluster.url)
    relays, workers = await road.start(workers=2)
    await road.works_within(30)

    for _ in range(sized(1, 5)):
        await running(road)
        async with load(road):
            await asyncio.to_thread(cluster.fail_over, "default", losing=lambda: asyncio.run(waiting(road)))
        for node in cluster.nodes:
            node.start()
        await eventually(cluster.is_whole, "every primary has a replica again", 40, despite=(redis.RedisError,))
        await road.works_within(40)

    assert all_up(*relays, *workers)
    await road.at_rest(60, extra=road.committed)  # an end that was lost is made once more, and accepted once


@pytest.mark.timeout(sized(180, 900))
async def test_queues_on_other_nodes_go_on_while_one_has_nobody(make_road: MakeRoad, start_cluster: StartCluster):
    cluster = start_cluster(cluster_require_full_coverage="no")
    road = make_road(redis=cluster.url)
    lost = next(node for node in cluster.primaries() if node is cluster.owner("rj:dirty"))
    queues = [f"q{number}" for number in range(40)]
    away = [queue for queue in queues if cluster.owner(queue) is lost][:4]
    there = [queue for queue in queues if cluster.owner(queue) is not lost][:4]
    relays, workers = [road.relay()], [road.worker("-q", ",".join([*away, *there]))]
    first = road.enqueue(order.using(queue=queue).call() for queue in (*away, *there))
    await eventually(lambda: set(first) <= road.done(), "all queues are served", 40)

    replica = cluster.replica(away[0])
    lost.kill()
    replica.kill()
    cut_off = road.enqueue(order.using(queue=queue).call() for queue in away)
    for _ in range(3):
        jobs = road.enqueue(order.using(queue=queue).call() for queue in there)
        await eventually(lambda: set(jobs) <= road.done(), "the other queues go on", 30)  # noqa: B023 - used at once
    assert not road.done() & set(cut_off)
    lost.start()
    replica.start()

    await eventually(lambda: set(cut_off) <= road.done(), "and so do those that were cut off", 40)
    assert all_up(*relays, *workers)
    await road.at_rest(60, extra=road.committed)  # an end that was lost is made once more, and accepted once


@pytest.mark.timeout(sized(180, 900))
async def test_sentinels_promote_a_replica_that_had_not_been_told_all(
    make_road: MakeRoad, start_sentinels: StartSentinels
):
    watched = start_sentinels()
    road = make_road(redis=watched.url)
    relays, workers = await road.start(workers=2)
    await road.works_within(30)

    for _ in range(sized(1, 5)):
        await running(road)
        async with load(road):
            await asyncio.to_thread(watched.fail_over, losing=lambda: asyncio.run(waiting(road)))
        await road.works_within(40)

    assert all_up(*relays, *workers)
    await road.at_rest(60, extra=road.committed)  # an end that was lost is made once more, and accepted once
