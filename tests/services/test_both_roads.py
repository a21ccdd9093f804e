"""What holds on real servers holds in memory, and the other way round: one suite, run on both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from redisjobs import App, Cancel, Context, Dead, JobCancelled, JobFailed, Retry, Snooze
from tests.support.roads import AnyRoad, enqueued, memory_road, real_road

PAST = datetime(2020, 1, 1, tzinfo=UTC)


class Shop:
    """An app with jobs that note their starts."""

    def __init__(self, **urls: Any) -> None:
        self.app = app = App("shop", **urls)
        self.starts: list[str] = []

        @app.job(result_ttl=60)
        async def mail(to: str) -> str:
            self.starts.append(to)
            return f"to {to}"

        @app.job(max_attempts=3, retry=[0], result_ttl=60)
        async def steered(ctx: Context, how: str) -> str:
            self.starts.append(f"{how} {ctx.attempt}")
            if len(self.starts) > 1 and how != "fails":
                return how
            signals = {"retry": Retry(after=0), "snooze": Snooze(0), "cancel": Cancel("why"), "dead": Dead("why")}
            raise signals.get(how) or ValueError("no")

        @app.job(queue="threads")
        def in_a_thread(n: int) -> None:
            self.starts.append(str(n))

        self.mail, self.steered, self.in_a_thread = mail, steered, in_a_thread


@pytest.fixture(params=["real", "memory"])
def shop(request: pytest.FixtureRequest) -> Shop:
    if request.param == "memory":
        return Shop()
    urls = {name: str(request.getfixturevalue(name)) for name in ("database_url", "redis_url")}
    return Shop(**urls)


@pytest.fixture
async def road(shop: Shop) -> AsyncIterator[AnyRoad]:
    settings = shop.app.settings
    is_real = settings.database_url is not None and settings.redis_url is not None
    opening = (
        real_road(shop.app, settings.need_database_url(), settings.need_redis_url())
        if is_real
        else memory_road(shop.app)
    )
    async with opening as opened:
        yield opened


async def test_committed_jobs_run_in_their_order_and_rolled_back_ones_never(shop: Shop, road: AnyRoad):
    async with road.connect() as connection:
        first = await shop.mail.enqueue(connection, "1")
        async with connection.transaction(force_rollback=True):
            await shop.mail.enqueue(connection, "never")
        await shop.mail.enqueue(connection, "2")
    await enqueued(road, shop.app, shop.mail.call("3"))
    await road.settle()

    assert shop.starts == ["1", "2", "3"]
    assert road.state(first) == "done"
    assert await first.result(5) == "to 1"


async def test_high_goes_before_normal_before_low(shop: Shop, road: AnyRoad):
    mail = shop.mail
    calls = [mail.using(priority=-1).call("low"), mail.call("normal"), mail.using(priority=1).call("high")]
    await enqueued(road, shop.app, *calls)
    await road.settle()

    assert shop.starts == ["high", "normal", "low"]


@pytest.mark.parametrize(
    ("how", "starts", "state"),
    [
        ("retry", ["retry 1", "retry 2"], "done"),
        ("snooze", ["snooze 1", "snooze 1"], "done"),
        ("raises", ["raises 1", "raises 2"], "done"),
        ("fails", ["fails 1", "fails 2", "fails 3"], "dead"),
        ("dead", ["dead 1"], "dead"),
        ("cancel", ["cancel 1"], "cancelled"),
    ],
)
async def test_how_an_attempt_ends_decides_what_becomes_of_the_job(
    shop: Shop, road: AnyRoad, how: str, starts: list[str], state: str
):
    [handle] = await enqueued(road, shop.app, shop.steered.call(how))
    await road.settle()

    assert (shop.starts, road.state(handle)) == (starts, state)
    if state == "done":
        assert await handle.result(5) == how
    else:
        with pytest.raises(JobFailed if state == "dead" else JobCancelled):
            await handle.result(5)


async def test_one_job_holds_its_key_while_it_lives_and_in_its_window(shop: Shop, road: AnyRoad):
    plain, kept = shop.mail.using(idempotency_key="a"), shop.mail.using(idempotency_key="b", window=60)
    first = await enqueued(road, shop.app, plain.call("1"), plain.call("2"), kept.call("3"), kept.call("4"))
    await road.settle()
    second = await enqueued(road, shop.app, plain.call("5"), kept.call("6"))
    await road.settle()

    assert [road.state(each) for each in first] == ["done", "deduplicated", "done", "deduplicated"]
    assert [road.state(each) for each in second] == ["done", "deduplicated"]
    assert shop.starts == ["1", "3", "5"]


async def test_a_cancelled_or_expired_job_does_not_start(shop: Shop, road: AnyRoad):
    cancelled, expired = await enqueued(
        road, shop.app, shop.mail.using(delay=3000).call("a"), shop.mail.using(expires=PAST).call("b")
    )
    await road.settle()
    async with road.connect() as connection:
        assert await shop.app.cancel(connection, cancelled.id) == "requested"
    await road.settle()

    assert [road.state(each) for each in (cancelled, expired)] == ["cancelled", "expired"]
    assert shop.starts == []


async def test_what_is_far_away_waits_in_the_outbox_and_what_is_unknown_is_parked(shop: Shop, road: AnyRoad):
    later = App("later").job(name="later")(shop.mail.function)
    far, soon, unknown = await enqueued(
        road, shop.app, shop.mail.using(delay=7200).call("a"), shop.mail.using(delay=1800).call("b"), later.call("c")
    )
    await road.settle()

    assert [road.state(each) for each in (far, soon, unknown)] == ["deferred", "published", "parked"]


async def test_direct_jobs_and_jobs_of_threads_run_too(shop: Shop, road: AnyRoad):
    direct = await shop.mail.enqueue_direct("direct")
    await enqueued(road, shop.app, *(shop.in_a_thread.call(n) for n in range(20)))
    await road.settle()

    assert sorted(shop.starts, key=str) == sorted(["direct", *map(str, range(20))])
    assert await direct.result(5) == "to direct"


async def test_a_redis_without_its_data_gets_all_jobs_again(shop: Shop, road: AnyRoad):
    await enqueued(road, shop.app, shop.mail.call("0"))
    await road.settle()
    handles = await enqueued(road, shop.app, *(shop.mail.using(delay=1800).call(f"{n}") for n in range(3)))
    await road.settle()
    await road.flushall()
    await road.settle()
    assert [road.state(each) for each in handles] == ["published"] * 3
    async with road.connect() as connection:
        for each in handles:
            await shop.app.cancel(connection, each.id)
    await road.settle()

    assert [road.state(each) for each in handles] == ["cancelled"] * 3
    assert shop.starts == ["0"]
