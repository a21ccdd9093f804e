"""The first example works as its README says."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.eventually import eventually_now
from tests.support.processes import CHECKOUT, Processes, Program

EXAMPLE = CHECKOUT / "examples" / "orders"


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Processes]:
    """Terminals in a copy of the example's folder, of somebody who has set up nothing."""
    folder = tmp_path / "orders"
    shutil.copytree(EXAMPLE, folder)
    with Processes(folder, {"REDISJOBS_DATABASE_URL": "", "REDISJOBS_REDIS_URL": ""}) as started:
        yield started


def exported(dev: Program) -> dict[str, str]:
    """What is pasted into the second terminal."""
    dev.says_now("export REDISJOBS_REDIS_URL=", within=60)
    return dict(re.findall(r"^export (\w+)='(.*)'$", dev.log(), re.MULTILINE))


def count(conn: psycopg.Connection[Any], table: str) -> int:
    return len(conn.execute(f"SELECT FROM {table}".encode()).fetchall())


def test_every_committed_order_is_confirmed_and_reserved_and_no_other(terminals: Processes):
    first = terminals.redisjobs("dev", "--app", "app:app")
    urls = exported(first)
    first.says_now("worker.started", within=60)

    second = terminals.python("produce.py", "20", env=urls)
    assert second.wait() == 0, second.log()

    with psycopg.connect(urls["REDISJOBS_DATABASE_URL"], autocommit=True) as conn:
        eventually_now(lambda: count(conn, "redisjobs.outbox") == 0, "every job has ended", within=30)
        orders = {row[0] for row in conn.execute("SELECT id FROM orders")}
        reserved = {row[0] for row in conn.execute("SELECT order_id FROM reservations")}

    def confirmed() -> list[int]:
        return [int(number) for number in re.findall(r"order (\d+) is confirmed", first.log())]

    assert len(orders) == 16
    assert second.log().count("payment declined") == 4
    eventually_now(lambda: len(confirmed()) >= len(orders), "the workers' words have come")
    assert sorted(confirmed()) == sorted(orders), "each once, for nothing went wrong"
    assert reserved == orders
    assert first.stop() == 0, first.log()


def test_the_readme_tells_these_commands():
    told = (EXAMPLE / "README.md").read_text()

    for command in ("redisjobs dev --app app:app", "python produce.py 20", "redisjobs status", "redisjobs jobs list"):
        assert f"    {command}\n" in told
