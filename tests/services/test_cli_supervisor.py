"""`redisjobs worker` and `relay` under systemd: ready, alive and stopping are told where it listens (case G13)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.builders import publication
from tests.support.eventually import always, eventually
from tests.support.processes import Processes
from tests.support.queue import QueueByHand

SHOP = """
    import time
    from redisjobs import App

    app = App()

    @app.job
    async def hang():
        print("it hangs", flush=True)
        time.sleep(60)
"""


class Systemd:
    """Listens as systemd does, and remembers what it was told."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)
        self._told: list[str] = []

    def told(self) -> list[str]:
        try:
            while True:
                self._told.append(self._socket.recv(4096).decode())
        except BlockingIOError:
            return self._told

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    made = Systemd(tmp_path / "notify")
    yield made
    made.close()


@pytest.fixture
def env(tmp_path: Path, systemd: Systemd) -> dict[str, str]:
    return {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}


@pytest.mark.parametrize(
    "command", ["worker shop:app --no-uvloop", "worker shop:app --queues *", "worker shop:app --processes 2", "relay"]
)
async def test_ready_alive_and_stopping_are_told(
    processes: Processes, systemd: Systemd, env: dict[str, str], command: str
):
    processes.module("shop", SHOP)
    program = processes.redisjobs(*command.split(), env=env)

    await eventually(lambda: "READY=1" in systemd.told(), "it is ready", 30)
    await eventually(lambda: systemd.told().count("WATCHDOG=1") > 3, "it is alive")
    assert "STOPPING=1" not in systemd.told()

    assert program.stop() == 0
    assert [word for word in systemd.told() if word != "WATCHDOG=1"] == ["READY=1", "STOPPING=1"]


@pytest.mark.parametrize(
    ("command", "url"),
    [
        ("worker shop:app", ("REDISJOBS_REDIS_URL", "redis://127.0.0.1:1/0")),
        ("relay", ("REDISJOBS_REDIS_URL", "redis://127.0.0.1:1/0")),
        ("relay", ("REDISJOBS_DATABASE_URL", "postgresql://127.0.0.1:1/none")),
    ],
)
async def test_while_a_store_is_down_it_is_never_ready(
    processes: Processes, systemd: Systemd, env: dict[str, str], command: str, url: tuple[str, str]
):
    processes.module("shop", SHOP)
    program = processes.redisjobs(*command.split(), env=env | dict([url]))

    assert await program.ended() == 69
    assert "READY=1" not in systemd.told()


async def test_one_hanging_process_of_several_is_noticed(
    processes: Processes, systemd: Systemd, env: dict[str, str], redis_url: str
):
    processes.module("shop", SHOP)
    program = processes.redisjobs("worker", "shop:app", "--processes", "2", env=env)
    await eventually(lambda: "READY=1" in systemd.told(), "all are ready", 30)
    await eventually(lambda: program.log().count("worker.started") == 2, "both have said so")
    async with QueueByHand(redis_url, "default") as q:
        await q.broker.enqueue_direct("default", [publication("hang", direct=True)])
    await program.says("it hangs")

    async def is_silent() -> bool:
        told = len(systemd.told())
        await always(lambda: len(systemd.told()) == told, "nothing is told", lasting=0.5)
        return True

    await eventually(is_silent, "nothing is told any more, though the other process goes on", 15)


async def test_a_loop_that_hangs_says_no_more_that_it_is_alive(
    processes: Processes, systemd: Systemd, env: dict[str, str], redis_url: str
):
    processes.module("shop", SHOP)
    program = processes.redisjobs("worker", "shop:app", env=env)
    await eventually(lambda: "READY=1" in systemd.told(), "it is ready", 30)
    async with QueueByHand(redis_url, "default") as q:
        await q.broker.enqueue_direct("default", [publication("hang", direct=True)])
    await program.says("it hangs")

    told = len(systemd.told())

    await always(lambda: len(systemd.told()) == told, "nothing is told", lasting=1)


async def test_the_watchdog_of_another_process_is_not_fed(processes: Processes, systemd: Systemd, env: dict[str, str]):
    program = processes.redisjobs("relay", env=env | {"WATCHDOG_PID": "1"})
    await eventually(lambda: "READY=1" in systemd.told(), "it is ready", 30)

    assert program.stop() == 0
    assert systemd.told() == ["READY=1", "STOPPING=1"]
