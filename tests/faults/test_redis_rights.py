"""The least rights that the manual names are enough, and each is needed: whatever lacks is named (cases N03, N04)."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from redisjobs import App
from redisjobs.broker import Ask, Heart, Limiter, Want
from redisjobs.broker.depths import Depths
from redisjobs.errors import StoreRefused
from tests.stories.road import Road
from tests.support.builders import finish, publication
from tests.support.eventually import eventually
from tests.support.queue import QueueByHand
from tests.support.servers import RedisServer

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
ACL = re.findall(r"```acl\n(.*?)```", PAGE, re.DOTALL)[0].split()
RIGHTS = [word[1:] for word in ACL if word.startswith("+")]


def as_documented(server: RedisServer) -> str:
    """Make the user that the manual names; the URL with it."""
    with server.client() as admin:
        admin.execute_command(*ACL)
        admin.execute_command("ACL", "LOG", "RESET")
    return server.url.replace("redis://", "redis://redisjobs:change-me@")


def refused(server: RedisServer) -> set[str]:
    """The commands that were asked for without the right."""
    with server.client() as admin:
        return {str(entry["object"]) for entry in cast("list[dict[str, Any]]", admin.acl_log())}


async def tour(url: str) -> None:
    """Every call that relays, workers and producers make, and every branch that needs a command of its own."""
    q = QueueByHand(url)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_exit(q.__aexit__)  # also where the first call is refused
        await q.open()
        await tour_of_the_relay(q)
        await tour_of_a_worker(q)
        await tour_of_limits(q, url)
        heart = Heart(url)
        stack.callback(heart.close)
        await asyncio.to_thread(heart.renew, "q", "w1", [])
        await asyncio.to_thread(heart.tell, "w1", b"{}")
        cancelled, running = publication(), publication()
        await q.publish(cancelled, running)
        taken = await q.take(count=1)
        await q.carrier.cancel(q.fence, [(cancelled.job_id, 0, 0), (running.job_id, 0, 0)])
        await q.broker.promote("q")
        await q.broker.finish("q", "w1", [finish(each) for each in taken])
        await q.settle()
        await q.carrier.audit(q.fence, [(cancelled.job_id, 0, 0), (b"0" * 16, 0, 0)])
        await q.carrier.forget(q.fence, [cancelled.job_id])
        await q.carrier.some_jobs("q", 0, 10)
        await q.broker.leave("q", "w1")
        q.bury()


async def tour_of_the_relay(q: QueueByHand) -> None:
    await q.carrier.lives(["q"])
    await q.carrier.adopt(q.fence, [(b"old key", b"1" * 16, 1)])
    await q.carrier.announce(["q", "other"])
    await q.broker.mark_dirty(["q"])
    await q.carrier.dirty()
    await q.carrier.clean(["q"])
    keyed = publication(key=b"k", window_ms=1)
    await q.publish(keyed, publication(key=b"k"), publication(delay_ms=1), publication(attempts=2))
    await q.publish(keyed)
    await q.broker.holder("q", b"k".decode())
    await q.broker.enqueue_direct("q", [publication(direct=True)])
    await q.broker.queues()


async def tour_of_limits(q: QueueByHand, url: str) -> None:
    limiter, one = Limiter(q.broker.redis), Want("api", "api", most=1)
    await limiter.admit("w1", [Ask(bytes([n]) * 16, 1, "q", (one,)) for n in range(2)], 60_000)
    with Depths(url) as depths:
        assert depths.look(["q"])["q"].limited == 0, "only what is due counts"
    await limiter.release("w1", [(bytes(16), 1)])
    await limiter.sweep("w1", 0)


async def moved(q: QueueByHand) -> bool:
    return (await q.broker.promote("q")).moved > 0


async def tour_of_a_worker(q: QueueByHand) -> None:
    await eventually(lambda: moved(q), "the delayed job is due")
    first, second, *others = await q.take()
    await q.broker.finish("q", "w1", [finish(first, keep_ms=1000, record=b"\x80"), finish(second, "retry", delay_ms=1)])
    await q.broker.wait_result("q", first.job_id, 0)
    await q.broker.wait_result("q", others[0].job_id, 0)
    await q.broker.recall("q", "w1", lease_ms=1)
    await q.publish(publication())
    entries = await q.broker.wait("q", "w1", 100)
    await q.broker.begin("q", "w1", entries, lease_ms=1)
    for each in await eventually(lambda: q.reclaim("w2"), "a lease has lapsed"):
        await q.finish(each, consumer="w2")
    await q.broker.promote("q")


async def test_with_the_documented_rights_everything_works(start_redis: Callable[..., RedisServer]):
    server = start_redis()
    await tour(as_documented(server))
    assert refused(server) <= {"client|setinfo", "info"}


async def test_the_whole_road_runs_with_them(start_redis: Callable[..., RedisServer], database_url: str):
    server = start_redis()
    async with Road(database_url, as_documented(server)) as road:

        @road.app.job(result_ttl=60)
        async def work() -> str:
            return "well"

        await road.work(queues=["default", "mail.*"])
        with road.connect() as connection:
            handle = work.enqueue(connection)
        assert await handle.result(timeout=10) == "well"
        await road.reaches("done", handle)
    assert refused(server) <= {"client|setinfo", "info"}


@pytest.mark.parametrize("right", [each for each in RIGHTS if each not in ("ping", "eval")])
async def test_a_right_that_lacks_is_named_in_the_error(start_redis: Callable[..., RedisServer], right: str):
    server = start_redis()
    url = as_documented(server)
    with server.client() as admin:
        admin.execute_command("ACL", "SETUSER", "redisjobs", f"-{right}")
    with pytest.raises(StoreRefused, match=rf"(?i)\b{right}\b"):
        await tour(url)


async def test_a_user_for_other_keys_is_told_so(start_redis: Callable[..., RedisServer]):
    server = start_redis()
    url = as_documented(server)
    app = App(redis_url=url, prefix="other")
    with pytest.raises(StoreRefused, match="key"):
        await app.broker().queues()
    await app.close()


@pytest.mark.parametrize("forbidden", ["@dangerous", "@admin"])
async def test_a_managed_redis_that_forbids_dangerous_commands_is_enough(
    start_redis: Callable[..., RedisServer], database_url: str, forbidden: str, caplog: pytest.LogCaptureFixture
):
    server = start_redis()
    with server.client() as admin:
        admin.execute_command("ACL", "SETUSER", "managed", "on", ">pw", "~*", "+@all", f"-{forbidden}")
    url = server.url.replace("redis://", "redis://managed:pw@")
    await tour(url)
    async with Road(database_url, url) as road:

        @road.app.job
        async def work() -> None:
            return None

        await road.work()
        await road.reaches("done", *road.commit(work.call()))
    said = {record.__dict__.get("event") for record in caplog.records}
    assert ("relay.info_forbidden" in said) == (forbidden == "@dangerous")
