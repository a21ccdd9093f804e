"""FastAPI and Starlette: an app's connections live as long as the web program, and a request has its transaction.

    web = FastAPI(lifespan=redisjobs_lifespan(app, pool_size=10))
    Transaction = Annotated[AsyncConnection, Depends(transaction, scope="function")]

The extra is `[fastapi]`; only Starlette is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import psycopg
import psycopg_pool
from starlette.requests import HTTPConnection

from redisjobs import migrations
from redisjobs.app import App
from redisjobs.base.durations import whole
from redisjobs.cli.relay import relaying
from redisjobs.errors import ConfigurationError
from redisjobs.settings import RelaySettings
from redisjobs.worker import Worker

State: TypeAlias = dict[str, Any]
Lifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[State]]

GRACE_S = 5.0
"""How long a body may go on when a program in development ends."""


def redisjobs_lifespan(app: App, *, pool_size: int | None = None, develop: bool = False) -> Lifespan:
    """What `lifespan=` of FastAPI and Starlette takes.

    Requests find the app in `request.state.redisjobs`. To open more than this, call it in a lifespan of your own:
    `async with redisjobs_lifespan(app)(web) as state: … yield state`.

    Args:
        pool_size: as many connections to the app's database are kept open, in `request.state.redisjobs_pool`, and
            given out by `transaction`; None: the program brings its own.
        develop: make the tables, and run a relay and a worker for all queues of the app in this very process. For a
            desk: a reload ends them with the program, and a body that blocks holds up the requests.

    Raises:
        ConfigurationError: from the lifespan, where the app lacks a URL that this needs.
    """
    if pool_size is not None:
        whole("pool_size", pool_size)

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[State]:
        state: State = {"redisjobs": app}
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(app.close)
            if develop:
                await _develop(app, stack)
            if pool_size is not None:
                state["redisjobs_pool"] = await stack.enter_async_context(_pool(app, pool_size))
            yield state

    return lifespan


async def transaction(request: HTTPConnection) -> AsyncGenerator[psycopg.AsyncConnection[Any]]:
    """A dependency: a connection with a transaction for this request, to write on and to enqueue on.

    It commits when the handler returns and rolls back when that raises, an HTTPException too. Depend on it with
    `scope="function"`: else FastAPI ends it behind the response, and a commit that fails has been told as a success.

    Raises:
        ConfigurationError: the lifespan opened no pool.
    """
    pool = getattr(request.state, "redisjobs_pool", None)
    if pool is None:
        raise ConfigurationError(
            "no connections are open: pass lifespan=redisjobs_lifespan(app, pool_size=10) to FastAPI or Starlette"
        )
    async with pool.connection() as connection:
        yield connection


def _pool(app: App, size: int) -> psycopg_pool.AsyncConnectionPool[psycopg.AsyncConnection[Any]]:
    url = app.settings.need_database_url()
    return psycopg_pool.AsyncConnectionPool(url, min_size=1, max_size=size, open=False, name=f"redisjobs-{app.name}")


async def _develop(app: App, stack: contextlib.AsyncExitStack) -> None:
    await asyncio.to_thread(migrations.migrate, app.settings.need_database_url(), app.settings.schema)
    await stack.enter_async_context(relaying(app.settings, RelaySettings()))
    queues = sorted({job.queue for job in app.jobs.values()}) or ["default"]
    worker = Worker(app, queues=queues, drain_on_shutdown=False)
    stack.push_async_callback(worker.stop, GRACE_S)
    await worker.start()
