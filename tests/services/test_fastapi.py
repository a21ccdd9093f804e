"""A web program on FastAPI or Starlette: its lifespan, and a transaction for each request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import psycopg
import pytest
from fastapi import Depends, FastAPI, HTTPException
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from redisjobs import App, ConfigurationError, OptionError
from redisjobs.integrations.fastapi import redisjobs_lifespan, transaction
from tests.support.eventually import eventually_now

Transaction = Annotated[psycopg.AsyncConnection, Depends(transaction, scope="function")]


@pytest.fixture
def app(database_url: str, redis_url: str) -> App:
    made = App("web", database_url=database_url, redis_url=redis_url)

    @made.job(name="double", queue="numbers", result_ttl=60)
    async def double(number: int) -> int:
        return 2 * number

    return made


@pytest.fixture
def web(app: App) -> Callable[..., FastAPI]:
    """A program with a page that enqueues, and one that asks for the result."""

    def make(**options: Any) -> FastAPI:
        made = FastAPI(lifespan=redisjobs_lifespan(app, **options))

        @made.post("/numbers/{number}")
        async def put(number: int, connection: Transaction) -> str:
            handle = await app.find("double").enqueue(connection, number)
            if number == 13:
                raise HTTPException(409, "not that one")
            return handle.id

        @made.get("/results/{job_id}")
        async def result(job_id: str) -> int:
            return int(await app.handle(job_id, app.find("double")).result(timeout=10))

        @made.post("/late/{number}")
        async def late(number: int, connection: Transaction) -> str:
            await connection.execute("CREATE TEMP TABLE t (n int UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP")
            await connection.execute("INSERT INTO t VALUES (1), (1)")  # is refused by the commit
            return (await app.find("double").enqueue(connection, number)).id

        return made

    return make


def staged(conn: psycopg.Connection[Any]) -> list[Any]:
    conn.rollback()
    return [row[0] for row in conn.execute("SELECT input FROM redisjobs.outbox ORDER BY seq").fetchall()]


def test_a_request_enqueues_in_its_own_transaction(web: Callable[..., FastAPI], conn):
    with TestClient(web(pool_size=2)) as client:
        assert client.post("/numbers/1").status_code == 200
        assert client.post("/numbers/13").status_code == 409

    assert staged(conn) == [{"number": 1}]


def test_a_commit_that_fails_is_no_success(web: Callable[..., FastAPI], conn):
    with TestClient(web(pool_size=1), raise_server_exceptions=False) as client:
        assert client.post("/late/1").status_code == 500
        assert client.post("/numbers/2").status_code == 200, "the connection is good again"

    assert staged(conn) == [{"number": 2}]


def test_at_a_desk_one_process_does_it_all(web: Callable[..., FastAPI], conn):
    with TestClient(web(pool_size=1, develop=True)) as client:
        job_id = client.post("/numbers/21").json()
        assert client.get(f"/results/{job_id}").json() == 42

    eventually_now(lambda: staged(conn) == [], "it has settled")


def test_a_desk_needs_no_tables_beforehand(empty_database_url: str, redis_url: str):
    app = App(database_url=empty_database_url, redis_url=redis_url)

    with TestClient(Starlette(lifespan=redisjobs_lifespan(app, develop=True))):
        pass

    with psycopg.connect(empty_database_url) as conn:
        assert staged(conn) == []


def test_starlette_finds_the_app_and_the_connections_in_the_state(app: App, conn):
    async def put(request: Request) -> JSONResponse:
        async with request.state.redisjobs_pool.connection() as connection:
            handle = await request.state.redisjobs.find("double").enqueue(connection, 1)
        return JSONResponse(handle.id)

    web = Starlette(routes=[Route("/", put, methods=["POST"])], lifespan=redisjobs_lifespan(app, pool_size=1))
    with TestClient(web) as client:
        assert client.post("/").status_code == 200

    assert staged(conn) == [{"number": 1}]


def test_a_missing_pool_is_told(web: Callable[..., FastAPI]):
    with TestClient(web()) as client, pytest.raises(ConfigurationError, match="pool_size=10"):
        client.post("/numbers/1")


def test_a_wrong_size_of_the_pool_is_refused(app: App):
    with pytest.raises(OptionError, match="pool_size"):
        redisjobs_lifespan(app, pool_size=0)


def test_a_missing_url_is_told_when_the_program_starts(monkeypatch: pytest.MonkeyPatch):
    for name in ("REDISJOBS_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)

    with (
        pytest.raises(ConfigurationError, match="database_url is not set"),
        TestClient(Starlette(lifespan=redisjobs_lifespan(App(), pool_size=1))),
    ):
        pass
