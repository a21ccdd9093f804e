"""Tenants have their turns over the whole road, and a paused one stands, whatever dies meanwhile (L4, R7)."""

from __future__ import annotations

from collections import Counter

from tests.faults.road import Road, sized
from tests.faults.shop import order
from tests.support.cli import CommandLine
from tests.support.eventually import eventually

FLOOD = sized(1000, 100_000)


async def test_one_job_of_a_tenant_starts_at_once_though_another_one_floods_the_queue(road: Road):
    redisjobs = CommandLine({"REDISJOBS_DATABASE_URL": road.database_url, "REDISJOBS_REDIS_URL": road.redis_url})
    redisjobs("queues", "share", "default", "tenant")
    flood = road.enqueue(order.using(tenant="flood").call(seconds=0.02) for _ in range(FLOOD))
    await road.start(workers=2, slots=1)
    await eventually(lambda: len(road.journal.started()) > 10, "the flood is under way")

    before = len(road.journal.started())
    (one,) = road.enqueue(order.using(tenant="one").call())
    await road.ran(one, within=10)

    order_of_start = [run.job for run in sorted(road.journal.runs(), key=lambda run: run.started)]
    assert order_of_start.index(one) - before < FLOOD // 2, "it waited for the relay, and not for the flood"
    assert set(flood) - road.journal.started(), "much of the flood waits still"
    road.query("SELECT redisjobs.cancel(id) FROM redisjobs.outbox")
    await eventually(lambda: not road.states(), "everything has ended", 60)


async def test_a_paused_tenant_stands_through_a_wipe_and_dead_workers_while_others_go_on(road: Road):
    redisjobs = CommandLine({"REDISJOBS_DATABASE_URL": road.database_url, "REDISJOBS_REDIS_URL": road.redis_url})
    redisjobs("queues", "pause", "default", "--tenant", "42")
    (_, (worker, _)) = await road.start(workers=2, slots=5)
    paused = road.enqueue(order.using(share="42").call() for _ in range(50))
    others = road.enqueue(order.using(share=f"t{n % 5}").call(seconds=0.02) for n in range(300))
    await eventually(lambda: len(road.journal.started()) > 50, "the others go on")

    worker.kill()
    road.redis.flushall()
    road.worker()

    await eventually(lambda: set(others) <= road.done(), "the others have ended", 60)
    assert not road.journal.started() & set(paused)
    shown = redisjobs.json("queues", "show", "default")
    assert shown["shares"] == [{"share": "42", "weight": 1.0, "paused": True, "waiting": 50}]
    assert "Share '42' of queue default is paused" in redisjobs("explain", paused[0]).stdout

    redisjobs("queues", "resume", "default", "--tenant", "42")
    await road.at_rest(60, extra=others)
    assert max(Counter(run.job for run in road.journal.runs() if run.job in set(paused)).values()) == 1
