"""Jobs that wait in a share or behind their lane are counted, listed and explained as what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from redisjobs.broker import ShareRule
from redisjobs.broker.depths import Depths
from redisjobs.broker.view import View
from redisjobs.monitoring.relay_figures import _of_depths
from tests.services import test_explain
from tests.services.test_explain import Told, in_redis
from tests.support.builders import Conn
from tests.support.cli import CommandLine
from tests.support.queue import QueueByHand

explain, redisjobs = test_explain.explain, test_explain.redisjobs


async def jobs(conn: Conn, q: QueueByHand, count: int, **given: Any) -> list[UUID]:
    q.present("worker-1")
    q.redis.sadd("rj:queues", "q")
    return [await in_redis(conn, q, **given) for _ in range(count)]


async def test_what_waits_in_shares_waits_for_a_worker(
    conn: Conn, q: QueueByHand, redis_url: str, redisjobs: CommandLine
):
    acme = await jobs(conn, q, 3, share=b"acme")
    plain = await jobs(conn, q, 2)

    with Depths(redis_url) as depths, View(redis_url) as view:
        depth, looked = depths.look(["q"])["q"], view.look(["q"])["q"]

    assert (depth.ready, looked.waiting) == (5, 5)
    assert 0 < depth.ready_s < 600
    listed = {each["id"] for each in redisjobs.json("jobs", "list", "--state", "waiting")["jobs"]}
    assert listed == set(map(str, [*acme, *plain]))


async def test_the_age_of_the_oldest_counts_those_in_shares(conn: Conn, q: QueueByHand, redis_url: str):
    await jobs(conn, q, 2, share=b"acme")
    (member, *_) = q.redis.zrange(q.key("shares"), 0, 0)
    seconds, _ = q.redis.time()
    q.redis.zrem(q.key("shares"), member)
    q.redis.zadd(q.key("shares"), {member[:-32] + b"%016d" % ((seconds - 600) * 1_000_000) + member[-16:]: 0})

    with Depths(redis_url) as depths:
        assert 600 <= depths.look(["q"])["q"].ready_s < 700


async def test_explain_names_the_share_and_who_goes_first(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    *_, last = await jobs(conn, q, 4, share=b"acme")

    told = explain(last)

    assert told.place == "waiting"
    assert "share" in told.codes
    assert "It waits in share 'acme', where 2 jobs of it go before it" in told.why, "the first has had its turn"


async def test_explain_tells_that_a_share_is_paused(explain: Callable[..., Told], conn: Conn, q: QueueByHand):
    await q.open(shares=[ShareRule("acme", 1.0, paused=True)])
    (job,) = await jobs(conn, q, 1, share=b"acme")

    told = explain(job)

    assert "share_paused" in told.codes
    assert "Share 'acme' of queue q is paused" in told.why


async def test_what_waits_behind_its_lane_is_a_state_of_its_own(
    conn: Conn, q: QueueByHand, redis_url: str, redisjobs: CommandLine
):
    first, *rest = [(await jobs(conn, q, 1, lane=b"order 7", order=n))[0] for n in (1, 2, 3)]

    with Depths(redis_url) as depths:
        found = depths.look(["q"])
    assert (found["q"].ready, found["q"].behind) == (1, 2)
    figures = next(each for each in _of_depths(found) if each.name == "redisjobs_jobs")
    assert (("q", "behind"), 2) in figures.samples
    assert "2 wait behind their lanes" in redisjobs("status").stdout
    assert {each["id"] for each in redisjobs.json("jobs", "list", "--state", "behind")["jobs"]} == set(map(str, rest))
    assert [each["id"] for each in redisjobs.json("jobs", "list", "--state", "waiting")["jobs"]] == [str(first)]
    assert redisjobs.json("jobs", "show", rest[0])["redis"]["where"] == "behind"
    assert f"in lane 'order 7' for job {first}, which goes first" in redisjobs("jobs", "show", rest[0]).stdout
