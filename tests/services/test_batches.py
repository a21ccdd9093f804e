"""Batches on a real Redis: size, time, keys, ends, splitting, lost leases, drains (rules L3, W2, W7, W8; case C03)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from redisjobs import BatchCall, BatchContext
from redisjobs.worker import Worker
from tests.support.crew import Crew
from tests.support.eventually import always, eventually

Calls = list[BatchCall[int]]


class Noted:
    """A job `index` that notes its batches.

    Attributes:
        gate: open; close it to keep bodies where they are.
    """

    def __init__(self, crew: Crew, **options: object) -> None:
        self.crew = crew
        self.ran: list[list[int]] = []
        self.attempts: Counter[tuple[str, int]] = Counter()
        self.calls: list[Calls] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.poison: set[int] = set()

        @crew.app.batch_job(name="index", **options)  # type: ignore[arg-type]
        async def index(calls: Calls) -> list[int]:
            self.ran.append([each.argument for each in calls])
            self.calls.append(calls)
            self.attempts.update((each.id, each.attempt) for each in calls)
            await self.gate.wait()
            if bad := self.poison & set(self.ran[-1]):
                raise ValueError(f"poison: {sorted(bad)}")
            return [each.argument + 1 for each in calls]

        self.job = index

    async def put(self, *arguments: int, **options: int) -> list[str]:
        """Enqueue calls, in this order."""
        job = self.job.using(**options) if options else self.job  # type: ignore[arg-type]
        return [each.id for each in await self.crew.app.enqueue_direct([job.call(n) for n in arguments])]


async def processed(worker: Worker, count: int) -> None:
    await eventually(lambda: worker.stats()["processed"] >= count, f"{count} ends were accepted", within=20)


async def test_a_batch_of_a_hundred_gathers_in_a_worker_of_ten_slots_in_the_order_of_delivery(crew: Crew) -> None:
    noted = Noted(crew, size=100, within=30)
    await noted.put(*range(250))
    worker = await crew.start(concurrency=10)
    await processed(worker, 200)
    assert noted.ran == [list(range(100)), list(range(100, 200))]
    lane = worker.lanes()[0]
    await eventually(lambda: (lane.gathered, lane.running) == (50, 0), "the rest gathers, and holds no slot")
    await noted.put(*range(250, 300))
    await processed(worker, 300)
    assert noted.ran[2] == list(range(200, 300))
    await eventually(crew.nothing_left, "Redis has heard of every end")


async def test_one_slot_is_enough_and_plain_jobs_run_while_calls_gather(crew: Crew) -> None:
    noted = Noted(crew, size=5, within=30)

    @crew.app.job(name="plain")
    async def plain() -> None:
        crew.starts["plain"] += 1

    worker = await crew.start(concurrency=1)
    await noted.put(1, 2, 3)
    await crew.put("plain", 3)
    await eventually(lambda: crew.starts["plain"] == 3, "the plain ones ran")
    assert noted.ran == []
    await noted.put(4, 5)
    await processed(worker, 8)
    assert noted.ran == [[1, 2, 3, 4, 5]]


async def test_a_batch_runs_within_its_time_after_its_first_call(crew: Crew) -> None:
    noted = Noted(crew, size=100, within=0.4)
    worker = await crew.start()
    began = time.monotonic()
    await noted.put(1, 2, 3)
    await processed(worker, 3)
    assert time.monotonic() - began >= 0.4
    assert noted.ran == [[1, 2, 3]]


async def test_keys_apart_and_results_and_priorities_as_with_any_job(crew: Crew) -> None:
    noted = Noted(crew, size=3, within=0.3, key=lambda n: n % 2, result_ttl=60)
    handles = await crew.app.enqueue_direct([noted.job.call(n) for n in (1, 2, 3, 4, 5)])
    await crew.start()
    assert [await each.result(timeout=10) for each in handles] == [2, 3, 4, 5, 6]
    assert sorted(noted.ran) == [[1, 3, 5], [2, 4]]


async def test_a_single_call_that_fails_is_tried_again_alone(crew: Crew) -> None:
    seen: list[list[tuple[int, int]]] = []

    @crew.app.batch_job(name="index", size=3, within=0.2, retry=[0.05])
    async def index(calls: Calls) -> None:
        seen.append([(each.argument, each.attempt) for each in calls])
        for each in calls:
            if each.argument == 2 and each.attempt < 3:
                each.fail(ConnectionError("not yet"))

    await crew.app.enqueue_direct([index.call(n) for n in (1, 2, 3)])
    worker = await crew.start()
    await processed(worker, 5)
    assert seen == [[(1, 1), (2, 1), (3, 1)], [(2, 2)], [(2, 3)]]
    assert (worker.stats()["failed"], await crew.left()) == (2, 0)


async def test_a_poison_call_is_found_in_log_n_runs_and_the_others_are_done_in_their_first_attempt(crew: Crew) -> None:
    noted = Noted(crew, size=64, within=30, max_attempts=1)
    noted.poison = {41}
    ids = await noted.put(*range(64))
    worker = await crew.start()
    await processed(worker, 64)
    assert worker.stats()["dead_lettered"] == 1
    assert len(noted.ran) == 1 + 2 * 6
    assert [job for job, attempt in noted.attempts if attempt != 1] == []
    assert noted.attempts[ids[41], 1] == 7
    assert await crew.left() == 0


async def test_a_call_whose_lease_is_lost_in_a_running_batch_is_marked_and_ends_once_elsewhere(crew: Crew) -> None:
    noted = Noted(crew, size=2, within=0.2)
    noted.gate.clear()
    [lost, kept] = await noted.put(1, 2)
    worker = await crew.start(visibility_timeout=30, heartbeat_interval=0.2)
    await eventually(lambda: noted.ran, "the batch runs")
    redis: Any = crew.broker.redis
    runs, lost_id = crew.broker.keys.key("default", "runs"), bytes.fromhex(lost.replace("-", ""))
    held = (await redis.hget(runs, lost_id)).split(b" ")
    held[0], held[3] = b"7", b"another"  # as a script does that takes over
    await redis.hset(runs, lost_id, b" ".join(held))
    await eventually(lambda: noted.calls[0][0].lost, "it is marked")
    assert not noted.calls[0][1].lost
    noted.gate.set()
    await processed(worker, 1)
    assert (worker.stats()["lost"], worker.stats()["processed"]) == (1, 1)
    assert [each.id for each in noted.calls[0]] == [lost, kept]


async def test_a_cancelled_call_leaves_the_batch_that_gathers(crew: Crew) -> None:
    noted = Noted(crew, size=3, within=30)
    worker = await crew.start()
    [gone, _] = await noted.put(1, 2)
    await eventually(lambda: worker.lanes()[0].gathered == 2, "they gather")
    job_id = bytes.fromhex(gone.replace("-", ""))
    redis: Any = crew.broker.redis
    await redis.sadd(crew.broker.keys.key("default", "cancels"), job_id)
    await processed(worker, 1)
    await noted.put(3, 4)
    await processed(worker, 4)
    assert noted.ran == [[2, 3, 4]]


async def test_leases_of_calls_that_gather_are_renewed(crew: Crew) -> None:
    noted = Noted(crew, size=4, within=600)
    worker = await crew.start(visibility_timeout=30, heartbeat_interval=0.1)
    ids = await noted.put(1, 2, 3)
    await eventually(lambda: worker.lanes()[0].gathered == 3, "they gather")
    redis: Any = crew.broker.redis
    stream = crew.broker.keys.key("default", "ready1")
    held = await redis.xpending_range(stream, "workers", "-", "+", 9)
    assert len(held) == 3
    await redis.xclaim(stream, "workers", worker.worker_id, 0, [each["message_id"] for each in held], idle=20_000,
                       justid=True)  # fmt: skip

    async def are_renewed() -> bool:
        return not await redis.xpending_range(stream, "workers", "-", "+", 9, idle=20_000)

    await eventually(are_renewed, "their leases are renewed")
    assert (noted.ran, worker.lanes()[0].gathered) == ([], 3)
    ids += await noted.put(4)
    await eventually(crew.nothing_left, "all have ended")
    assert noted.ran == [[1, 2, 3, 4]]
    assert set(noted.attempts) == {(each, 1) for each in ids}


async def test_a_drain_hands_calls_that_gather_back_at_once_and_lets_a_running_batch_end(crew: Crew) -> None:
    noted = Noted(crew, size=2, within=30)
    noted.gate.clear()
    worker = await crew.start(concurrency=4)
    ids = await noted.put(1, 2, 3)
    await eventually(lambda: noted.ran and worker.lanes()[0].gathered == 3, "a batch runs, and one gathers")
    stopping = asyncio.create_task(worker.stop())
    await eventually(lambda: worker.stats()["interrupted"] == 1, "the call that gathered is handed back")
    assert await crew.left() == 3
    noted.gate.set()
    await stopping
    assert {(line.job_id, line.fate) for line in worker.receipt.lines} == {(each, "finished") for each in ids[:2]}
    assert worker.receipt.exit_code == 0
    other = await crew.start()
    await noted.put(4)
    await processed(other, 2)
    assert noted.ran == [[1, 2], [3, 4]]
    assert noted.attempts[ids[2], 1] == 1


async def test_a_deadline_hands_a_running_batch_back_uncounted(crew: Crew) -> None:
    noted = Noted(crew, size=3, within=30)
    noted.gate.clear()
    ids = await noted.put(1, 2, 3)
    worker = await crew.start()
    await eventually(lambda: noted.ran, "it runs")
    await worker.stop(deadline=0.05)
    assert {(line.job_id, line.fate) for line in worker.receipt.lines} == {(each, "handed back") for each in ids}
    noted.gate.set()
    other = await crew.start()
    await processed(other, 3)
    assert noted.attempts == {(each, 1): 2 for each in ids}


async def test_a_burst_waits_for_no_further_calls(crew: Crew) -> None:
    noted = Noted(crew, size=100, within=600)
    await noted.put(*range(30))
    worker = await crew.start(burst=True, concurrency=4)
    await eventually(lambda: worker.state == "stopped", "the burst ends")
    assert worker.stats()["processed"] == 30
    assert sorted(n for batch in noted.ran for n in batch) == list(range(30))


async def test_two_workers_share_the_calls_and_each_ends_once(crew: Crew) -> None:
    noted = Noted(crew, size=20, within=0.2)
    workers = [await crew.start(concurrency=4) for _ in range(2)]
    ids = await noted.put(*range(500))
    await eventually(lambda: sum(each.stats()["processed"] for each in workers) == 500, "all are done", within=20)
    assert noted.attempts == {(each, 1): 1 for each in ids}
    assert all(batch == sorted(batch) for batch in noted.ran)
    assert await crew.left() == 0


async def test_many_keys_are_bounded_and_nothing_waits_for_ever(crew: Crew) -> None:
    noted = Noted(crew, size=10, within=600, key=lambda n: n)
    worker = await crew.start(concurrency=50)
    await noted.put(*range(1100))
    await processed(worker, 100)
    await eventually(lambda: worker.lanes()[0].gathered == 1000, "a thousand gather")
    await always(lambda: worker.lanes()[0].gathered == 1000, "they gather", lasting=0.2)
    assert noted.ran == [[n] for n in range(100)]
    await worker.stop()
    assert (worker.stats()["interrupted"], await crew.left()) == (1000, 1000)


async def test_a_batch_that_waits_for_a_slot_keeps_the_worker_from_taking_more(crew: Crew) -> None:
    noted = Noted(crew, size=2, within=30)
    noted.gate.clear()
    await noted.put(*range(40))
    worker = await crew.start(concurrency=2)
    await eventually(lambda: len(noted.ran) == 2, "two batches run")
    await always(lambda: worker.lanes()[0].gathered <= 6, "little is held beside them", lasting=0.3)
    noted.gate.set()
    await processed(worker, 40)
    assert all(len(batch) == 2 for batch in noted.ran)


async def test_a_batch_is_quiet_with_its_worker(crew: Crew) -> None:
    noted = Noted(crew, size=100, within=3)
    worker = await crew.start()
    await noted.put(1)
    await eventually(lambda: worker.lanes()[0].gathered == 1, "it gathers")
    worker.quiet()
    await processed(worker, 1)
    assert noted.ran == [[1]]


async def test_direct_calls_in_a_batch_know_their_context(crew: Crew) -> None:
    seen: list[object] = []

    @crew.app.batch_job(name="index", size=2, within=30)
    async def index(ctx: BatchContext, calls: Calls) -> None:
        seen.append((ctx.tenant_id, [(each.context.tenant_id, each.context.headers) for each in calls]))

    await index.using(tenant="t1", headers={"n": 1}).enqueue_direct(1)
    await index.using(tenant="t1", delay=0.1).enqueue_direct(2)
    worker = await crew.start()
    await processed(worker, 2)
    assert seen == [("t1", [("t1", {"n": 1}), ("t1", {})])]
