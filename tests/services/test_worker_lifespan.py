"""A worker opens the app's lifespan before its first job, and closes it after its last (rule W12)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from redisjobs import App, ConfigurationError, Context
from redisjobs.lifespan import Lifespan
from tests.services.test_cli_worker import put
from tests.support.crew import Crew
from tests.support.eventually import eventually
from tests.support.processes import Processes


class Client:
    def __init__(self) -> None:
        self.is_open = True


async def test_bodies_have_its_state_from_the_first_to_the_last(crew: Crew) -> None:
    seen: list[Any] = []
    tasks: list[Any] = []

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[Client]:
        tasks.append((app, asyncio.current_task()))
        client = Client()
        try:
            yield client
        finally:
            client.is_open = False
            tasks.append((app, asyncio.current_task()))

    app = App(redis_url=crew.redis_url, lifespan=lifespan)

    @app.job(name="waits")
    async def waits(ctx: Context[Client]) -> None:
        seen.append((ctx.state, ctx.state.is_open))
        await ctx.draining.wait()
        seen.append((ctx.state, ctx.state.is_open))

    @app.job(name="computes")
    def computes(ctx: Context[Client]) -> None:
        seen.append((ctx.state, ctx.state.is_open))

    await crew.put("computes")
    await crew.put("waits")
    worker = await crew.start(app=app)
    await eventually(lambda: len(seen) == 2, "both have begun")
    await worker.stop()

    assert [is_open for _, is_open in seen] == [True, True, True]
    (client,) = {id(client): client for client, _ in seen}.values()
    assert not client.is_open
    assert tasks[0] == tasks[1], "it is left in the task that entered it"
    assert tasks[0][0] is app

    await worker.start()
    assert len(tasks) == 3, "a second start opens it anew"


async def test_one_that_cannot_start_is_told_where_and_nothing_is_taken(crew: Crew) -> None:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        if app.name == "app":
            raise ConnectionError("no search engine")
        yield

    with pytest.raises(ConfigurationError, match=r"could not start: ConnectionError: no search engine, at .*:\d+"):
        await crew.start(app=App(redis_url=crew.redis_url, lifespan=lifespan))


async def test_one_that_fails_or_hangs_at_the_end_does_not_keep_the_worker(
    crew: Crew, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisjobs.worker.HARD_S", 0.1)
    ends: list[Any] = [lambda: 1 / 0, lambda: asyncio.Event().wait()]

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        yield
        await ends.pop(0)()

    for _ in range(2):
        worker = await crew.start(app=App(redis_url=crew.redis_url, lifespan=lifespan))
        await worker.stop()
        assert worker.state == "stopped"
    told = [each.getMessage() for each in caplog.records if getattr(each, "event", "") == "lifespan.stop_failed"]
    assert "ZeroDivisionError" in told[0]
    assert "did not end within 0.1 s" in told[1]


SHOP = """
    import asyncio, contextlib
    from redisjobs import App, Context

    @contextlib.asynccontextmanager
    async def lifespan(app):
        print("opening", flush=True)
        await asyncio.sleep(OPENS)
        try:
            yield "client"
        finally:
            print("closed", flush=True)

    app = App(lifespan=lifespan)

    @app.job
    async def brief(ctx: Context):
        print(f"with {ctx.state}", flush=True)
"""


async def test_each_process_of_a_worker_has_one_and_closes_it_at_the_end(processes: Processes, redis_url: str) -> None:
    processes.module("shop", SHOP.replace("OPENS", "0"))
    await put(redis_url, "brief")
    worker = processes.redisjobs("worker", "shop:app", "--processes", "2")
    await worker.says("with client")
    await eventually(lambda: worker.log().count("worker.started") == 2, "both work")

    assert worker.stop() == 0
    assert (worker.log().count("opening"), worker.log().count("closed")) == (2, 2)


async def test_a_worker_that_is_opening_can_be_stopped(processes: Processes, redis_url: str) -> None:
    processes.module("shop", SHOP.replace("OPENS", "60"))
    worker = processes.redisjobs("worker", "shop:app")
    await worker.says("opening")

    worker.send(signal.SIGTERM)

    assert await worker.ended(10) == 0
    assert "Traceback" not in worker.log()


@pytest.mark.parametrize(
    ("raises", "told"),
    [
        ("float('x')", "ValueError: could not convert"),
        ("exit('no licence')", "SystemExit: no licence, at "),
        ("exit(0)", "SystemExit: 0, at "),
        ("asyncio.current_task().cancel() * 0", "CancelledError, at "),
        ("(_ for _ in ()).throw(KeyboardInterrupt)", "KeyboardInterrupt, at "),
    ],
)
async def test_a_worker_that_cannot_open_ends_with_78(
    processes: Processes, redis_url: str, raises: str, told: str
) -> None:
    processes.module("shop", SHOP.replace("OPENS", raises))
    worker = processes.redisjobs("worker", "shop:app")

    assert await worker.ended() == 78
    assert f"Error: the app's lifespan could not start: {told}" in worker.log()
    assert "Traceback" not in worker.log()


async def test_of_several_processes_that_cannot_open_none_is_tried_again(processes: Processes, redis_url: str) -> None:
    processes.module("shop", SHOP.replace("OPENS", "exit('no licence')"))
    worker = processes.redisjobs("worker", "shop:app", "--processes", "2")

    assert await worker.ended() == 78
    # the second one may be ended before it gets that far
    assert 1 <= worker.log().count("Error: the app's lifespan could not start: SystemExit: no licence, at ") <= 2
    assert 1 <= worker.log().count("opening") <= 2
    assert "Traceback" not in worker.log()


async def test_an_exit_at_the_end_ends_no_drain(crew: Crew, caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        yield
        raise SystemExit("enough")

    worker = await crew.start(app=App(redis_url=crew.redis_url, lifespan=lifespan))
    await worker.stop()

    (told,) = [each.getMessage() for each in caplog.records if getattr(each, "event", "") == "lifespan.stop_failed"]
    assert "SystemExit: enough" in told
    assert worker.state == "stopped"


async def test_one_that_is_stopped_before_it_began_is_not_opened() -> None:
    opened: list[bool] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        opened.append(True)
        yield

    opening = Lifespan(lifespan)
    starting = asyncio.create_task(opening.start())
    await asyncio.sleep(0)
    await opening.stop(1)

    assert await starting is False
    assert opened == []


async def test_a_start_that_is_cancelled_leaves_nothing_open(crew: Crew) -> None:
    opening, ends = asyncio.Event(), []

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        try:
            opening.set()
            await asyncio.Event().wait()
            yield
        finally:
            ends.append(app)

    app = App(redis_url=crew.redis_url, lifespan=lifespan)
    starting = asyncio.create_task(crew.start(app=app))
    await opening.wait()
    starting.cancel()
    await asyncio.wait({starting})

    assert starting.cancelled()
    assert ends == [app]
