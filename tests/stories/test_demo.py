"""`redisjobs demo`: a newcomer's first command, and what it promises to show."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import psycopg
import pytest
import redis as redis_py
from psycopg import sql

from tests.support.eventually import eventually_now
from tests.support.processes import CHECKOUT

COMMAND = [sys.executable, "-c", "from redisjobs.cli import main; main()", "demo"]


def environment(**more: str) -> dict[str, str]:
    """Of somebody who has set up nothing."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("REDISJOBS_")}
    return clean | {"PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"} | more


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder to run it in."""
    made = tmp_path / "empty"
    made.mkdir()
    return made


def run(folder: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options], cwd=folder, env=environment(**env), capture_output=True, text=True, timeout=110
    )


def said_by(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert ended.stdout.count("\n") == 1, f"one line on stdout:\n{ended.stdout}\n{ended.stderr}"
    said: dict[str, Any] = json.loads(ended.stdout)
    return said


def test_under_faults_nothing_is_lost_and_every_extra_start_is_explained(folder: Path):
    ended = run(folder, "--jobs", "600", "--seed", "7", "--json")

    said = said_by(ended)
    assert ended.returncode == 0, ended.stderr
    assert (said["committed"], said["lost"], said["ran_from_rolled_back"]) == (600, 0, 0)
    assert (said["unexplained_starts"], said["unsettled"]) == (0, 0)
    assert said["done"] + said["dead"] == 600
    assert said["dead"] > 0
    assert said["rolled_back"] > 0
    assert said["retried"] > 0
    assert "SIGKILL to worker 1" in ended.stderr
    assert "FLUSHALL" in ended.stderr
    assert said["doubled"], "the worker was killed in the middle of a mail"
    assert 0 < said["p50_ms"] <= said["p99_ms"]
    assert said["jobs_per_s"] > 0
    assert list(folder.iterdir()) == []


def test_without_faults_nothing_starts_twice(folder: Path):
    ended = run(folder, "--jobs", "300", "--calm", "--json")

    said = said_by(ended)
    assert ended.returncode == 0, ended.stderr
    assert (said["committed"], said["done"], said["dead"], said["lost"]) == (300, 300, 0, 0)
    assert (said["doubled"], said["retried"], said["unexplained_starts"]) == ({}, 0, 0)
    assert said["rolled_back"] > 0


def test_without_a_terminal_it_prints_lines_and_a_summary(folder: Path):
    ended = run(folder, "--jobs", "50", "--calm")

    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    assert re.search(r"committed \d+, rolled back \d+, done \d+, running \d+, retrying 0, dead 0", ended.stdout)
    assert re.search(r"lost +0 ", ended.stdout)
    assert "\x1b" not in ended.stdout
    assert "Next: " in ended.stdout.splitlines()[-1]


def test_on_a_terminal_it_shows_numbers_that_move(folder: Path):
    terminal, end = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "--jobs", "50", "--calm"], cwd=folder, env=environment(TERM="xterm", COLUMNS="100", LINES="40"),
        stdin=end, stdout=end, stderr=end,
    ) as demo:  # fmt: skip
        os.close(end)
        shown = _all_of(terminal)

    assert demo.returncode == 0, shown
    assert shown.count("redisjobs demo") > 3, "it was drawn again and again"
    assert "Nothing was lost" in shown


def test_given_servers_keep_what_they_had_and_nothing_else(
    folder: Path, database_url: str, redis: redis_py.Redis, redis_url: str, conn: psycopg.Connection[Any]
):
    redis.set("rj:of-somebody", "else")
    before = _schemas(conn)

    stores = ("--database-url", database_url, "--redis-url", redis_url)
    ended = run(folder, "--jobs", "60", "--seed", "3", "--json", *stores)

    said = said_by(ended)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (said["committed"], said["lost"], said["unexplained_starts"]) == (60, 0, 0)
    assert "Redis lost all keys of the demo" in ended.stderr
    assert redis.keys() == [b"rj:of-somebody"]
    assert _schemas(conn) == before
    assert conn.execute("SELECT count(*) FROM redisjobs.outbox").fetchone() == (0,)


def test_a_mail_of_an_order_that_never_was_fails_the_demo(
    folder: Path, database_url: str, redis_url: str, conn: psycopg.Connection[Any]
):
    with _started(folder, "--jobs", "400", "--calm", "--json", "--database-url", database_url,
                  "--redis-url", redis_url) as demo:  # fmt: skip
        schema = eventually_now(lambda: _schema_of_demo(conn), "the demo has made its tables", within=30)
        mail = {"order": 999_999, "address": "nobody", "total": "0", "mood": "fine", "takes_ms": 1}
        assert schema is not None
        insert = sql.SQL("INSERT INTO {}.outbox (job, queue, input) VALUES ('send_confirmation', 'mail', {})")
        conn.execute(insert.format(sql.Identifier(schema), sql.Literal(json.dumps(mail))))
        conn.commit()
        stdout, stderr = demo.communicate(timeout=60)

    said = json.loads(stdout)
    assert demo.returncode == 1, stderr
    assert (said["ran_from_rolled_back"], said["lost"], said["committed"]) == (1, 0, 400)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_however_it_ends_its_processes_end_with_it(folder: Path, sent: signal.Signals, code: int):
    with _started(folder, "--jobs", "2000") as demo:
        pids = _pids(demo.stdout)
        assert len(pids) == 3

        demo.send_signal(sent)
        _, stderr = demo.communicate(timeout=30)

    assert demo.returncode == code
    assert stderr == ("" if code < 0 else "Error: interrupted; whatever the demo started has ended\n")
    eventually_now(lambda: not [pid for pid in pids if _runs(pid)], "relay and workers are gone", within=10)


def test_a_store_that_is_down_is_said_in_one_line(folder: Path):
    ended = run(folder, "--redis-url", "redis://127.0.0.1:1/0")

    assert ended.returncode == 69
    assert "Traceback" not in ended.stderr
    assert ended.stderr.startswith("Error: Redis does not answer")


def _started(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *options], cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _pids(output: IO[str] | None) -> list[int]:
    assert output is not None
    lines: Iterator[str] = iter(output)
    line = next(line for line in lines if "are up" in line)
    return [int(pid) for pid in re.findall(r"\d+(?=[,)])", line.partition("relay")[2])]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].startswith(" Z")


def _schemas(conn: psycopg.Connection[Any]) -> set[str]:
    with conn.transaction():
        return {row[0] for row in conn.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_'")}


def _schema_of_demo(conn: psycopg.Connection[Any]) -> str | None:
    """The tables of redisjobs, once those of the shop, which are made last, are there too."""
    shops = [name for name in _schemas(conn) if name.startswith("redisjobs_demo_") and name.endswith("_shop")]
    return shops[0].removesuffix("_shop") if shops else None


def _all_of(terminal: int) -> str:
    shown = b""
    while select.select([terminal], [], [], 60)[0]:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # the other end is closed
            break
        shown += piece
    os.close(terminal)
    return shown.decode()
