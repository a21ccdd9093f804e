"""Foreign bytes run no code, passwords are shown nowhere, and small rights are enough (cases N01 to N05)."""

from __future__ import annotations

import pickle
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from redisjobs import App
from redisjobs.broker import Publication
from redisjobs.errors import ConfigurationError, RedisjobsError
from redisjobs.settings import Settings
from tests.stories.road import Road
from tests.support.eventually import eventually
from tests.support.http import get
from tests.support.processes import Processes, Program
from tests.support.servers import PostgresServer, RedisServer

PASSWORD = "qx7@wv8/yj4#%+:?é 'kz9\\"
PARTS = ("qx7", "wv8", "yj4", "kz9")
MARKER = "marker-7f3a91"
SHOP = """
    import os, time
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
    from redisjobs import App, BatchCall, Context, Dead

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=open(os.environ["SPANS"], "a", 1))))
    trace.set_tracer_provider(provider)
    app = App("shop")

    def end(how: str) -> None:
        if how == "fails":
            raise ValueError("no " + how)
        if how == "dies":
            raise Dead("hopeless")

    @app.job(max_attempts=2, retry=[0])
    async def work(ctx: Context, secret: str, how: str) -> str:
        end(how)
        return secret

    @app.job(max_attempts=2, retry=[0])
    def work_in_a_thread(ctx: Context, secret: str, how: str) -> str:
        end(how)
        return secret

    @app.job(max_attempts=2, retry=[0], process=True)
    def work_in_a_process(secret: str, how: str) -> str:
        end(how)
        return secret

    @app.job(max_attempts=1, timeout=0.1)
    async def late(ctx: Context, secret: str) -> None:
        import asyncio
        await asyncio.sleep(60)

    @app.job(max_attempts=2, retry=[0])
    async def recorded(ctx: Context, secret: str) -> None:
        told = await ctx.wait_for_event("told", "key", timeout=60)
        assert await ctx.step("note", lambda known: known, secret) == told.data["secret"]
        async with ctx.transaction("book") as tx:
            await tx.execute("SELECT %s::text", [secret])
        await ctx.step("break", end, "fails", retry=[0])

    @app.batch_job(size=2, within=0.1, max_attempts=1)
    def together(calls: list[BatchCall[str]]) -> None:
        end("fails")

    @app.job(max_attempts=1)
    async def spoil(ctx: Context, secret: str) -> object:
        return {"secret": secret, "cannot be encoded": object()}
"""


@pytest.fixture
async def road(database_url: str, redis_url: str) -> AsyncIterator[Road]:
    async with Road(database_url, redis_url) as made:
        yield made


class Bomb:
    """A pickle of it makes a file when it is read."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.canary), "w"))


async def test_a_pickle_runs_nowhere(road: Road, tmp_path: Path):
    canary = tmp_path / "canary"
    bomb = pickle.dumps(Bomb(canary))

    @road.app.job(result_ttl=60)
    async def work() -> str:
        road.seen.append("ran")
        return "well"

    await road.work()
    broker = road.app.broker()
    good = await work.enqueue_direct()
    assert await good.result(timeout=10) == "well"

    # an entry whose job is a pickle, an entry that is one, a row that holds one, and one in place of a result
    (envelope,) = await broker.enqueue_direct("default", [publication(bomb)])
    assert envelope[0] == "new"
    await broker.redis.xadd("rj:{default}:ready1", {"j": bomb})
    await broker.redis.xadd("rj:{default}:ready1", {bomb: bomb})
    await broker.redis.xadd("rj:{default}:outcomes", {bomb: bomb})
    road.query("INSERT INTO redisjobs.outbox (job, payload, codec) VALUES ('work', %(p)s, 'pickle')", p=bomb)
    await eventually(lambda: road.query("SELECT count(*) FROM redisjobs.dead") == [(2,)], "both are set aside")
    await broker.redis.delete(broker.keys.result("default", bytes.fromhex(good.id.replace("-", ""))))
    await broker.redis.xadd(
        broker.keys.result("default", bytes.fromhex(good.id.replace("-", ""))), {"word": "done", "record": bomb}
    )
    with pytest.raises(RedisjobsError):
        await good.result(timeout=2)

    last = road.commit(work.call())[0]
    await road.reaches("done", last)
    assert road.seen == ["ran", "ran"]
    assert not canary.exists()


def publication(envelope: bytes) -> Publication:
    return Publication(job_id=b"\x01" * 16, envelope=envelope, band=1, direct=True)


@pytest.mark.parametrize("how", ["encoded", "option", "environment"])
async def test_a_password_of_any_characters_opens_redis(
    start_redis: Callable[..., RedisServer], monkeypatch: pytest.MonkeyPatch, how: str
):
    server = start_redis()
    with server.client() as admin:
        admin.config_set("requirepass", PASSWORD)
    at = f"127.0.0.1:{server.port}/0"
    if how == "encoded":
        app = App(redis_url=f"redis://:{quote(PASSWORD, safe='')}@{at}")
    elif how == "option":
        app = App(redis_url=f"redis://{at}", redis_password=PASSWORD)
    else:
        monkeypatch.setenv("REDISJOBS_REDIS_PASSWORD", PASSWORD)
        app = App(redis_url=f"redis://{at}")
    assert await app.broker().queues() == set()
    await app.close()


@pytest.mark.parametrize("store", ["redis", "database"])
def test_a_raw_password_in_a_url_is_refused_without_a_part_of_it(store: str):
    scheme = {"redis": "redis", "database": "postgresql"}[store]
    with pytest.raises(ConfigurationError, match="percent-encoded") as refused:
        Settings(**{f"{store}_url": f"{scheme}://user:{PASSWORD}@127.0.0.1/0"})
    assert not [part for part in PARTS if part in str(refused.value)]


async def test_a_wrong_password_is_refused_without_being_shown(start_redis: Callable[..., RedisServer]):
    server = start_redis()
    with server.client() as admin:
        admin.config_set("requirepass", "another")
    app = App(redis_url=f"redis://127.0.0.1:{server.port}/0", redis_password=PASSWORD)
    with pytest.raises(ConfigurationError, match="login") as refused:
        await app.broker().queues()
    await app.close()
    assert not [part for part in PARTS if part in str(refused.value)]


async def test_a_role_with_such_a_password_opens_postgres(
    start_postgres: Callable[..., PostgresServer], tmp_path: Path
):
    server = start_postgres(password_encryption="scram-sha-256")
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE odd LOGIN PASSWORD {}").format(PASSWORD))
    (server.folder / "data" / "pg_hba.conf").write_text("host all odd all scram-sha-256\nhost all all all trust\n")
    server.restart()
    at = f"127.0.0.1:{server.port}/postgres"
    for app in (
        App(database_url=f"postgresql://odd:{quote(PASSWORD, safe='')}@{at}"),
        App(database_url=f"postgresql://odd@{at}", database_password=PASSWORD),
    ):
        with psycopg.connect(app.settings.need_database_url()) as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("odd",)
        assert not [part for part in PARTS if part in repr(app.settings) + str(app.settings.shown())]


def title(program: Program) -> str:
    """What `ps` shows of it."""
    return Path(f"/proc/{program.pid}/cmdline").read_text()


@pytest.mark.parametrize("level", ["info", "debug"])
async def test_no_argument_is_in_any_log_metric_span_or_title(
    database_url: str, processes: Processes, tmp_path: Path, level: str
):
    place = f"{processes.module('shop_n05', textwrap.dedent(SHOP))}:app"
    processes.env |= {"SPANS": str(tmp_path / "spans"), "REDISJOBS_LOG_LEVEL": level, "REDISJOBS_HTTP_PORT": "0"}
    with psycopg.connect(database_url) as connection:
        enqueue_with_the_marker(connection)
    relay, worker = processes.redisjobs("relay"), processes.redisjobs("worker", place)

    def all_ended() -> bool:
        with psycopg.connect(database_url) as connection:
            return connection.execute("SELECT count(*) FROM redisjobs.outbox").fetchone() == (0,)

    await eventually(all_ended, "all have ended", 60)
    scrapes = [
        get(int(each.log().partition("http.serving port=")[2].split()[0]), "/metrics") for each in (relay, worker)
    ]
    titles = title(relay) + title(worker)
    assert (worker.stop(), relay.stop()) == (0, 0)
    logs, spans = relay.log() + worker.log(), (tmp_path / "spans").read_text()
    metrics = "".join(text for _, text in scrapes)

    assert [status for status, _ in scrapes] == [200, 200]
    assert 'job_name="work_in_a_process"' in metrics
    assert "batch default" in spans
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("SELECT job, failures::text FROM redisjobs.dead").fetchall()
    died: dict[str, str] = dict(rows)
    assert "ValueError" in died["together"]
    assert "break" in died["recorded"], "it came to its last step"
    assert spans.count('"exception.stacktrace"') >= 8
    assert {"job.dead", "attempt.retrying"} <= set(logs.split())
    assert not [told for told in (logs, metrics, spans, titles) if MARKER in told]


def enqueue_with_the_marker(connection: psycopg.Connection[Any]) -> None:
    """Jobs with the marker in their arguments that come to every kind of end."""
    whole = "SELECT redisjobs.enqueue(%s, json_build_object('secret', %s::text, 'how', %s::text))"
    for job in ("work", "work_in_a_thread", "work_in_a_process"):
        for how in ("works", "fails", "dies"):
            connection.execute(whole, [job, MARKER, how])
    lacking = "SELECT redisjobs.enqueue(%s, json_build_object('secret', %s::text))"
    for job in ("work", "late", "spoil"):
        connection.execute(lacking, [job, MARKER])
    connection.execute("SELECT redisjobs.enqueue('work', json_build_object('secret', 7, 'how', ARRAY[%s]))", [MARKER])
    unknown = "SELECT redisjobs.enqueue('late', json_build_object('secret', 'x', 'removed', %s::text))"
    connection.execute(unknown, [MARKER])
    connection.execute("INSERT INTO redisjobs.outbox (job, payload, codec) VALUES ('work', %s, 'json')", ["{" + MARKER])
    connection.execute(lacking, ["recorded", MARKER])
    connection.execute("SELECT redisjobs.send_event('told', 'key', json_build_object('secret', %s::text))", [MARKER])
    for _ in range(3):
        connection.execute("SELECT redisjobs.enqueue('together', json_build_object('argument', %s::text))", [MARKER])
