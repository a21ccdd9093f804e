"""Health and readiness of a worker and a relay on real stores, over HTTP and in a file (rule P4; case O03)."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import time
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from redisjobs.errors import ConfigurationError
from redisjobs.monitoring import Monitor
from redisjobs.monitoring import liveness as liveness_module
from redisjobs.monitoring import pulse as pulse_module
from redisjobs.monitoring.server import AT_ONCE
from tests.support.crew import Crew
from tests.support.eventually import eventually, eventually_now
from tests.support.http import get, told
from tests.support.processes import Processes
from tests.support.proxy import Proxy
from tests.support.relays import relay_by_hand


def port_of(monitor: Monitor) -> int:
    assert monitor.port is not None
    return monitor.port


def age_s(file: Path) -> float:
    return time.time() - file.stat().st_mtime


async def status(monitor: Monitor, path: str) -> int:
    return (await told(port_of(monitor), path))[0]


async def test_a_worker_is_ready_while_it_takes_jobs_and_alive_all_along(crew: Crew):
    enough = asyncio.Event()

    @crew.app.job(name="long")
    async def long() -> None:
        crew.starts["long"] += 1
        await enough.wait()

    with Monitor("worker", port=0) as monitor:
        port = port_of(monitor)
        assert await told(port, "/ready") == (
            503, {"role": "worker", "status": "not ready", "why": ["it is starting"]},
        )  # fmt: skip
        assert await told(port, "/health") == (200, {"role": "worker", "status": "alive", "why": []})

        worker = crew.worker()
        async with monitor.watching(worker):
            await worker.start()
            await crew.put("long")
            await eventually(lambda: crew.starts["long"], "the body runs")
            assert await told(port, "/ready") == (200, {"role": "worker", "status": "ready", "why": []})

            stop = asyncio.create_task(worker.stop())
            await eventually(lambda: worker.state == "draining", "it drains")
            assert (await told(port, "/ready"))[1]["why"] == ["it is draining"]
            assert await status(monitor, "/health") == 200

            enough.set()
            await stop
        assert (await told(port, "/ready"))[1]["why"] == ["it has stopped"]


async def test_a_worker_whose_loop_hangs_is_not_alive(crew: Crew, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pulse_module, "LOOP_S", 0.2)
    monkeypatch.setattr(pulse_module, "BEAT_S", 0.05)
    answers: list[tuple[int, str]] = []

    with Monitor("worker", port=0) as monitor:

        @crew.app.job(name="hang")
        async def hang() -> None:
            eventually_now(lambda: get(port_of(monitor), "/health")[0] == 503, "the hanging loop is seen")
            answers.append(get(port_of(monitor), "/ready"))

        worker = await crew.start()
        async with monitor.watching(worker):
            await crew.put("hang")
            await eventually(lambda: answers, "the body has seen it")
            assert answers[0][0] == 503
            assert "a body blocks it" in answers[0][1]

            async def is_ready() -> bool:
                return await status(monitor, "/ready") == 200

            await eventually(is_ready, "it has recovered")


async def test_a_store_that_is_away_makes_it_not_ready_and_never_sick(crew: Crew, redis_proxy: Proxy):
    with Monitor("worker", port=0) as monitor:
        worker = crew.worker(url=redis_proxy.url)
        async with monitor.watching(worker):
            await worker.start()

            async def ready(answer: int) -> bool:
                assert await status(monitor, "/health") == 200
                return await status(monitor, "/ready") == answer

            await eventually(lambda: ready(200), "it is ready")
            redis_proxy.down()
            await eventually(lambda: ready(503), "Redis is missed", 20)
            redis_proxy.heal()
            await eventually(lambda: ready(200), "it is ready again", 20)


async def test_a_relay_is_ready_while_both_stores_answer(database_url: str, redis_url: str, postgres_proxy: Proxy):
    del database_url
    async with relay_by_hand(postgres_proxy.url, redis_url, interval=0.05) as made:
        with Monitor("relay", port=0) as monitor:
            async with monitor.watching(made.relay):
                await made.relay.start()

                async def ready(answer: int) -> bool:
                    assert await status(monitor, "/health") == 200
                    return await status(monitor, "/ready") == answer

                await eventually(lambda: ready(200), "it is ready")
                postgres_proxy.down()
                await eventually(lambda: ready(503), "Postgres is missed", 20)
                postgres_proxy.heal()
                await eventually(lambda: ready(200), "it is ready again", 20)


async def test_the_end_of_one_worker_leaves_the_file_of_the_others_fresh(
    crew: Crew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(liveness_module, "TOUCH_S", 0.05)
    file = tmp_path / "alive"
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            monitor = stack.enter_context(Monitor("worker", liveness_file=file))
            await stack.enter_async_context(monitor.watching(await crew.start()))
        with Monitor("worker", liveness_file=file) as monitor:
            worker = await crew.start()
            async with monitor.watching(worker):
                await worker.stop()
        assert file.exists()
        touched = file.stat().st_mtime_ns

        await eventually(lambda: file.stat().st_mtime_ns > touched, "the others touch it")


async def test_a_loop_that_hangs_leaves_the_file_to_grow_old(
    crew: Crew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(liveness_module, "TOUCH_S", 0.05)
    monkeypatch.setattr(pulse_module, "LOOP_S", 0.2)
    file = tmp_path / "alive"
    with Monitor("worker", liveness_file=file) as monitor:
        async with monitor.watching(await crew.start()):
            eventually_now(lambda: age_s(file) > 0.5, "while this holds the loop, nobody touches it")
            touched = file.stat().st_mtime_ns
            await eventually(lambda: file.stat().st_mtime_ns > touched, "the loop turns, and it is touched")


def test_only_what_is_there_is_answered():
    with Monitor("worker", port=0, host="127.0.0.1") as monitor:
        assert get(port_of(monitor), "/")[0] == 404
        assert "/health, /ready" in get(port_of(monitor), "/secret")[1]
        assert get(port_of(monitor), "/health?x=1")[0] == 200
        assert get(port_of(monitor), "/health", "HEAD") == (200, "")
        assert get(port_of(monitor), "/health", "POST")[0] == 501


def test_silent_clients_do_not_keep_a_probe_from_its_answer():
    with Monitor("worker", port=0, host="127.0.0.1") as monitor, contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(socket.create_connection(("127.0.0.1", port_of(monitor)), timeout=5))

        assert get(port_of(monitor), "/health")[0] == 200


def test_clients_beyond_the_limit_are_closed_and_there_is_room_again_when_others_leave():
    with Monitor("worker", port=0, host="127.0.0.1") as monitor:
        port = port_of(monitor)
        with contextlib.ExitStack() as stack:
            for _ in range(AT_ONCE):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            with socket.create_connection(("127.0.0.1", port), timeout=5) as late:
                assert late.recv(1) == b""
        assert eventually_now(lambda: get(port, "/health")[0], "there is room", despite=(OSError, HTTPException)) == 200


async def test_each_of_several_processes_answers_for_itself(processes: Processes, tmp_path: Path):
    processes.module("shop", "from redisjobs import App\napp = App()\n@app.job\nasync def nothing(): ...")
    file = tmp_path / "alive"
    worker = processes.redisjobs(
        "worker", "shop:app", "--processes", "2", "--http-port", "0", "--liveness-file", str(file)
    )

    def ports() -> set[int]:
        return {int(port) for port in re.findall(r"http.serving port=(\d+)", worker.log())}

    await eventually(lambda: len(ports()) == 2, "both serve", 30)

    async def are_ready() -> bool:
        return [(await told(port, "/ready"))[0] for port in ports()] == [200, 200]

    await eventually(are_ready, "both are ready", 30)
    for touched in (file, file.with_name("alive.1")):
        before = touched.stat().st_mtime_ns
        await eventually(lambda: touched.stat().st_mtime_ns > before, "its file is touched")  # noqa: B023 - used at once
    assert worker.stop() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"port": 70_000}, r"http_port \(70000\) is above 65535"),
        ({"port": 0, "host": "203.0.113.7"}, "cannot listen on 203.0.113.7, port 0"),
        ({"liveness_file": Path("/nowhere/alive")}, "--liveness-file: /nowhere/alive cannot be written"),
    ],
)
def test_what_cannot_be_served_is_wrong_configuration(options: dict[str, Any], words: str):
    with pytest.raises(ConfigurationError, match=words):
        Monitor("relay", **options)


def test_a_port_that_is_taken_ends_the_command_before_it_begins(processes: Processes):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        relay = processes.redisjobs("relay", "--http-host", "127.0.0.1", "--http-port", str(port))
        assert relay.wait() == 69
    assert f"another process listens on 127.0.0.1, port {port}" in relay.log()
    assert "Traceback" not in relay.log()
