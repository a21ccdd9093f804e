"""The demo of each language, as the README of the example tells it, and the trigger."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.support.languages import EXAMPLES, LANGUAGES, language
from tests.support.net import postgres_variables
from tests.support.processes import Processes

pytestmark = pytest.mark.timeout(300)  # the first run on a machine fetches languages
Conn = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def shop(conn: Conn) -> Conn:
    """A database with the table of the example."""
    conn.execute((EXAMPLES / "tables.sql").read_bytes())
    conn.commit()
    return conn


def demo(name: str, database_url: str, email: str) -> subprocess.CompletedProcess[str]:
    started = language(name)
    first, *rest = started.program("demo")
    command = [first, "-v", f"email={email}", *rest] if name == "sql" else [first, *rest, email]
    env = os.environ | postgres_variables(database_url) | started.env
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)


def jobs(conn: Conn) -> list[tuple[object, ...]]:
    return conn.execute(
        "SELECT job, queue, input->>'order_id', input->>'email' FROM redisjobs.outbox ORDER BY seq"
    ).fetchall()


def test_an_order_placed_in_any_language_is_confirmed_by_the_same_worker(
    processes: Processes, tmp_path: Path, database_url: str, shop: Conn
):
    shutil.copy(EXAMPLES / "app.py", tmp_path)
    processes.redisjobs("relay")
    worker = processes.redisjobs("worker", "app:app", "--queues", "mail")

    for name in LANGUAGES:
        said = demo(name, database_url, f"{name}@example.com")
        found = re.search(r"order (\d+) is committed", said.stdout)
        assert found, f"{name}: {said}"
        worker.says_now(f"mail to {name}@example.com: order {found[1]} is confirmed")


@pytest.mark.parametrize("name", LANGUAGES)
def test_an_order_whose_commit_fails_asks_for_no_mail_and_says_so(name: str, shop: Conn, database_url: str):
    shop.execute("ALTER TABLE orders ADD UNIQUE (email) DEFERRABLE INITIALLY DEFERRED")
    shop.execute("INSERT INTO orders (email) VALUES ('twice@example.com')")
    shop.commit()

    said = demo(name, database_url, "twice@example.com")

    assert said.returncode != 0
    assert "duplicate key" in said.stderr
    assert "is committed" not in said.stdout
    assert jobs(shop) == []


def test_a_trigger_asks_for_a_mail_whoever_inserts(shop: Conn):
    shop.execute((EXAMPLES / "sql" / "trigger.sql").read_bytes())
    shop.execute("INSERT INTO orders (email) VALUES ('a@example.com'), ('b@example.com')")

    assert jobs(shop) == [
        ("send_confirmation", "mail", "1", "a@example.com"),
        ("send_confirmation", "mail", "2", "b@example.com"),
    ]


def test_the_readme_of_the_example_tells_these_commands():
    told = (EXAMPLES / "README.md").read_text()

    for command in ("redisjobs dev --app app:app", "psql -v email=ada@example.com -f sql/demo.sql", "node node/demo.js",
                    "(cd go && go mod tidy && go run demo.go redisjobs.go",
                    "ruby ruby/demo.rb", "php php/demo.php", "perl perl/demo.pl"):  # fmt: skip
        assert f"    {command}" in told
