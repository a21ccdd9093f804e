"""`redisjobs relay` and `redisjobs dev` as processes."""

from __future__ import annotations

import re
import signal
import textwrap
from pathlib import Path

import psycopg
import pytest

from tests.support.builders import Conn, stage, states
from tests.support.cli import CommandLine
from tests.support.eventually import eventually
from tests.support.http import get
from tests.support.metrics import scrape
from tests.support.processes import Processes
from tests.support.queue import QueueByHand


async def test_a_relay_carries_rows_and_stops_when_it_is_told(
    processes: Processes, conn: Conn, database_url: str, redis_url: str
):
    relay = processes.redisjobs("relay")
    await relay.says("relay.started")
    job = stage(conn)
    conn.commit()

    await eventually(lambda: states(conn) == {job: "published"}, "the row is published")

    (line,) = CommandLine(processes.env).json("status")["queues"]
    assert line["relay"]["holder"]
    assert relay.stop(within=15) == 0
    assert "relay.stopped" in relay.log()
    async with QueueByHand(redis_url, "default") as q:
        assert await q.broker.queues() == {"default"}
    (line,) = CommandLine(processes.env).json("status")["queues"]
    assert line["relay"]["holder"] is None


async def test_another_relay_takes_over_from_one_that_stops(processes: Processes, conn: Conn):
    first, second = processes.redisjobs("relay"), processes.redisjobs("relay")
    await first.says("relay.started")
    await second.says("relay.started")

    first.stop(within=15)
    job = stage(conn)
    conn.commit()

    await eventually(lambda: states(conn) == {job: "published"}, "the other one has published the row", within=20)


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["--database-url", "postgresql://me:hush@127.0.0.1:1/none"], 69, "Postgres does not answer"),
        (["--redis-url", "redis://:hush@127.0.0.1:1/0"], 69, "Redis does not answer"),
        (["--batch-size", "0"], 78, "batch_size (0) is below 1: pass 1 or more"),
        (["--schema", "not_there"], 78, "schema not_there lacks 0001 outbox, "),
        (["--lease", "soon"], 2, "'soon' is no duration"),
    ],
)
def test_what_is_wrong_at_the_start_is_told_with_its_code(
    processes: Processes, options: list[str], code: int, told: str
):
    relay = processes.redisjobs("relay", *options)

    assert relay.wait() == code
    assert told in relay.log()
    assert "Traceback" not in relay.log()
    assert "hush" not in relay.log()


async def test_dev_runs_everything_and_ends_with_one_ctrl_c(processes: Processes, tmp_path: Path):
    processes.module(
        "corner_shop",
        """
        from redisjobs import App
        app = App()

        @app.job
        async def greet(name):
            print(f"hello {name}", flush=True)
        """,
    )
    alone = {"REDISJOBS_DATABASE_URL": "", "REDISJOBS_REDIS_URL": "", "DATABASE_URL": "", "REDIS_URL": ""}
    dev = processes.redisjobs("dev", "--app", "corner_shop:app", env=alone)
    log = await dev.says("worker.started", within=60)
    url = re.search(r"export REDISJOBS_DATABASE_URL='(.+)'", log)
    assert url, log

    env = tmp_path / ".redisjobs" / "env"
    await dev.says(". .redisjobs/env")
    assert env.stat().st_mode & 0o777 == 0o600
    assert env.read_text().splitlines() == re.findall(r"^export .*$", dev.log(), re.MULTILINE)
    with psycopg.connect(url[1]) as conn:
        conn.execute("""SELECT redisjobs.enqueue('greet', '{"name": "Ada"}')""")
    await dev.says("hello Ada")

    assert dev.stop(signal.SIGINT) == 0
    assert "during the drain: " in dev.log()
    assert (tmp_path / ".redisjobs").is_dir()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url[1], connect_timeout=2)

    again = processes.redisjobs("dev", "--app", "corner_shop:app", env=alone | {"REDISJOBS_DATABASE_URL": url[1]})
    await again.says("worker.started", within=60)
    assert again.stop(signal.SIGINT) == 0


async def test_dev_without_an_app_shows_one_and_the_command_that_runs_it(processes: Processes, tmp_path: Path):
    lost = processes.redisjobs("dev")
    assert lost.wait() == 2
    said = lost.log()
    example = re.search(r"write shop.py:\n\n(.+)\n\nand then:\n\n +redisjobs (dev shop:app)", said, re.DOTALL)
    assert example, said
    lines = textwrap.dedent(example[1])
    assert len([line for line in lines.splitlines() if line]) <= 6
    (tmp_path / "shop.py").write_text(lines)

    alone = {"REDISJOBS_DATABASE_URL": "", "REDISJOBS_REDIS_URL": "", "DATABASE_URL": "", "REDIS_URL": ""}
    dev = processes.redisjobs(*example[2].split(), "--http-port", "0", env=alone | {"PYTHONUNBUFFERED": "1"})
    log = await dev.says("worker.started", within=60)
    url = re.search(r"export REDISJOBS_DATABASE_URL='(.+)'", log)
    assert url, log
    with psycopg.connect(url[1]) as conn:
        conn.execute("""SELECT redisjobs.enqueue('greet', '{"name": "Ada"}')""")
    await dev.says("hello Ada")

    relay, worker = [int(port) for port in re.findall(r"http.serving port=(\d+)", dev.log())]
    await eventually(lambda: [get(port, "/ready")[0] for port in (relay, worker)] == [200, 200], "both are ready")
    assert (await scrape(relay)).value("redisjobs_ready", role="relay") == 1
    assert (await scrape(worker)).counts("redisjobs_attempts_started_total", "job_name") == {"greet": 1}
    assert dev.stop(signal.SIGINT) == 0


@pytest.mark.parametrize("command", [["dev"], ["worker"]])
def test_in_the_folder_of_a_django_project_its_own_command_is_named(
    processes: Processes, tmp_path: Path, command: list[str]
):
    (tmp_path / "manage.py").touch()

    lost = processes.redisjobs(*command)

    assert lost.wait() == 2
    assert f"python manage.py redisjobs {command[0]}" in lost.log()
