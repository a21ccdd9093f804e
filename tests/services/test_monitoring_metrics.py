"""The metrics of a worker and of a relay that have worked, on real stores (rules P4, W5; case O05)."""

from __future__ import annotations

import asyncio
import importlib.util
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from prometheus_client import REGISTRY, Counter
from psycopg.conninfo import make_conninfo

from redisjobs.base.envelope import Envelope
from redisjobs.context import Context, micros
from redisjobs.errors import Cancel, Retry, Snooze
from redisjobs.monitoring import Monitor
from redisjobs.monitoring import stores as stores_module
from redisjobs.monitoring.attempts import Attempts, Series
from redisjobs.monitoring.relay_figures import of_relay
from redisjobs.monitoring.stores import Stores
from redisjobs.monitoring.worker_figures import of_worker
from redisjobs.settings import Settings
from tests.support.builders import Conn, stage
from tests.support.crew import Crew
from tests.support.eventually import eventually
from tests.support.http import fetch
from tests.support.metrics import scrape, told
from tests.support.proxy import Proxy
from tests.support.relays import RelayByHand, hand, relay_by_hand


def looking(made: RelayByHand, database_url: str, redis_url: str) -> Stores:
    floors = made.relay.leases.held
    settings = Settings(database_url, redis_url)
    return Stores(settings, lambda: {queue: hold.floor.seq for queue, hold in floors.items()})


async def test_a_worker_tells_what_became_of_its_attempts(crew: Crew):
    @crew.app.job(name="play", retry=[0.01], max_attempts=2)
    async def play(ctx: Context, part: str) -> None:
        crew.starts[part] += 1
        if part == "dead" or (part == "flaky" and ctx.attempt == 1):
            raise ConnectionError
        if part == "later" and crew.starts[part] == 1:
            raise Snooze(0.01)
        if part == "cancelled":
            raise Cancel
        if part == "stays":
            await asyncio.sleep(60)

    counted = Attempts(crew.app.jobs)
    for part in ("well", "dead", "flaky", "later", "cancelled", "stays"):
        await crew.put("play", arguments={"part": part})
    await crew.put("nobody_knows")
    with Monitor("worker", port=0) as monitor:
        worker = crew.worker(observer=counted)
        async with monitor.watching(worker, lambda: of_worker(worker, counted)):
            await worker.start()
            await eventually(lambda: worker.stats()["processed"] == 8, "all but two have ended")
            running = await scrape(monitor.port)
            await worker.stop(0)
            found = await scrape(monitor.port)

    assert running.value("redisjobs_slots", queue="default") == 10
    assert running.value("redisjobs_slots_in_use", queue="default") == 1
    assert running.value("redisjobs_ready") == 1
    assert running.values("redisjobs_build_info", role="worker") == [1]
    assert found.counts("redisjobs_attempts_ended_total", "outcome", job_name="play") == {
        "succeeded": 3, "retried": 2, "dead": 1, "snoozed": 1, "cancelled": 1, "interrupted": 1,
    }  # fmt: skip
    assert found.counts("redisjobs_attempts_ended_total", "outcome", job_name="unknown") == {"parked": 1}
    assert found.value("redisjobs_attempts_started_total", job_name="play") == 9
    assert found.value("redisjobs_process_duration_seconds_count", job_name="play") == 9
    assert found.value("redisjobs_queue_wait_seconds_count", job_name="play") == 6
    assert found.value("redisjobs_lease_lost_total", queue="default") == 0
    assert found.value("redisjobs_ready") == 0


async def test_a_wait_in_the_line_of_a_limit_is_told_apart_from_that_in_the_queue(crew: Crew):
    holding = asyncio.Event()

    @crew.app.job(name="narrow", limit=1, retry=[0.01], max_attempts=2)
    async def narrow(ctx: Context) -> None:
        crew.starts["narrow"] += 1
        await holding.wait()
        if ctx.attempt == 1:
            raise ConnectionError

    counted = Attempts(crew.app.jobs)
    worker = await crew.start(observer=counted)
    staged_at = micros(datetime.now(UTC) - timedelta(seconds=20))
    await crew.put(Envelope("narrow", "json", b"{}", staged_at=staged_at), 3)
    series = counted.series.setdefault(("default", "narrow"), Series())
    await eventually(lambda: series.ended["limited"] == 2, "two stand in the line")
    holding.set()
    await eventually(lambda: series.ended["done"] == 3, "all have run, each in its second attempt")

    found = told(of_worker(worker, counted))
    assert found.value("redisjobs_queue_wait_seconds_count", job_name="narrow") == 1
    assert found.value("redisjobs_limited_wait_seconds_count", job_name="narrow") == 2
    assert 40 <= found.value("redisjobs_limited_wait_seconds_sum", job_name="narrow") < 80


async def test_a_lost_lease_is_counted_and_explains_the_start_that_follows(crew: Crew):
    began = asyncio.Event()

    @crew.app.job(name="once")
    async def once() -> None:
        crew.starts["once"] += 1
        if crew.starts["once"] == 1:
            began.set()
            await asyncio.sleep(60)

    counted = Attempts(crew.app.jobs)
    worker = await crew.start(observer=counted, visibility_timeout=2)
    await crew.put("once")
    await began.wait()
    worker._heartbeat.stop()
    other = await crew.start(observer=counted, visibility_timeout=2)
    await eventually(lambda: crew.starts["once"] == 2, "it was taken over")
    await eventually(lambda: worker.stats()["processed"] + other.stats()["processed"] == 1, "it has ended there")
    await worker.stop(0)

    found = told(of_worker(other, counted))
    assert found.value("redisjobs_redeliveries_total", queue="default", reason="lease_lost") == 1
    assert found.value("redisjobs_lease_lost_total", queue="default") == 1


async def test_a_relay_shows_everything_that_is_stuck_and_since_when(database_url: str, redis_url: str, conn: Conn):
    async with relay_by_hand(database_url, redis_url) as made, hand(redis_url) as worker:
        for job in ("dies", "parks", "runs", "waits"):
            stage(conn, job)
        stage(conn, "far", run_at="2999-01-01T00:00:00Z")
        conn.commit()
        await made.rounds()
        for word in ("dead", "parked"):
            await worker.run(word, count=1, delay_ms=0 if word == "dead" else 60_000)
        await made.rounds()
        await worker.one()
        stage(conn, "new")
        conn.commit()

        stores = looking(made, database_url, redis_url)
        await asyncio.to_thread(stores.look)
        found = told(of_relay(made.relay, stores))

    assert found.counts("redisjobs_outbox_rows", "state") == {"staged": 1, "deferred": 1, "parked": 1}
    assert found.counts("redisjobs_jobs", "state") == {"ready": 1, "running": 1, "due": 1}
    assert found.value("redisjobs_dead_letters", queue="default") == 1
    for name, labels in (
        ("outbox_oldest_seconds", {"state": "staged"}),
        ("outbox_oldest_seconds", {"state": "parked"}),
        ("jobs_oldest_seconds", {"state": "ready"}),
        ("jobs_oldest_seconds", {"state": "running"}),
        ("dead_letters_oldest_seconds", {}),
    ):
        assert 0 < found.value(f"redisjobs_{name}", **labels) < 60, name
    assert found.value("redisjobs_published_total", queue="default") == 5
    assert found.value("redisjobs_settled_total", queue="default") == 2
    assert found.counts("redisjobs_store_up", "store") == {"postgres": 1, "redis": 1}
    assert found.value("redisjobs_relay_queues") == 1


async def test_ages_of_each_kind_grow_with_what_they_tell_of(database_url: str, redis_url: str, conn: Conn):
    """Each age is that of its own oldest one, and not that of another."""
    async with relay_by_hand(database_url, redis_url) as made, hand(redis_url) as worker:
        for job in ("dies", "parks", "first"):
            stage(conn, job)
        conn.commit()
        await made.rounds()
        await worker.run("dead", count=1)
        await worker.run("parked", count=1, delay_ms=60_000)
        await made.rounds()
        stage(conn, "new")
        conn.execute("UPDATE redisjobs.dead SET died_at = died_at - interval '4 days'")
        conn.execute("UPDATE redisjobs.outbox SET staged_at = staged_at - interval '2 days' WHERE state = 'parked'")
        conn.execute("UPDATE redisjobs.outbox SET staged_at = staged_at - interval '1 day' WHERE state = 'staged'")
        conn.commit()

        stores = looking(made, database_url, redis_url)
        await asyncio.to_thread(stores.look)
        found = told(of_relay(made.relay, stores))

    day = 86_400
    assert found.value("redisjobs_outbox_oldest_seconds", state="staged") // day == 1
    assert found.value("redisjobs_outbox_oldest_seconds", state="parked") // day == 2
    assert found.value("redisjobs_dead_letters_oldest_seconds", queue="default") // day == 4


async def test_failures_losses_and_recoveries_of_a_relay_are_counted(
    database_url: str, redis_url: str, conn: Conn, redis: Any
):
    async with relay_by_hand(database_url, redis_url, lease=600) as made:
        stage(conn)
        conn.commit()
        await made.rounds()
        redis.flushall()
        await made.renewed()
        await made.rounds()
        conn.execute("UPDATE redisjobs.queues SET token = token + 1")
        stage(conn)
        conn.commit()
        await made.round()

        carried = made.relay.carried["default"]
        assert (carried.recoveries, carried.relay_lease_lost) == (1, 1)
        assert (carried.published, made.relay.published) == (2, 2)


async def test_a_row_that_stops_its_queue_is_counted_and_shown(
    database_url: str, redis_url: str, conn: Conn, redis_proxy: Proxy
):
    bad = stage(conn, queue="mail")
    conn.commit()
    async with relay_by_hand(database_url, redis_proxy.url) as made:
        with redis_proxy.answer("ERR no", lambda request: bad.bytes in request.words):
            for _ in range(3):
                await made.round()
        stopped = told(of_relay(made.relay, looking(made, database_url, redis_url)))
        await made.rounds()
        goes_on = told(of_relay(made.relay, looking(made, database_url, redis_url)))

    assert stopped.value("redisjobs_queue_stuck", queue="mail") == 1
    assert stopped.value("redisjobs_publish_failures_total", queue="mail") == 3
    assert goes_on.value("redisjobs_queue_stuck", queue="mail") == 0
    assert goes_on.value("redisjobs_publish_failures_total", queue="mail") == 3


async def test_a_store_that_is_away_leaves_its_figures_out_and_breaks_no_scrape(
    redis_url: str, postgres_proxy: Proxy, redis_proxy: Proxy, caplog: pytest.LogCaptureFixture
):
    async with relay_by_hand(postgres_proxy.url, redis_url) as made:
        stores = looking(made, postgres_proxy.url, redis_proxy.url)
        postgres_proxy.down()
        await asyncio.to_thread(stores.look)
        half = told(of_relay(made.relay, stores))
        redis_proxy.down()
        for _ in range(3):
            await asyncio.to_thread(stores.look)
        none = told(of_relay(made.relay, stores))
        postgres_proxy.heal()
        redis_proxy.heal()
        await asyncio.to_thread(stores.look)
        both = told(of_relay(made.relay, stores))

    assert half.counts("redisjobs_store_up", "store") == {"redis": 1}
    assert "redisjobs_jobs" in half.families
    assert "redisjobs_outbox_rows" not in half.families
    assert none.counts("redisjobs_store_up", "store") == {}
    assert "redisjobs_jobs" not in none.families
    assert both.counts("redisjobs_store_up", "store") == {"postgres": 1, "redis": 1}
    assert caplog.text.count("metrics.store_silent") == 2, "each is told of once"


async def test_figures_that_have_grown_old_are_told_no_more(
    database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
):
    async with relay_by_hand(database_url, redis_url) as made:
        stores = looking(made, database_url, redis_url)
        await asyncio.to_thread(stores.look)
        assert stores.rows is not None

        monkeypatch.setattr(stores_module, "STALE_S", -1.0)

        assert [stores.rows, stores.depths] == [None, None]


async def test_no_look_counts_further_than_its_limits(
    database_url: str, redis_url: str, conn: Conn, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stores_module, "MOST_ROWS", 3)
    monkeypatch.setattr(stores_module, "SMALL_BYTES", 0)
    async with relay_by_hand(database_url, redis_url) as made:
        stage(conn)
        conn.commit()
        await made.rounds()
        for _ in range(10):
            stage(conn)
        conn.commit()
        stores = looking(made, database_url, redis_url)
        await asyncio.to_thread(stores.look)

        assert stores.rows is not None
        assert stores.rows.states == {
            ("default", "staged"): (3, pytest.approx(5, abs=5)), ("default", "deferred"): (0, 0.0),
        }  # fmt: skip


async def test_a_look_needs_no_more_rights_than_a_relay_has(
    database_url: str, redis_url: str, conn: psycopg.Connection[Any]
):
    async with relay_by_hand(database_url, redis_url) as made:
        stage(conn)
        conn.commit()
        await made.rounds()
        conn.execute("CREATE ROLE looking_relay LOGIN PASSWORD 'hush'")
        conn.execute("SELECT redisjobs.grant_relay('looking_relay')")
        conn.commit()
        try:
            stores = looking(made, make_conninfo(database_url, user="looking_relay"), redis_url)
            await asyncio.to_thread(stores.look)
            assert stores.rows is not None
        finally:
            conn.execute("DROP OWNED BY looking_relay")
            conn.execute("DROP ROLE looking_relay")
            conn.commit()


async def test_openmetrics_is_told_to_whoever_asks_for_it(monkeypatch: pytest.MonkeyPatch):
    with Monitor("worker", port=0) as monitor:
        page = monitor._metrics("application/openmetrics-text; version=1.0.0")
        assert page.kind.startswith("application/openmetrics-text")
        assert page.body.endswith(b"# EOF\n")
        assert monitor._metrics("").kind.startswith("text/plain")


async def test_without_the_library_the_page_names_the_extra_and_health_is_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with Monitor("worker", port=0) as monitor:
        assert monitor.port is not None
        assert not monitor.serves_metrics
        assert await fetch(monitor.port, "/metrics") == (501, "install them: pip install 'redisjobs-pg[metrics]'\n")
        assert (await fetch(monitor.port, "/health"))[0] == 200


async def test_what_a_body_counts_by_the_library_itself_is_told_too(crew: Crew):
    sold = Counter("shop_orders", "Orders.", registry=REGISTRY)

    @crew.app.job(name="sell")
    async def sell() -> None:
        sold.inc()
        raise Retry(after=60)

    try:
        with Monitor("worker", port=0) as monitor:
            worker = await crew.start()
            async with monitor.watching(worker):
                await crew.put("sell")
                await eventually(lambda: worker.stats()["processed"] == 1, "it has run")
                assert (await scrape(monitor.port)).value("shop_orders_total") == 1
    finally:
        REGISTRY.unregister(sold)
