"""How a job ends: its result, a cancel, a dead letter and its second life (rules W6, W7, W8, G1; rules 1, 3 and 6)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from redisjobs import Cancel, Context, Dead, JobCancelled, JobExpired, JobFailed, ResultTimeout, Retry
from redisjobs.errors import ConfigurationError
from redisjobs.operator import Operator
from redisjobs.search import JobFilter, Search
from tests.stories.road import Road
from tests.support.eventually import always, eventually


async def test_whoever_enqueued_a_job_can_wait_for_its_result(road: Road):
    @road.app.job(result_ttl=60)
    async def add(a: int, b: int) -> int:
        return a + b

    with road.connect() as connection:
        handle = add.enqueue(connection, a=2**70, b=1)
    with pytest.raises(ResultTimeout):
        await handle.result(timeout=0.1)

    await road.work()
    assert await handle.result(timeout=10) == 2**70 + 1
    assert await road.app.handle(handle.id, add).result(timeout=1) == 2**70 + 1, "asked for again, from elsewhere"


async def test_a_result_that_cannot_come_raises_what_went_wrong(road: Road):
    @road.app.job(result_ttl=60, max_attempts=1)
    async def end(how: str) -> None:
        if how == "fails":
            raise LookupError("no such order")
        raise {"cancels": Cancel("enough"), "dies": Dead("hopeless")}[how]

    @road.app.job
    async def forgetful() -> int:
        return 1

    await road.work()
    with road.connect() as connection:
        failed, cancelled, died = (end.enqueue(connection, how=how) for how in ("fails", "cancels", "dies"))
        forgotten = forgetful.enqueue(connection)
        expired = end.using(expires=0.001, delay=0.5).enqueue(connection, how="never")

    with pytest.raises(JobFailed, match="LookupError: no such order"):
        await failed.result(timeout=10)
    with pytest.raises(JobCancelled, match="enough"):
        await cancelled.result(timeout=10)
    with pytest.raises(JobFailed, match="hopeless"):
        await died.result(timeout=10)
    with pytest.raises(ConfigurationError, match="declare it with result_ttl"):
        await forgotten.result(timeout=10)
    with pytest.raises(JobExpired):
        await expired.result(timeout=10)


async def test_an_ended_job_stays_visible_for_as_long_as_it_asks(road: Road):
    @road.app.job(retention=timedelta(days=2))
    async def long_kept() -> None:
        return None

    @road.app.job(result_ttl=timedelta(hours=5), retention=1)
    async def with_result() -> dict[str, int]:
        return {"n": 1}

    @road.app.job
    async def ordinary() -> None:
        return None

    await road.work()
    jobs = road.commit(long_kept.call(), with_result.call(), ordinary.call())
    await road.reaches("done", *jobs)

    kept = "SELECT extract(epoch FROM keep_until - finished_at)::float8 FROM redisjobs.finished WHERE id = %(id)s"
    days, hours, usual = (road.query(kept, id=job)[0][0] for job in jobs)
    assert (round(days), round(hours), round(usual)) == (2 * 86_400, 5 * 3600, 3600)
    stored = "SELECT result, result_codec FROM redisjobs.finished WHERE id = %(id)s"
    assert road.query(stored, id=jobs[1]) == [(b'{"n":1}', "json")]


async def test_a_waiting_job_is_cancelled_in_a_transaction_that_may_also_roll_back(road: Road):
    @road.app.job
    async def note() -> None:
        road.seen.append("ran")

    first, second = road.commit(note.using(delay=600).call(), note.using(delay=1).call())
    await road.reaches("published", first, second)
    with road.connect() as connection:
        assert road.app.cancel(connection, second) == "requested"
        connection.rollback()
        assert road.app.cancel(connection, first) == "requested"

    await road.reaches("cancelled", first)
    await road.work()
    await road.reaches("done", second)
    assert road.seen == ["ran"]


async def test_a_job_can_be_cancelled_before_any_relay_has_seen_it(road: Road):
    @road.app.job
    async def note() -> None:
        road.seen.append("ran")

    await road.work()
    with road.connect() as connection:
        handle = note.enqueue(connection)
        assert road.app.cancel(connection, handle.id) == "requested"

    await road.reaches("cancelled", handle)
    assert road.seen == []


async def test_a_running_job_is_cancelled_within_about_a_second(road: Road):
    @road.app.job
    async def endless() -> None:
        try:
            road.seen.append("began")
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            road.seen.append("cancelled")
            raise

    await road.work()
    (job,) = road.commit(endless.call())
    await eventually(lambda: road.seen == ["began"], "it runs")
    with road.connect() as connection:
        assert road.app.cancel(connection, job) == "requested"

    await eventually(lambda: road.seen == ["began", "cancelled"], "its body hears of it", 3)
    await road.reaches("cancelled", job)


async def test_a_cancel_of_what_has_ended_says_how_it_ended(road: Road):
    @road.app.job(max_attempts=1)
    async def end(well: bool) -> None:
        if not well:
            raise ValueError("no")

    await road.work()
    good, bad = road.commit(end.call(well=True), end.call(well=False))
    await road.reaches("done", good)
    await road.reaches("dead", bad)
    with road.connect() as connection:
        assert road.app.cancel(connection, good) == "done"
        assert road.app.cancel(connection, bad) == "dead"
        assert road.app.cancel(connection, "00000000-0000-0000-0000-000000000000") == "unknown"


async def test_a_flagged_job_that_asks_for_a_retry_ends_as_cancelled(road: Road):
    go_on = asyncio.Event()

    @road.app.job
    async def stubborn() -> None:
        road.seen.append("ran")
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            raise Retry(after=0) from None

    await road.work()
    (job,) = road.commit(stubborn.call())
    await eventually(lambda: road.seen, "it runs")
    with road.connect() as connection:
        road.app.cancel(connection, job)
    await road.reaches("cancelled", job)
    assert road.seen == ["ran"]


async def test_a_dead_letter_keeps_all_and_lives_again_when_it_is_redriven(road: Road):
    broken = True

    @road.app.job(max_attempts=3, retry=[0])
    async def pay(ctx: Context, amount: dict[str, Any]) -> None:
        road.seen.append((ctx.job_id, ctx.attempt, amount, ctx.tenant_id))
        if broken:
            raise RuntimeError(f"the bank is closed, attempt {ctx.attempt}")

    await road.work()
    amount = {"cents": 2**63, "lines": [], "note": "ü"}
    (job,) = road.commit(pay.using(tenant="t1").call(amount=amount))
    await road.reaches("dead", job)

    with Search(road.database_url) as search, Operator(road.database_url) as operator:
        (letter,) = search.dead_letters(JobFilter(job="pay", error="the bank"), 10)
        (whole,) = [found for found in [operator.job(letter.id)] if found is not None]
        assert letter.reason == "attempt 3 of 3 failed"
        assert [each["message"] for each in whole.failures or []] == [
            f"the bank is closed, attempt {number}" for number in (1, 2, 3)
        ]
        assert all("RuntimeError" in each["traceback"] and each["at"] for each in whole.failures or [])

        broken = False
        assert operator.redrive([letter.id]) == 1
    await road.reaches("done", job)
    assert road.seen == [(job, number, amount, "t1") for number in (1, 2, 3, 1)]


async def test_redriving_twice_at_once_gives_one_new_life(road: Road):
    @road.app.job(max_attempts=1)
    async def fail() -> None:
        road.seen.append("ran")
        raise ValueError("still broken")

    await road.work()
    (job,) = road.commit(fail.call())
    await road.reaches("dead", job)
    revived = road.query(
        "SELECT redisjobs.redrive(ARRAY[%(id)s]::uuid[]), redisjobs.redrive(ARRAY[%(id)s]::uuid[])", id=job
    )
    assert revived == [(1, 0)]

    await road.reaches("dead", job)
    await always(lambda: road.seen == ["ran", "ran"], "one run a life", lasting=0.5)


async def test_a_result_is_not_waited_for_in_vain_where_the_body_never_ran(road: Road):
    @road.app.job(result_ttl=60)
    async def note() -> int:
        return 1

    with road.connect() as connection:
        handle = note.using(delay=600).enqueue(connection)
    await road.reaches("published", handle)
    with road.connect() as connection:
        road.app.cancel(connection, handle.id)
    with pytest.raises(JobCancelled):
        await handle.result(timeout=20)


async def test_after_a_redrive_the_result_is_that_of_the_new_life(road: Road):
    go_on = asyncio.Event()

    @road.app.job(result_ttl=60, max_attempts=1)
    async def mend(ctx: Context) -> str:
        road.seen.append(ctx.attempt)
        if len(road.seen) == 1:
            raise ValueError("broken")
        await go_on.wait()
        return "mended"

    await road.work()
    with road.connect() as connection:
        handle = mend.enqueue(connection)
    with pytest.raises(JobFailed, match="broken"):
        await handle.result(timeout=10)
    await road.reaches("dead", handle)

    road.query("SELECT redisjobs.redrive(ARRAY[%(id)s]::uuid[])", id=handle.id)
    await eventually(lambda: len(road.seen) == 2, "it runs again")
    with pytest.raises(ResultTimeout):
        await handle.result(timeout=0.1)
    go_on.set()
    assert await handle.result(timeout=10) == "mended"
