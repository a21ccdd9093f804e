"""The stories that are told on every server: what a user does, from the call to what he sees of it.

Each is an async function of a road; its first line is what the table in the docs calls it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from redisjobs import BatchCall, Context, Limit, Rate
from redisjobs.webhooks import Endpoint, generate_secret, verify, webhook
from tests.everywhere.place import Place
from tests.stories.road import Road
from tests.support.eventually import eventually
from tests.support.receiver import Receiver
from tests.support.schedules import scheduler_by_hand

Story: TypeAlias = Callable[[Road, Place], Awaitable[None]]

QUEUES = [f"q{number}" for number in range(8)]
"""Enough that each node of a cluster has some."""


async def commit_to_done(road: Road, place: Place) -> None:
    """Commit → done, result"""

    @road.app.job(result_ttl=60)
    async def add(a: int, b: int) -> int:
        return a + b

    await road.work(queues=["q*"])
    with road.connect() as connection:
        rolled_back = add.using(queue="q0").enqueue(connection, 0, 0)
        connection.rollback()
    jobs = road.commit(*(add.using(queue=queue).call(number, 1) for number, queue in enumerate(QUEUES)))
    for number, job in enumerate(jobs):
        assert await road.app.handle(job, add, QUEUES[number]).result(timeout=40) == number + 1
    await road.reaches("done", *jobs, within=40)
    assert road.state(rolled_back) is None


async def enqueued_directly(road: Road, place: Place) -> None:
    """Straight to Redis"""

    @road.app.job(result_ttl=60)
    async def add(a: int, b: int) -> int:
        return a + b

    await road.work(queues=["q*"])
    handles = await road.app.enqueue_direct(*(add.using(queue=queue).call(1, 2) for queue in QUEUES))
    assert [await handle.result(timeout=40) for handle in handles] == [3] * len(QUEUES)


async def retry_dead_redrive(road: Road, place: Place) -> None:
    """Retry → dead → redrive"""
    well = False

    @road.app.job(max_attempts=2, retry=[0.05])
    async def charge(ctx: Context) -> None:
        road.seen.append(ctx.attempt)
        if not well:
            raise ConnectionError("the bank is away")

    await road.work()
    (job,) = road.commit(charge.call())
    await road.reaches("dead", job, within=40)
    assert road.seen == [1, 2]
    (dead,) = place.redisjobs.json("dead", "list")["dead"]
    assert dead["id"] == str(job)
    well = True
    place.redisjobs("dead", "redrive", job)
    await road.reaches("done", job, within=40)
    assert road.seen == [1, 2, 1]


async def delayed(road: Road, place: Place) -> None:
    """Delay"""
    started: dict[str, float] = {}

    @road.app.job
    async def note(what: str) -> None:
        started[what] = time.monotonic()

    await road.work()
    began = time.monotonic()
    jobs = road.commit(note.using(delay=1.5).call("later"), note.call("now"))
    await road.reaches("done", *jobs, within=40)
    assert started["later"] - began >= 1.5
    assert started.keys() == {"later", "now"}


async def idempotency_key(road: Road, place: Place) -> None:
    """Idempotency key"""
    go = asyncio.Event()

    @road.app.job
    async def once() -> None:
        road.seen.append("ran")
        await go.wait()

    await road.work()
    first, *others = road.commit(*(once.using(idempotency_key="order-7").call() for _ in range(3)))
    await eventually(lambda: road.seen == ["ran"], "the first runs")
    await road.reaches("deduplicated", *others, within=40)
    assert await road.app.holder("default", "order-7") == str(first)
    go.set()
    await road.reaches("done", first, within=40)


async def durable_run(road: Road, place: Place) -> None:
    """Durable step, sleep, event"""

    def pick() -> str:
        road.seen.append("picked")
        return "parcel"

    @road.app.job(retry=[0.05])
    async def ship(ctx: Context, order: str) -> None:
        parcel = await ctx.step("pick", pick)
        await ctx.sleep("a while", 0.3)
        event = await ctx.wait_for_event("paid", order, timeout=60)
        assert event is not None
        if ctx.attempt == 1:
            raise ConnectionError("the carrier is away")
        road.seen.append((parcel, event.data))

    await road.work()
    (job,) = road.commit(ship.call("7"))
    await road.reaches("suspended", job, within=40)
    road.query("SELECT redisjobs.send_event('paid', '7', %(data)s)", data=json.dumps({"by": "card"}))
    await road.reaches("done", job, within=40)
    assert road.seen == ["picked", ("parcel", {"by": "card"})]


async def children(road: Road, place: Place) -> None:
    """Child fan-out"""

    @road.app.job(queue="q1")
    async def double(number: int) -> int:
        return 2 * number

    @road.app.job(queue="q2")
    async def total(ctx: Context) -> None:
        many = await ctx.gather(*(ctx.call(double.call(each), name=f"double-{each}") for each in range(10)))
        road.seen.append(sum(many))

    await road.work(queues=["q1", "q2"])
    (job,) = road.commit(total.call())
    await road.reaches("done", job, within=40)
    assert road.seen == [90]


async def limit(road: Road, place: Place) -> None:
    """Limit"""
    running = most = 0

    @road.app.job(limits=[Limit(2, name="api")])
    async def call(number: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        road.seen.append(number)

    for _ in range(2):
        await road.work(queues=["q*"])
    jobs = road.commit(*(call.using(queue=QUEUES[number % 4]).call(number) for number in range(12)))
    await road.reaches("done", *jobs, within=40)
    assert most == 2
    assert sorted(road.seen) == list(range(12))
    place.redisjobs("limits", "list")


async def rate(road: Road, place: Place) -> None:
    """Rate"""
    times: list[float] = []

    @road.app.job(rate=Rate(2, per=1, name="api-rate"))
    async def call() -> None:
        times.append(asyncio.get_running_loop().time())

    await road.work()
    await road.reaches("done", *road.commit(*(call.call() for _ in range(4))), within=20)
    assert times[-1] - times[0] >= 1.4, "half a second between two"


async def lanes(road: Road, place: Place) -> None:
    """Lanes"""

    @road.app.job(lane="account", retry=[0.05])
    async def book(ctx: Context, account: str, number: int) -> None:
        if number == 1 and ctx.attempt == 1:
            raise ConnectionError("the ledger does not answer")
        road.seen.append((account, number))

    await road.work()
    calls = [book.call(account, number) for number in range(4) for account in ("anna", "bert")]
    await road.reaches("done", *road.commit(*calls))
    for account in ("anna", "bert"):
        assert [number for each, number in road.seen if each == account] == [0, 1, 2, 3]


async def shares(road: Road, place: Place) -> None:
    """Shares"""

    @road.app.job(share="customer")
    async def report(customer: int) -> None:
        road.seen.append(customer)

    jobs = road.commit(*(report.call(1) for _ in range(30)), report.call(2))
    await road.reaches("published", *jobs, within=40)
    await road.work(concurrency=1)
    await road.reaches("done", *jobs, within=40)
    assert road.seen.index(2) <= 3, "one customer's jobs do not hold up another's"


async def batch(road: Road, place: Place) -> None:
    """Batch"""

    @road.app.batch_job(size=10, within=0.3)
    async def index(calls: list[BatchCall[int]]) -> None:
        road.seen.append([each.argument for each in calls])

    jobs = road.commit(*(index.call(number) for number in range(25)))
    await road.reaches("published", *jobs, within=40)
    await road.work()
    await road.reaches("done", *jobs, within=40)
    assert sorted(number for each in road.seen for number in each) == list(range(25))
    assert max(len(each) for each in road.seen) == 10


async def schedule(road: Road, place: Place) -> None:
    """Schedule"""

    @road.app.job
    async def tick(ctx: Context) -> None:
        road.seen.append(ctx.schedule)

    road.app.schedule("* * * * * *", name="every second")(tick)
    await road.work()
    async with scheduler_by_hand(road.database_url, app=road.app) as scheduler:
        await scheduler.start()
        await eventually(lambda: len(road.seen) >= 2, "two occurrences ran", 40)
    assert len({each.at for each in road.seen}) == len(road.seen)


async def webhooks(road: Road, place: Place) -> None:
    """Webhook"""
    secret = generate_secret()
    async with Receiver() as receiver:
        hooks = webhook(road.app, endpoints=[Endpoint("shop", receiver.url, secret)], allow=["127.0.0.0/8"])
        await road.work(queues=["webhooks"])
        with road.connect() as connection:
            job = hooks.enqueue(connection, endpoint="shop", type="order.placed", data={"number": 1})
        await road.reaches("done", job, within=40)
        (came,) = receiver.received
    assert verify(came.body, came.headers, secret)


async def cancel(road: Road, place: Place) -> None:
    """Cancel"""
    began = asyncio.Event()

    @road.app.job
    async def long() -> None:
        began.set()
        await asyncio.Event().wait()

    (waiting,) = road.commit(long.using(delay=3600).call())
    await road.work()
    (running,) = road.commit(long.call())
    await asyncio.wait_for(began.wait(), 40)
    with road.connect() as connection:
        for job in (waiting, running):
            road.app.cancel(connection, job)
    await road.reaches("cancelled", waiting, running, within=40)


async def drain(road: Road, place: Place) -> None:
    """Drain"""
    began = asyncio.Event()

    @road.app.job
    async def long(ctx: Context) -> None:
        road.seen.append(ctx.attempt)
        began.set()
        if len(road.seen) == 1:
            await asyncio.Event().wait()

    first = await road.work()
    (job,) = road.commit(long.call())
    await asyncio.wait_for(began.wait(), 40)
    await first.stop(0.2)
    await road.work()
    await road.reaches("done", job, within=40)
    assert road.seen == [1, 1], "handed back, and uncounted"


async def flushall(road: Road, place: Place) -> None:
    """FLUSHALL"""

    @road.app.job
    async def note(number: int) -> None:
        road.seen.append(number)

    calls = [note.using(queue=queue, idempotency_key=f"{queue}-{n}").call(n) for queue in QUEUES[:4] for n in range(25)]
    jobs = road.commit(*calls)
    await road.reaches("published", *jobs, within=40)
    place.flushall()
    await road.work(queues=QUEUES[:4])
    await road.reaches("done", *jobs, within=40)


async def looked_at(road: Road, place: Place) -> None:
    """explain, status, doctor"""

    @road.app.job
    async def later() -> None:
        return None

    await road.work(queues=["q*"])
    jobs = road.commit(*(later.using(queue=queue, delay=600).call() for queue in QUEUES))
    await road.reaches("published", *jobs, within=40)
    status = place.redisjobs.json("status")
    assert {each["queue"] for each in status["queues"]} >= set(QUEUES)
    assert all(each["due"] == 1 for each in status["queues"] if each["queue"] in QUEUES)
    told = place.redisjobs("explain", jobs[0]).stdout
    assert "due" in told or "later" in told
    findings = place.redisjobs.json("doctor", code=1)["findings"]
    failed = {each["check"] for each in findings if each["level"] == "fail"}
    assert failed == {"postgres.durability"}, "the Postgres of tests does not write through to the disk"
    place.redisjobs("top", "--once")
    place.redisjobs("queues", "list")
    place.redisjobs("jobs", "list")


STORIES: dict[str, Story] = {
    each.__name__: each
    for each in (
        commit_to_done, enqueued_directly, retry_dead_redrive, delayed, idempotency_key, durable_run, children, limit,
        rate, lanes, shares, batch, schedule, webhooks, cancel, drain, flushall, looked_at,
    )
}  # fmt: skip

CORE = (commit_to_done, retry_dead_redrive, durable_run, limit, flushall, looked_at)
"""Those of the default run."""
