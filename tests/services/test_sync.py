"""A program without an event loop asks an app on a real Redis (rules I2, O4, W8; cases D05, D06)."""

from __future__ import annotations

import asyncio
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from redisjobs import App, BrokerUnavailable, Handle, OptionError, RedisjobsError, ResultTimeout
from redisjobs.errors import ConfigurationError
from redisjobs.sync import SyncClient
from redisjobs.worker import Worker
from tests.support.eventually import eventually_now
from tests.support.proxy import Proxy


@pytest.fixture
def app(redis_url: str) -> App:
    made = App(redis_url=redis_url)

    @made.job(result_ttl=60)
    async def double(n: int) -> int:
        return 2 * n

    return made


@pytest.fixture
def client(app: App) -> Iterator[SyncClient]:
    with SyncClient(app) as opened:
        yield opened


def work_off(app: App) -> None:
    """A worker that runs what is there, in a loop and thread of its own."""

    async def burst() -> None:
        worker = Worker(app, burst=True, drain_on_shutdown=False)
        await worker.run()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, burst()).result(30)


def enqueue(client: SyncClient, *numbers: int) -> list[Handle[int]]:
    job = client.app.find("double")
    return client.enqueue_direct(job.call(n=n) for n in numbers)


def test_it_enqueues_directly_and_waits_for_results(app: App, client: SyncClient):
    first, second = enqueue(client, 4, 5)
    one = client.enqueue_direct_one(app.find("double").call(n=6))
    work_off(app)
    assert [client.result(each, timeout=5) for each in (first, second, one)] == [8, 10, 12]


def test_a_result_that_does_not_come_in_time_says_so(client: SyncClient):
    (handle,) = enqueue(client, 1)
    with pytest.raises(ResultTimeout, match=r"after 0\.1 s; it goes on"):
        client.result(handle, timeout=0.1)
    with pytest.raises(OptionError):
        client.result(handle, timeout=float("nan"))


def test_it_tells_who_holds_a_key(app: App, client: SyncClient):
    call = app.find("double").using(idempotency_key="k").call(n=1)
    handle = client.enqueue_direct_one(call)
    assert client.holder("default", "k") == handle.id
    assert client.holder("default", "other") is None
    assert client.enqueue_direct_one(app.find("double").using(idempotency_key="k").call(n=1)).duplicate


def test_many_threads_share_one_client_and_each_gets_its_own_answer(app: App, client: SyncClient):
    handles = enqueue(client, *range(50))
    with ThreadPoolExecutor(16) as threads:
        waiting = [threads.submit(client.result, each, 30) for each in handles]
        work_off(app)
        assert [each.result(30) for each in waiting] == [2 * n for n in range(50)]
    assert sum(thread.name == "redisjobs-sync" for thread in threading.enumerate()) == 1


def test_a_forked_child_asks_on_connections_of_its_own(app: App, client: SyncClient):
    (handle,) = enqueue(client, 21)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of newer Pythons: a fork beside threads is the point
        child = os.fork()
    if child == 0:
        code = 1
        try:
            enqueue(client, 22)
            client.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    work_off(app)
    assert client.result(handle, timeout=5) == 42, "the parent goes on"


def test_closing_ends_what_is_waited_for_and_is_done_once(app: App):
    client = SyncClient(app)
    (handle,) = enqueue(client, 1)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(client.result, handle)
        eventually_now(lambda: blocked(client), "it waits")
        client.close()
        with pytest.raises(RedisjobsError, match="closed before the answer"):
            waiting.result(10)
    client.close()
    with pytest.raises(RedisjobsError, match="is closed: make another"):
        client.holder("default", "k")
    assert not [thread for thread in threading.enumerate() if thread.name == "redisjobs-sync"]


def blocked(client: SyncClient) -> bool:
    """Redis has a client in a blocking read."""
    return client._ask(lambda: blocked_clients(client.app)) > 0


async def blocked_clients(app: App) -> int:
    return int((await app.broker().redis.info("clients"))["blocked_clients"])


async def test_inside_of_an_event_loop_it_refuses_before_it_holds_the_loop_up(app: App):
    client = SyncClient(app)
    with pytest.raises(ConfigurationError, match="await the same method"):
        client.holder("default", "k")
    await asyncio.to_thread(client.close)


def test_a_redis_that_is_away_is_an_error_and_the_client_stays_usable(redis_proxy: Proxy):
    with SyncClient(App(redis_url=redis_proxy.url)) as client:
        assert client.holder("default", "k") is None
        redis_proxy.refuse()
        redis_proxy.reset()
        with pytest.raises(BrokerUnavailable):
            client.holder("default", "k")
        redis_proxy.heal()
        assert client.holder("default", "k") is None


def test_nothing_is_started_before_the_first_question():
    make: Callable[[], SyncClient] = lambda: SyncClient(App())  # noqa: E731 - one line is enough
    make().close()
    with make() as client, pytest.raises(ConfigurationError, match="redis_url is not set"):
        client.holder("default", "k")
