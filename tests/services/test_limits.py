"""Limits and rates of jobs, as workers keep them on a real Redis (rules L1 to L3)."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from redisjobs import BatchCall, Context, Limit, OptionError, Rate, admission
from redisjobs.broker import Broker, Limiter
from redisjobs.broker.client import connect
from redisjobs.broker.keys import NO_QUEUE
from tests.support.builders import envelope, publication
from tests.support.crew import Crew
from tests.support.eventually import always, eventually
from tests.support.limiting import LimiterByHand, ask, limit
from tests.support.proxy import Proxy


class Floor:
    """Who is on it, and how many there were at most, by the name of a group."""

    def __init__(self) -> None:
        self.now = Counter[str]()
        self.most = Counter[str]()
        self.order: list[Any] = []
        self.gate = asyncio.Event()
        self._one = threading.Lock()  # bodies in threads come too

    @contextmanager
    def enter(self, group: str = "", who: object = None, weight: int = 1) -> Iterator[None]:
        with self._one:
            self.order.append(who)
            self.now[group] += weight
            self.most[group] = max(self.most[group], self.now[group])
        try:
            yield
        finally:
            with self._one:
                self.now[group] -= weight


@pytest.fixture
def floor() -> Floor:
    return Floor()


@pytest.fixture
async def limiter(redis_url: str) -> Any:
    made = Limiter(connect(redis_url))
    yield made
    await made.redis.aclose()


async def left_of_limits(crew: Crew) -> dict[str, int]:
    """What the limiter still holds."""
    redis: Any = crew.broker.redis
    found: dict[str, int] = {}
    for name in ("held", "expiry", "used", "line", "heads", "tickets"):
        key = crew.broker.keys.key(NO_QUEUE, name)
        count = await (redis.zcard if await redis.type(key) == b"zset" else redis.hlen)(key)
        if name == "used":  # its empty field only says that it is there
            count -= int(await redis.hexists(key, ""))
        if count:
            found[name] = count
    return found


async def test_so_many_run_at_once_over_all_workers_and_all_run(crew: Crew, floor: Floor):
    """L1."""

    @crew.app.job(limit=3)
    async def work(n: int) -> None:
        with floor.enter():
            await asyncio.sleep(0.01)
        crew.starts[n] += 1

    for n in range(60):
        await crew.put("work", arguments={"n": n})
    workers = [await crew.start(concurrency=10) for _ in range(3)]

    await eventually(lambda: len(crew.starts) == 60, "all have run", 20)
    await eventually(crew.nothing_left, "all have ended")
    assert floor.most[""] == 3
    assert set(crew.starts.values()) == {1}
    await eventually(lambda: sum(each.stats()["processed"] for each in workers) == 60, "they have heard of every end")
    assert sum(worker.stats()["limited"] for worker in workers) <= 60, "each waits once at most"
    assert await eventually(lambda: _no(left_of_limits(crew)), "nothing is held any more")


async def _no(left: Awaitable[dict[str, int]]) -> bool:
    return not await left


async def test_a_key_of_the_arguments_is_counted_apart_and_none_is_not_limited(crew: Crew, floor: Floor):
    @crew.app.job(limit=Limit(1, key="tenant"))
    async def work(tenant: str | None = None) -> None:
        with floor.enter(str(tenant)):
            crew.starts[tenant] += 1
            await floor.gate.wait()

    for tenant in ("a", "a", "b", "b", None, None):
        await crew.put("work", arguments={"tenant": tenant} if tenant else {})
    await crew.start(concurrency=10)

    await eventually(lambda: floor.now == {"a": 1, "b": 1, "None": 2}, "one of each, and all without a tenant")
    floor.gate.set()
    await eventually(lambda: crew.starts == {"a": 2, "b": 2, None: 2}, "all have run")
    assert floor.most == {"a": 1, "b": 1, "None": 2}


async def test_waiting_takes_no_slot_and_is_first_come_first_served(crew: Crew, floor: Floor):
    """L2."""

    @crew.app.job(limit=1)
    async def limited(n: int) -> None:
        with floor.enter(who=n):
            if n == 0:
                await floor.gate.wait()

    @crew.app.job
    async def free(n: int) -> None:
        crew.starts["free"] += 1

    for n in range(30):
        await crew.put("limited", arguments={"n": n})
    worker = await crew.start(concurrency=2)
    await eventually(lambda: worker.stats()["limited"] == 29, "the others have left their slots")
    await crew.put("free", 20, arguments={"n": 1})
    await eventually(lambda: crew.starts["free"] == 20, "others run meanwhile")

    floor.gate.set()
    await eventually(lambda: len(floor.order) == 30, "all have run")
    assert floor.order == list(range(30))


async def test_several_limits_are_taken_all_or_none(crew: Crew, floor: Floor):
    whole = Limit(3, name="api")

    @crew.app.job(limits=[Limit(1, key="tenant"), whole])
    async def work(tenant: str) -> None:
        with floor.enter("api"), floor.enter(tenant):
            await asyncio.sleep(0.005)
        crew.starts[tenant] += 1

    @crew.app.job(limits=[whole])
    def in_a_thread() -> None:
        with floor.enter("api"):
            time.sleep(0.005)
        crew.starts["thread"] += 1

    for n in range(40):
        await crew.put("work", arguments={"tenant": "abcde"[n % 5]})
        await crew.put("in_a_thread")
    await crew.start(concurrency=20)
    await crew.start(concurrency=20)

    await eventually(lambda: crew.starts.total() == 80, "all have run", 20)
    assert floor.most == {"api": 3} | dict.fromkeys("abcde", 1)


async def test_the_first_use_of_a_name_by_ten_workers_at_once_keeps_the_limit(crew: Crew, floor: Floor):
    """M06: no entry is not no limit."""

    @crew.app.job(limit=Limit(1, key="name"))
    async def work(name: str) -> None:
        with floor.enter(name):
            await asyncio.sleep(0.005)
        crew.starts[name] += 1

    for _ in range(10):
        await crew.start(concurrency=30)
    names = [f"n{n}" for n in range(100)] * 3
    jobs = [publication(envelope("work", name=name)) for name in names]
    await crew.broker.enqueue_direct("default", jobs)

    await eventually(lambda: crew.starts.total() == 300, "all have run", 40)
    assert set(floor.most.values()) == {1}
    assert len(floor.most) == 100


async def test_a_heavy_call_takes_more(crew: Crew, floor: Floor):
    @crew.app.job(limit=Limit(4, weight=lambda size: size))
    async def work(size: int) -> None:
        with floor.enter(weight=min(size, 4)):
            await asyncio.sleep(0.005)
        crew.starts[size] += 1

    for size in (1, 4, 2, 9, 1, 1, 3) * 4:
        await crew.put("work", arguments={"size": size})
    await crew.start(concurrency=20)

    await eventually(lambda: crew.starts.total() == 28, "all have run", 20)
    assert floor.most[""] <= 4


async def test_a_queue_has_limits_of_its_own(redis_url: str, crew: Crew, floor: Floor):
    crew.app.queue_limits["mail"] = (Limit(2, name="queue/mail"),)
    crew.app._note_limits("queue 'mail'", crew.app.queue_limits["mail"])

    @crew.app.job
    async def one() -> None:
        with floor.enter():
            await asyncio.sleep(0.005)
        crew.starts["all"] += 1

    @crew.app.job(limit=9)
    async def other() -> None:
        await one()

    await crew.put("one", 10, queue="mail")
    await crew.put("other", 10, queue="mail")
    await crew.start(queues=["mail"], concurrency=20)

    await eventually(lambda: crew.starts["all"] == 20, "all have run")
    assert floor.most[""] == 2


async def test_the_calls_of_a_batch_are_counted_by_the_limits_of_their_queue(crew: Crew):
    crew.app.queue_limits["mail"] = (Limit(2, name="queue/mail"),)
    crew.app._note_limits("queue 'mail'", crew.app.queue_limits["mail"])
    sizes: list[int] = []

    @crew.app.batch_job(name="index", size=5, within=0.05)
    async def index(calls: list[BatchCall[int]]) -> None:
        sizes.append(len(calls))

    for n in range(6):
        await crew.put("index", queue="mail", arguments={"argument": n})
    await crew.start(queues=["mail"])

    await eventually(lambda: sum(sizes) == 6, "all have run")
    assert max(sizes) == 2
    await eventually(lambda: _no(left_of_limits(crew)), "nothing is held any more")


def test_a_batch_job_has_no_limits_of_its_own(crew: Crew):
    refused: list[dict[str, Any]] = [{"limit": 3}, {"limits": [Limit(3)]}, {"rate": Rate(1, per=1)}]
    for option in refused:
        with pytest.raises(OptionError, match="a batch runs many at once: leave"):
            crew.app.batch_job(**option)(lambda calls: None)


async def test_a_job_that_fails_or_snoozes_gives_its_permit_back(crew: Crew):
    @crew.app.job(limit=1, retry=[0.01], max_attempts=3)
    async def flaky(ctx: Context) -> None:
        crew.starts[ctx.job_id] += 1
        raise ValueError("no")

    await crew.put("flaky", 3)
    worker = await crew.start()

    await eventually(lambda: worker.stats()["dead_lettered"] == 3, "all are dead letters")
    assert sorted(crew.starts.values()) == [3, 3, 3], "waiting for a limit counted as no attempt"


async def test_a_key_that_cannot_be_computed_fails_the_attempt_and_never_starts_the_body(
    crew: Crew, caplog: pytest.LogCaptureFixture
):
    @crew.app.job(limit=Limit(1, key=lambda order: order["customer"]), max_attempts=1)
    async def work(order: dict[str, Any]) -> None:
        crew.starts["work"] += 1

    await crew.put("work", arguments={"order": {}})
    worker = await crew.start()

    await eventually(lambda: worker.stats()["dead_lettered"] == 1, "it is a dead letter")
    assert crew.starts == {}
    assert "limit 'work': job 'work': key could not be computed: KeyError" in caplog.text


# -- the permit
async def test_a_long_body_keeps_its_permit_and_gives_it_back_at_the_end(
    crew: Crew, floor: Floor, limiter: Limiter, redis: Redis
):
    @crew.app.job(limit=1)
    async def work() -> None:
        with floor.enter():
            crew.starts["work"] += 1
            await floor.gate.wait()

    def ends_at() -> float:
        """Of the only permit."""
        permits: Any = redis.zrange(limiter.keys.key(NO_QUEUE, "expiry"), 0, -1, withscores=True)
        ((_, at),) = permits
        return float(at)

    def renewed(before: float) -> bool:
        return ends_at() > before

    await crew.put("work", 2)
    for _ in range(2):
        await crew.start(visibility_timeout=30, heartbeat_interval=0.1)
    await eventually(lambda: crew.starts["work"], "one runs")
    for _ in range(3):
        await eventually(partial(renewed, ends_at()), "its permit is renewed")
    floor.gate.set()

    await eventually(lambda: crew.starts["work"] == 2, "both have run")
    assert floor.most[""] == 1


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_permit_that_is_lost_ends_its_body_and_the_finish_is_not_written(
    crew: Crew, limiter: Limiter, in_thread: bool, caplog: pytest.LogCaptureFixture
):
    """L1: a permit taken by somebody else cancels the body under it."""
    began, ended = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    async def body(ctx: Context) -> None:
        crew.starts["work"] += 1
        began.set()
        if crew.starts["work"] == 1:
            try:
                await asyncio.sleep(30)
            finally:
                ended.set()

    def body_in_a_thread(ctx: Context) -> None:
        crew.starts["work"] += 1
        loop.call_soon_threadsafe(began.set)
        if crew.starts["work"] == 1:
            ended.wait(30)

    crew.app.job(name="work", limit=1)(body_in_a_thread if in_thread else body)
    (job,) = await crew.put("work")
    worker = await crew.start(visibility_timeout=4, heartbeat_interval=0.1)
    await began.wait()
    held = limiter.keys.key(NO_QUEUE, "held")
    await limiter.redis.hdel(held, bytes.fromhex(job.replace("-", "")))  # somebody took it
    if in_thread:
        await eventually(lambda: not worker.lanes()[0].running_attempts()[0].renewed, "the loss was noticed")
        ended.set()

    await eventually(ended.is_set, "the body was ended")
    await eventually(lambda: worker.stats()["lost"] == 1, "the attempt is lost")
    await eventually(lambda: crew.starts["work"] == 2, "it runs again once its lease has lapsed", 30)
    await eventually(crew.nothing_left, "and ends")


async def test_what_a_worker_hands_back_gives_its_permits_back_at_once(crew: Crew, floor: Floor):
    @crew.app.job(limit=1)
    async def work() -> None:
        crew.starts["work"] += 1
        await floor.gate.wait()

    await crew.put("work")
    first = await crew.start(visibility_timeout=30)
    await eventually(lambda: crew.starts["work"], "it runs")
    await first.stop(0)
    await crew.start(visibility_timeout=30)

    await eventually(lambda: crew.starts["work"] == 2, "the other runs it at once", 15)
    floor.gate.set()


async def test_permits_of_a_worker_that_died_come_back_within_a_lease(crew: Crew, redis_url: str):
    """M02, by hand: the permit of nobody is there, and nobody renews it."""

    @crew.app.job(limit=Limit(1, name="one"))
    async def work() -> None:
        crew.starts["work"] += 1

    async with LimiterByHand(redis_url) as h:
        began = time.monotonic()
        assert await h.words(ask(1, limit("one")), consumer="dead", lease_ms=1000) == ["ok"]
        await crew.put("work")
        await crew.start()
        await eventually(lambda: crew.starts["work"], "it runs, long before it would ask by itself", 15)
        assert time.monotonic() - began > 0.9


async def test_a_cancelled_job_in_the_line_gives_its_turn_to_the_next(crew: Crew, floor: Floor):
    @crew.app.job(limit=1)
    async def work(n: int) -> None:
        with floor.enter(who=n):
            await floor.gate.wait()

    ids = [(await crew.put("work", arguments={"n": n}))[0] for n in range(3)]
    worker = await crew.start()
    await eventually(lambda: worker.stats()["limited"] == 2, "two wait")
    job = bytes.fromhex(ids[1].replace("-", ""))
    key = crew.broker.keys.key
    await crew.broker.redis.hdel(key("default", "jobs"), job)  # it has gone, however
    await crew.broker.redis.zrem(key("default", "due"), job)
    floor.gate.set()

    await eventually(lambda: floor.order == [0, 2], "the third had its turn")


async def test_jobs_that_end_in_the_line_without_asking_hold_nobody_up(crew: Crew, floor: Floor):
    """Each of them was told to come, with what it waited for kept for it, and does not take it."""

    @crew.app.job(limit=1)
    async def work(n: int) -> None:
        with floor.enter(who=n):
            await floor.gate.wait()

    @crew.app.job(limit=Limit(1, name="work"))
    async def forgotten(n: int) -> None:
        """A job that the next release does not know."""

    await crew.put("work", arguments={"n": 0})
    first = await crew.start()
    await eventually(lambda: floor.order == [0], "the first runs")
    for n in range(1, 11):
        await crew.put("work", expire_ms=600_000, arguments={"n": n})
        await crew.put("forgotten", arguments={"n": n})
    await crew.put("work", arguments={"n": 11})
    await eventually(lambda: first.stats()["limited"] == 21, "all others wait")
    crew.app._jobs.pop("forgotten")
    await let_expire(crew)
    floor.gate.set()

    await eventually(lambda: floor.order == [0, 11], "nobody waits for those who do not come", 9)
    await eventually(lambda: first.stats()["parked"] >= 10, "those that nobody knows are parked")


async def let_expire(crew: Crew) -> None:
    """Whatever has an expiry is past it."""
    redis: Any = crew.broker.redis
    key = crew.broker.keys.key("default", "jobs")
    for job, record in (await redis.hgetall(key)).items():
        await redis.hset(key, job, re.sub(rb"^(\S+) [1-9]\d* ", rb"\1 1 ", record))


# -- a Redis that does not answer
@pytest.mark.parametrize("call", ["admit", "release", "wake", "finish"])
async def test_replies_that_are_lost_leak_no_permit_and_start_nothing_twice(
    crew: Crew, redis_proxy: Proxy, floor: Floor, call: str
):
    @crew.app.job(limit=2)
    async def work(n: int) -> None:
        with floor.enter():
            await asyncio.sleep(0.002)
        crew.starts[n] += 1

    lost = redis_proxy.lose_reply(call, times=3)
    await crew.start(url=redis_proxy.url, visibility_timeout=30)
    for n in range(20):
        await crew.put("work", arguments={"n": n})

    await eventually(lambda: len(crew.starts) == 20, "all have run", 20)
    await eventually(crew.nothing_left, "all have ended")
    assert lost.count == 3
    assert (floor.most[""] <= 2, set(crew.starts.values())) == (True, {1})
    await eventually(lambda: _no(left_of_limits(crew)), "nothing is held any more")


async def test_a_limiter_that_does_not_answer_starts_nothing_and_frees_the_slot(
    crew: Crew, redis_proxy: Proxy, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(admission, "PATIENCE_S", 0.3)
    monkeypatch.setattr(admission, "BACK_S", 0.5)

    @crew.app.job(limit=2)
    async def limited() -> None:
        crew.starts["limited"] += 1

    @crew.app.job
    async def free() -> None:
        crew.starts["free"] += 1

    lost = redis_proxy.lose_request("admit", times=None)
    worker = await crew.start(url=redis_proxy.url, concurrency=1)
    await crew.put("limited", 2)
    await crew.put("free", 2)

    await eventually(lambda: crew.starts["free"] == 2, "others have the slot")
    await eventually(lambda: worker.stats()["limited"] >= 2, "who cannot ask comes back later")
    assert crew.starts["limited"] == 0
    assert "admission.failed" in caplog.text
    lost.remove()
    await eventually(lambda: crew.starts["limited"] == 2, "it runs once Redis answers", 20)
    await eventually(lambda: _no(left_of_limits(crew)), "nothing is held any more")


async def test_a_worker_stops_in_time_while_an_admission_is_not_answered(crew: Crew, redis_proxy: Proxy):
    @crew.app.job(limit=1)
    async def work() -> None:
        crew.starts["work"] += 1

    redis_proxy.lose_request("admit", times=None)
    worker = await crew.start(url=redis_proxy.url)
    await crew.put("work")
    await eventually(lambda: worker.lanes()[0].running, "it asks")

    await worker.stop(0)
    assert crew.starts == {}
    await crew.start()
    await eventually(lambda: crew.starts["work"] == 1, "another runs it")


# -- rates: L3
async def test_a_rate_spaces_starts_over_all_workers(crew: Crew):
    at: list[float] = []

    @crew.app.job(rate=Rate(20, per=1.0, burst=3))
    async def call() -> None:
        at.append(time.monotonic())

    for _ in range(2):
        await crew.start()
    began = time.monotonic()
    await crew.put("call", 24)

    await eventually(lambda: len(at) == 24, "all have run", 20)
    assert at[-1] - began >= (24 - 1 - 3) / 20 - 0.05


async def test_a_body_that_met_a_limit_of_others_pauses_its_key_uncounted(crew: Crew):
    seen: list[tuple[str, int, float]] = []

    @crew.app.job(rate=Rate(1000, per=1, key="host"), max_attempts=1)
    async def call(ctx: Context, host: str, first: bool = False) -> None:
        seen.append((host, ctx.attempt, time.monotonic()))
        if first and len(seen) == 1:
            ctx.rate_limited(4)

    worker = await crew.start()
    await crew.put("call", arguments={"host": "a", "first": True})
    await eventually(lambda: worker.stats()["limited"] == 1, "it was told to wait")
    await crew.put("call", 3, arguments={"host": "a"})
    await crew.put("call", arguments={"host": "b"})

    await eventually(lambda: len(seen) == 6, "all have run")
    met = seen[0][2]
    assert {attempt for _, attempt, _ in seen} == {1}
    assert [host for host, _, _ in seen] == [*"abaaaa"], "another key goes on"
    assert all(at - met >= 3.9 for host, _, at in seen[1:] if host == "a"), "its own waits"


@pytest.mark.parametrize("kind", ["thread", "process", "no rate"])
async def test_every_kind_of_body_may_say_that_it_is_rate_limited(crew: Crew, kind: str, tmp_path: Path):
    options: dict[str, Any] = {"process": kind == "process", "max_attempts": 1, "result_ttl": 60}
    if kind != "no rate":
        options["rate"] = Rate(1000, per=1)
    crew.app.job(name="meet", **options)(meet)

    await crew.put("meet", arguments={"met": str(tmp_path / "met")})
    worker = await crew.start()
    await eventually(lambda: worker.stats()["processed"] == 1, "it has run", 20)
    assert worker.stats()["limited"] == 1
    assert worker.stats()["failed"] == 0


def meet(ctx: Context, met: str) -> None:
    """Meets a limit the first time."""
    if not Path(met).exists():
        Path(met).touch()
        ctx.rate_limited(0.2)


# -- at rest
async def test_a_burst_runs_all_that_waits_for_limits_of_its_own(crew: Crew):
    @crew.app.job(limit=1)
    async def work() -> None:
        crew.starts["work"] += 1
        await asyncio.sleep(0.002)

    await crew.put("work", 10)
    worker = crew.worker(burst=True)
    await worker.run()
    assert crew.starts["work"] == 10


async def test_a_worker_without_limits_never_asks_the_limiter(crew: Crew, redis_proxy: Proxy):
    @crew.app.job
    async def work() -> None:
        crew.starts["work"] += 1

    asked = [redis_proxy.lose_request(call, times=None) for call in ("admit", "release", "hold", "sweep", "wake")]
    await crew.start(url=redis_proxy.url, visibility_timeout=2)
    await crew.put("work", 20)
    await eventually(lambda: crew.starts["work"] == 20, "all have run")
    await always(lambda: not any(rule.count for rule in asked), "nothing was asked", lasting=1.2)


async def test_the_calls_for_each_job_are_few_however_many_wait(crew: Crew, monkeypatch: pytest.MonkeyPatch):
    calls = Counter[str]()
    for kind, name in ((Limiter, "admit"), (Limiter, "release"), (Broker, "wake")):
        monkeypatch.setattr(kind, name, _counting(calls, name, getattr(kind, name)))

    @crew.app.job(limit=2)
    async def work() -> None:
        crew.starts["work"] += 1
        await asyncio.sleep(0.001)

    await crew.put("work", 300)
    worker = await crew.start(concurrency=10)
    await eventually(lambda: worker.stats()["processed"] == 300, "all have ended", 30)

    assert worker.stats()["limited"] <= 300, "each waited once"
    assert calls.total() <= 3 * 300 + 100


def _counting(calls: Counter[str], name: str, call: Any) -> Any:
    async def counted(*given: Any) -> Any:
        calls[name] += 1
        return await call(*given)

    return counted
