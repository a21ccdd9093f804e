"""The examples on SQLAlchemy, asyncpg and FastAPI work as their READMEs say."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from tests.support.eventually import eventually_now
from tests.support.net import free_port
from tests.support.processes import CHECKOUT, Processes

EXAMPLES = CHECKOUT / "examples"
Conn = psycopg.Connection[Any]


@pytest.fixture
def copy_of(tmp_path: Path, processes: Processes) -> Callable[[str], None]:
    """Puts the files of an example where the programs of this test find them."""

    def copy(example: str) -> None:
        shutil.copytree(EXAMPLES / example, tmp_path, dirs_exist_ok=True)

    return copy


def ended(conn: Conn) -> bool:
    conn.rollback()
    return conn.execute("SELECT FROM redisjobs.outbox").fetchall() == []


@pytest.mark.parametrize(
    ("example", "told"),
    [
        ("sqlalchemy_app", {"customer": 8, "async": 10, "counted: lamps": 8, "counted: chairs": 8, "tables": 0}),
        ("asyncpg_app", {"to customer": 8, "again customer": 8}),
    ],
)
def test_what_is_committed_runs_and_nothing_else(
    example: str, told: dict[str, int], processes: Processes, copy_of: Callable[[str], None], conn: Conn
):
    copy_of(example)
    processes.redisjobs("relay")
    worker = processes.redisjobs("worker", "shop:app")

    program = processes.python("shop.py", "10")
    assert program.wait() == 0, program.log()

    eventually_now(lambda: ended(conn), "every job has ended", within=60)
    assert program.log().count("payment declined") == 2
    assert {word: worker.log().count(word) for word in told} == told


def test_the_web_shop_confirms_what_was_paid(processes: Processes, copy_of: Callable[[str], None], conn: Conn):
    copy_of("fastapi_app")
    port = free_port()
    web = processes.python("-m", "uvicorn", "main:web", "--port", str(port), env={"DEVELOP": "1"})
    web.says_now("Application startup complete", within=60)

    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=15) as client:
        placed = client.post("/orders", params={"email": "a@example.com"})
        declined = client.post("/orders", params={"email": "b@example.com", "payment": "declined"})
        mail = client.get(f"/confirmations/{placed.json()['job']}")

    assert (placed.status_code, declined.status_code) == (201, 402)
    assert mail.json() == {"mail": "sent to a@example.com"}
    eventually_now(lambda: ended(conn), "it has settled")
    assert [row[0] for row in conn.execute("SELECT email FROM orders")] == ["a@example.com"]
    web.stop()
    assert "Application shutdown complete" in web.log()
    assert web.log().count("is confirmed to") == 1


@pytest.mark.parametrize("example", ["sqlalchemy_app", "asyncpg_app", "fastapi_app"])
def test_a_readme_names_files_that_are_there(example: str):
    text = (EXAMPLES / example / "README.md").read_text()

    for name in re.findall(r"(\w+\.py)", text):
        assert (EXAMPLES / example / name).exists()
