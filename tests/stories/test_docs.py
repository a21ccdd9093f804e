"""Every block of the manual that is marked `runnable` runs, in reading order, on real servers; every command parses."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.support.eventually import eventually_now
from tests.support.processes import Processes, Program

CHECKOUT = Path(__file__).parents[2]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = [sys.executable, "-c", "from redisjobs.cli import main; main()"]
_TABLES = """
CREATE TABLE IF NOT EXISTS orders (id serial PRIMARY KEY, email text);
CREATE TABLE IF NOT EXISTS users (id int, due boolean);
INSERT INTO users VALUES (1, true);
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the words behind it, and its text."""

    language: str
    words: tuple[str, ...]
    text: str

    @property
    def file(self) -> str | None:
        """The file that it shall be written to."""
        return next((word.partition("=")[2] for word in self.words if word.startswith("file=")), None)


def blocks(page: Path) -> list[Block]:
    return [Block(found[1], tuple(found[2].split()), found[3]) for found in _BLOCK.finditer(page.read_text())]


def runnable(page: str) -> list[Block]:
    return [each for each in blocks(CHECKOUT / page) if "runnable" in each.words]


class Desk:
    """A folder with the reader's files, and the stores that the manual has him start."""

    def __init__(self, folder: Path, processes: Processes, database_url: str) -> None:
        self.folder, self.processes, self.database_url = folder, processes, database_url
        self.env = os.environ | processes.env

    def run(self, block: Block) -> str:
        """Do what the block says; what it printed."""
        if block.file:
            (self.folder / block.file).write_text(block.text)
            return ""
        if block.language == "sql":
            return self._sql(block.text)
        if block.language == "sh":
            lines = [line for line in block.text.splitlines() if line.strip()]
            return "".join(self._call([*_COMMAND, *words(line)[1:]]) for line in lines)
        return self._call([sys.executable, "-c", block.text])

    def query(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def job(self) -> str:
        """The id of any job."""
        (found,) = self.query("SELECT id FROM redisjobs.outbox UNION ALL SELECT id FROM redisjobs.finished LIMIT 1")
        return str(found[0])

    def worker(self, *options: str) -> Program:
        """A relay, and a worker for the reader's app."""
        self.processes.redisjobs("relay")
        return self.processes.redisjobs("worker", "shop:app", *options)

    def _sql(self, text: str) -> str:
        with psycopg.connect(self.database_url) as connection:
            connection.execute(text.encode())
            connection.rollback()  # a block that ends its own transaction has committed; roles are not to stay
        return ""

    def _call(self, words: list[str]) -> str:
        words = [self.job() if word == "ID" else word for word in words]
        ended = subprocess.run(words, capture_output=True, text=True, cwd=self.folder, env=self.env, timeout=60)
        assert ended.returncode == 0, f"{words[-3:]} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        return ended.stdout


def words(line: str) -> list[str]:
    """The words of a command line, without a comment."""
    return shlex.split(line, comments=True)


@pytest.fixture
def desk(tmp_path: Path, processes: Processes, database_url: str) -> Desk:
    return Desk(tmp_path, processes, database_url)


def test_the_tutorial(desk: Desk):
    first, *rest = runnable("docs/tutorial.md")
    desk.run(first)
    worker = desk.worker()
    printed = [desk.run(block) for block in rest]

    assert any(text == "4.0\n" for text in printed)
    assert any(text == "requested\n" for text in printed)
    worker.says_now("order 1 is confirmed to a@b.example, attempt 1")
    worker.says_now("order 2 is confirmed to sql@b.example, attempt 1")
    worker.says_now("order 99 is confirmed to many@b.example, attempt 1")
    eventually_now(lambda: desk.query("SELECT 1 FROM redisjobs.finished WHERE state = 'cancelled'"), "one is cancelled")
    assert "never@b.example" not in worker.log()


def test_the_readme(desk: Desk):
    example, *commands = runnable("README.md")
    desk.query(_TABLES)
    desk.run(example)
    worker = desk.worker("--queues", "mail", "--concurrency", "50")
    connect = "psycopg.connect(os.environ['REDISJOBS_DATABASE_URL'])"
    desk.run(Block("python", (), f"import os, psycopg, shop\nshop.place_order({connect}, 'a@b.example')"))
    worker.says_now("order 1 is confirmed to a@b.example")
    eventually_now(lambda: desk.query("SELECT 1 FROM redisjobs.outbox WHERE state <> 'staged'"), "the reminder waits")

    assert commands
    for block in commands:
        desk.run(block)


@pytest.mark.parametrize("page", ["docs/producers.md", "docs/operations.md"])
def test_what_a_page_has_one_run(desk: Desk, page: str):
    found = runnable(page)
    assert found
    desk.query(_TABLES)
    with psycopg.connect(desk.database_url) as connection:
        for role in ("shop", "relay", "ops") if page == "docs/producers.md" else ():
            connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        for block in found:
            connection.execute(block.text.replace("COMMIT;", "").replace("BEGIN;", "").encode())
        connection.rollback()  # roles belong to the whole server, and are not to stay


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_parses(page: Path):
    lines = [line for block in blocks(page) if block.language == "sh" for line in block.text.splitlines()]
    for command in [words(line) for line in lines if line.startswith("redisjobs ")]:
        ended = subprocess.run([*_COMMAND, *command[1:], "--help"], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, f"{' '.join(command)}: {ended.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} points to {target}, which is not there"
