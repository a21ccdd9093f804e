"""`redisjobs explain` of jobs that wait for a limit: for which, behind whom, and when their turn comes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from uuid import UUID

import pytest

from redisjobs.broker import Ask, Want
from tests.services import test_explain
from tests.services.test_explain import Told, in_redis
from tests.support.builders import Conn
from tests.support.cli import CommandLine
from tests.support.limiting import LimiterByHand, ask, job_id, limit, rate
from tests.support.queue import QueueByHand

explain, redisjobs = test_explain.explain, test_explain.redisjobs
FALLBACK_MS = 3_600_000


@pytest.fixture
async def h(redis_url: str) -> AsyncIterator[LimiterByHand]:
    async with LimiterByHand(redis_url) as made:
        yield made


async def parked_behind(
    conn: Conn, q: QueueByHand, h: LimiterByHand, *wants: Want, word: str = "wait", ahead: Sequence[Ask] = ()
) -> UUID:
    """A job that a worker took, that found no room behind those `ahead`, and that left its slot."""
    q.present("worker-1")
    job = await in_redis(conn, q)
    held = await q.take_one("worker-1")
    *_, verdict = await h.limiter.admit("worker-1", [*ahead, Ask(job.bytes, held.start, "q", wants)], 60_000)
    assert verdict.word == word
    await q.finish(held, "limited", consumer="worker-1", delay_ms=verdict.delay_ms or FALLBACK_MS)
    return job


async def test_the_limit_is_named_with_who_holds_it_and_the_place_in_line(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand, h: LimiterByHand
):
    two = limit("api:acme", 2)
    await h.admit(ask(1, two), ask(2, two), ask(3, two, queue="other"))

    told = explain(await parked_behind(conn, q, h, two))

    assert told.place == "limited"
    assert told.where.startswith("It is in Redis, and waits for limit api:acme, in place 2 of 2 of its line")
    assert told.codes == ["limit_full"]
    assert "Limit api:acme allows 2 at once, and 2 are in use, by 2 jobs: " in told.why
    holder = f"job {UUID(bytes=job_id(1))} on worker w1, for "
    assert re.search(holder + r"\d\d s at the latest unless its lease is renewed", told.why)
    assert told.next.startswith(
        "When its turn comes, it goes to the front of its queue, and a worker of the queue starts"
    )
    assert told.commands == ["redisjobs limits show api:acme"]


async def test_a_paused_limit_tells_how_to_go_on(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand, h: LimiterByHand
):
    await h.limiter.set_limit("api", most=0)

    told = explain(await parked_behind(conn, q, h, limit("api", 5)))

    assert told.codes == ["limit_paused"]
    assert "Limit api is paused at run time" in told.why
    assert told.commands[0] == "redisjobs limits unset api"


async def test_a_lower_limit_that_was_set_says_so(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand, h: LimiterByHand
):
    await h.limiter.set_limit("api", most=1)
    await h.admit(ask(1, limit("api", 5)))

    told = explain(await parked_behind(conn, q, h, limit("api", 5)))

    assert "Limit api allows 1 at once, as was set at run time, and 1 is in use" in told.why


async def test_a_rate_says_when_it_allows_the_start(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand, h: LimiterByHand
):
    slow = rate("mail", 100, 180_000)  # one in 1.8 s, within what is reserved ahead

    told = explain(await parked_behind(conn, q, h, slow, word="later", ahead=[ask(1, slow)]))

    assert told.place == "limited"
    assert told.where.startswith("It is in Redis, and waits for limit mail;")
    assert told.codes == ["limit_rate"]
    assert "Limit mail allows 100 in 180 s, and these have started." in told.why
    late = "What it waited for is kept for it now:"  # a slow machine has let the time pass
    assert told.next.startswith(("Its rate allows it in ", late))


async def test_far_behind_a_rate_it_stands_in_line(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand, h: LimiterByHand
):
    slow = rate("mail", 1, 600_000)
    await h.admit(ask(1, slow), ask(2, slow))

    told = explain(await parked_behind(conn, q, h, slow))

    assert "waits for limit mail, in place 2 of 2 of its line" in told.where
    assert "Limit mail allows 1 in 600 s" in told.why


async def test_what_a_body_closed_says_for_how_long(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand, h: LimiterByHand
):
    await h.limiter.ease("mail", 3_600_000)

    told = explain(await parked_behind(conn, q, h, rate("mail", 100, 1000)))

    assert told.codes[0] == "limit_closed"
    assert "nothing of limit mail starts for " in told.why


async def test_what_is_kept_for_it_starts_before_the_others(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand, h: LimiterByHand
):
    one = limit("api")
    await h.admit(ask(1, one))
    job = await parked_behind(conn, q, h, one)
    assert await h.release(1) == [int.from_bytes(job.bytes)]

    told = explain(job)

    assert told.next.startswith("What it waited for is kept for it now: a worker of the queue starts")


async def test_a_limiter_that_lost_its_data_is_asked_anew(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand, h: LimiterByHand
):
    await h.admit(ask(1, limit("api")))
    job = await parked_behind(conn, q, h, limit("api"))
    h.redis.delete(*[h.key(name) for name in ("held", "tickets", "line", "heads", "used", "expiry")])

    told = explain(job)

    assert told.place == "limited"
    assert told.next.startswith("The limiter knows nothing of it any more: it asks anew in ")


async def test_one_that_did_not_come_is_told_again_and_those_behind_it_are_passed_over(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand, h: LimiterByHand
):
    one = limit("api")
    await h.admit(ask(1, one))
    first, second = await parked_behind(conn, q, h, one), await parked_behind(conn, q, h, one)
    await h.admit(ask(2, one, queue="other"))
    await h.release(1)
    h.lapse(int.from_bytes(first.bytes))
    await h.sweep()

    told = explain(first)
    assert told.where.startswith("It is in Redis, and waits for limit api;")
    assert told.next.startswith(
        "It was told to come: it goes to the front of its queue, and a worker of the queue starts"
    )
    told = explain(second)
    assert "passed_over" in told.codes
    assert "nobody came for what was kept for jobs of queue q" in told.why
    assert f"kept for job {UUID(bytes=job_id(2))}, which comes for it" in told.why


async def test_one_whose_cancel_was_asked_for_ends(
    explain: Callable[..., Told], conn: Conn, q: QueueByHand, h: LimiterByHand
):
    await h.admit(ask(1, limit("api")))
    job = await parked_behind(conn, q, h, limit("api"))
    conn.execute("SELECT redisjobs.cancel(%s)", [job])
    conn.commit()

    assert explain(job).next == "Relay relay-1 ends it as cancelled."


async def test_jobs_show_tells_that_it_waits_for_a_limit(
    redisjobs: CommandLine, conn: Conn, q: QueueByHand, h: LimiterByHand
):
    await h.admit(ask(1, limit("api")))
    job = await parked_behind(conn, q, h, limit("api"))

    assert "waits for a limit" in redisjobs("jobs", "show", job).stdout
    assert redisjobs.json("jobs", "show", job)["redis"]["where"] == "limited"
