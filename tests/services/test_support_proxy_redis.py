"""The proxy in front of a real Redis does what it says, and nothing else."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis as redis_py
from redis.asyncio import Redis as AsyncRedis
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, OutOfMemoryError
from redis.retry import Retry

from tests.support.eventually import always, eventually, eventually_now
from tests.support.proxy import Proxy
from tests.support.rules import command, script_sha

NEVER_AGAIN = Retry(NoBackoff(), 0)
ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])"


@pytest.fixture
def client(redis_proxy: Proxy) -> Iterator[redis_py.Redis]:
    """A client that goes through the proxy and never repeats a command by itself."""
    with redis_py.Redis.from_url(redis_proxy.url, retry=NEVER_AGAIN, socket_timeout=5) as opened:
        yield opened


def test_everything_passes_when_nothing_is_disturbed(client: redis_py.Redis, redis: redis_py.Redis):
    big = b"\r\n$3\r\n*" * 200_000
    client.set("rj:big", big)
    pipeline = client.pipeline(transaction=False)
    for number in range(1000):
        pipeline.rpush("rj:list", number)
    pipeline.lrange("rj:list", 0, -1)

    assert pipeline.execute()[-1] == [b"%d" % number for number in range(1000)]
    assert client.get("rj:big") == big == redis.get("rj:big")


def test_a_lost_reply_belongs_to_a_command_that_was_carried_out_once(
    redis_proxy: Proxy, client: redis_py.Redis, redis: redis_py.Redis
):
    client.incr("rj:n")
    lost = redis_proxy.lose_reply("INCRBY", nth=2)

    client.incr("rj:n")
    with pytest.raises(redis_py.ConnectionError):
        client.incr("rj:n")

    assert lost.wait().words == (b"INCRBY", b"rj:n", b"1")
    assert redis.get("rj:n") == b"3"
    assert client.incr("rj:n") == 4
    assert lost.count == 1


def test_a_lost_reply_in_a_pipeline_leaves_the_replies_before_it_whole(redis_proxy: Proxy, redis: redis_py.Redis):
    redis_proxy.lose_reply("DECR")
    database = b"%d" % redis.get_connection_kwargs().get("db", 0)
    with socket.create_connection(("127.0.0.1", redis_proxy.port)) as raw:
        raw.settimeout(5)
        raw.sendall(b"SELECT " + database + b"\r\nINCR rj:a\r\nINCR rj:a\r\nDECR rj:b\r\nINCR rj:a\r\n")
        told = b"".join(iter(lambda: raw.recv(100), b""))

    assert told == b"+OK\r\n:1\r\n:2\r\n"
    assert redis.mget("rj:a", "rj:b") == [b"3", b"-1"]


def test_a_muted_reply_leaves_the_connection_open_and_silent(redis_proxy: Proxy, redis: redis_py.Redis):
    muted = redis_proxy.mute_reply("INCRBY")

    with redis_py.Redis.from_url(redis_proxy.url, retry=NEVER_AGAIN, socket_timeout=1) as client:
        with pytest.raises(redis_py.TimeoutError):
            client.incr("rj:n")

        muted.wait()
        assert redis.get("rj:n") == b"1"
        assert client.incr("rj:n") == 2  # on a new connection


def test_a_script_is_met_by_its_sha_and_not_before_the_server_knows_it(
    redis_proxy: Proxy, client: redis_py.Redis, redis: redis_py.Redis
):
    redis.script_flush()
    add = client.register_script(ADD)
    lost = redis_proxy.lose_reply(script_sha(add.sha))

    with pytest.raises(redis_py.ConnectionError):
        add(keys=["rj:n"], args=[5])  # EVALSHA is answered NOSCRIPT, SCRIPT LOAD passes, EVALSHA again is lost

    assert lost.wait().command == "EVALSHA"
    assert redis.get("rj:n") == b"5"
    assert redis_proxy.commands["EVALSHA"] == 2
    assert add(keys=["rj:n"], args=[5]) == 10


def test_a_lost_request_is_never_carried_out(redis_proxy: Proxy, client: redis_py.Redis, redis: redis_py.Redis):
    redis_proxy.lose_request("INCRBY")

    with pytest.raises(redis_py.ConnectionError):
        client.incr("rj:n")

    assert redis.get("rj:n") is None
    assert client.incr("rj:n") == 1


def test_an_error_can_be_answered_in_the_servers_place(redis_proxy: Proxy, client: redis_py.Redis):
    with redis_proxy.answer("LOADING Redis is loading the dataset in memory") as loading:
        for _ in range(3):
            with pytest.raises(BusyLoadingError):
                client.ping()
    assert loading.count == 3
    assert client.ping()

    with redis_proxy.answer("OOM command not allowed when used memory > 'maxmemory'.", command("SET")):
        with pytest.raises(OutOfMemoryError):
            client.set("rj:a", 1)
        assert client.get("rj:a") is None


def test_answers_of_our_own_keep_their_place_in_a_pipeline(redis_proxy: Proxy, client: redis_py.Redis):
    with redis_proxy.answer("READONLY You can't write against a read only replica.", "SET"):
        pipeline = client.pipeline(transaction=False)
        for number in (1, 2):
            pipeline.incr("rj:a")
            pipeline.set("rj:b", number)
        one, refused, two, refused_too = pipeline.execute(raise_on_error=False)

    assert (one, two) == (1, 2)
    assert isinstance(refused, redis_py.ReadOnlyError)
    assert isinstance(refused_too, redis_py.ReadOnlyError)


async def test_a_reply_can_be_held_while_the_test_does_something_else(redis_proxy: Proxy, redis: redis_py.Redis):
    async with AsyncRedis.from_url(redis_proxy.url, retry=None) as client:
        held = redis_proxy.hold_reply("INCRBY")
        asked = asyncio.ensure_future(client.incr("rj:n"))

        await held.happened()
        assert redis.get("rj:n") == b"1"
        await always(lambda: not asked.done(), "the reply is held", lasting=0.1)
        held.release()

        assert await asked == 1


async def test_a_request_can_be_held_before_it_arrives(redis_proxy: Proxy, redis: redis_py.Redis):
    async with AsyncRedis.from_url(redis_proxy.url, retry=None) as client:
        held = redis_proxy.hold_request("INCRBY")
        asked = asyncio.ensure_future(client.incr("rj:n"))

        await held.happened()
        redis.set("rj:n", 10)
        held.release()

        assert await asked == 11


async def test_a_rule_that_never_meets_a_request_says_so(redis_proxy: Proxy):
    with pytest.raises(AssertionError, match=r"no request within 0\.05 s to lose the reply"):
        await redis_proxy.lose_reply("INCRBY").happened(within=0.05)


async def test_pausing_stops_all_and_resuming_loses_nothing(redis_proxy: Proxy, redis: redis_py.Redis):
    async with AsyncRedis.from_url(redis_proxy.url, retry=None) as client:
        await client.ping()
        redis_proxy.requests.pause()
        asked = asyncio.ensure_future(client.incr("rj:n"))
        await always(lambda: redis.get("rj:n") is None, "the request does not arrive", lasting=0.1)

        redis_proxy.replies.pause()
        redis_proxy.requests.resume()
        await eventually(lambda: redis.get("rj:n") == b"1", "the request arrives")
        assert not asked.done()

        redis_proxy.resume()
        assert await asked == 1


def test_a_reset_is_seen_as_one_and_new_connections_are_served(redis_proxy: Proxy):
    with socket.create_connection(("127.0.0.1", redis_proxy.port)) as raw:
        eventually_now(lambda: redis_proxy.connections == 1, "the connection is there")

        redis_proxy.reset()

        raw.settimeout(5)
        with pytest.raises(ConnectionResetError):
            raw.recv(1)
    with socket.create_connection(("127.0.0.1", redis_proxy.port)) as raw:
        raw.settimeout(5)
        raw.sendall(b"PING\r\n")
        assert raw.recv(7) == b"+PONG\r\n"


def test_new_connections_are_refused_until_it_accepts_again(redis_proxy: Proxy, client: redis_py.Redis):
    assert client.ping()

    redis_proxy.down()
    for _ in range(3):
        with pytest.raises(redis_py.ConnectionError):
            client.ping()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", redis_proxy.port))

    redis_proxy.accept()
    assert client.ping()


def test_a_server_that_accepts_and_never_answers(redis_proxy: Proxy):
    redis_proxy.ignore()
    with socket.create_connection(("127.0.0.1", redis_proxy.port)) as raw:
        raw.sendall(b"PING\r\n")
        raw.settimeout(0.2)
        with pytest.raises(TimeoutError):
            raw.recv(1)


def test_arrivals_can_be_reset_and_are_counted(redis_proxy: Proxy, client: redis_py.Redis):
    redis_proxy.reset_arrivals()

    for _ in range(3):
        with pytest.raises(redis_py.ConnectionError):
            client.ping()

    assert redis_proxy.accepted == 3


def test_swallowed_connections_stay_silent_while_new_ones_are_served(redis_proxy: Proxy, redis: redis_py.Redis):
    with socket.create_connection(("127.0.0.1", redis_proxy.port)) as raw:
        raw.sendall(b"PING\r\n")
        assert raw.recv(7) == b"+PONG\r\n"

        redis_proxy.swallow_open()
        raw.sendall(b"SET rj:a 1\r\n")
        raw.settimeout(0.2)
        with pytest.raises(TimeoutError):
            raw.recv(1)
        assert redis.get("rj:a") is None

        with redis_py.Redis.from_url(redis_proxy.url) as other:
            assert other.ping()

        redis_proxy.heal()  # the silent one has lost bytes: it cannot go on
        raw.settimeout(5)
        with pytest.raises(ConnectionResetError):
            raw.recv(1)


def test_latency_adds_up_for_both_ways_and_not_for_each_chunk(redis_proxy: Proxy, client: redis_py.Redis):
    client.ping()
    redis_proxy.replies.delay(0.2)

    begun = time.monotonic()
    pipeline = client.pipeline(transaction=False)
    for _ in range(100):
        pipeline.ping()
    pipeline.execute()
    took = time.monotonic() - begun

    assert 0.2 <= took < 10, "each of a hundred for itself takes twenty seconds"


def test_bandwidth_is_bounded(redis_proxy: Proxy, client: redis_py.Redis):
    client.set("rj:big", b"x" * 50_000)
    redis_proxy.replies.throttle(200_000)

    begun = time.monotonic()
    client.get("rj:big")

    assert time.monotonic() - begun >= 0.25


def test_a_connection_is_cut_after_so_many_bytes(redis_proxy: Proxy, client: redis_py.Redis):
    client.set("rj:big", b"x" * 50_000)
    redis_proxy.replies.cut_after(30_000)

    with pytest.raises(redis_py.ConnectionError):
        client.get("rj:big")

    assert client.strlen("rj:big") == 50_000


def test_a_subscriber_gets_its_messages(redis_proxy: Proxy, client: redis_py.Redis, redis: redis_py.Redis):
    listener = client.pubsub()
    listener.subscribe("rj:news")
    assert listener.get_message(timeout=5)

    redis.publish("rj:news", b"here")

    message = eventually_now(lambda: listener.get_message(timeout=1), "the message comes")
    assert message
    assert message["data"] == b"here"
    listener.close()


def test_many_threads_and_clients_at_once(redis_proxy: Proxy, redis: redis_py.Redis):
    lost = redis_proxy.lose_reply("INCRBY", nth=500, times=20)
    failures = threading.Semaphore(0)

    def count(number: int) -> int:
        failed = 0
        with redis_py.Redis.from_url(redis_proxy.url, retry=NEVER_AGAIN) as client:
            for _ in range(200):
                try:
                    client.incr("rj:n")
                except redis_py.ConnectionError:
                    failed += 1
                    failures.release()
        return failed

    with ThreadPoolExecutor(8) as pool:
        failed = sum(pool.map(count, range(8)))

    assert failed == lost.count == 20
    assert redis.get("rj:n") == b"1600"
