"""The pytest plugin, as a project meets it: in runs of pytest of their own, in which every warning is an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
ASYNCIO = "[pytest]\nasyncio_default_fixture_loop_scope = function\nasyncio_mode = "
CONFTEST = """
import pytest
from redisjobs import App

app = App("shop")

@app.job
async def mail(to: str) -> str:
    return to

@pytest.fixture
def redisjobs_app():
    return app
"""


def pytest_says(folder: Path, *plugins: str, ends: int = 0, **files: str) -> str:
    """What a run of pytest in this folder prints; only these plugins are loaded, each once."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    loaded = [word for plugin in ("pytest_redisjobs", *plugins) for word in ("-p", plugin)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", *loaded, str(folder)],
        env=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=100,
    )
    assert ended.returncode == ends, ended.stdout + ended.stderr
    return ended.stdout


def test_tests_without_a_loop_have_what_they_need(tmp_path: Path):
    said = pytest_says(
        tmp_path,
        conftest=CONFTEST,
        test_shop="""
import asyncio
from conftest import mail
from redisjobs.testing import Succeeded, run

def place_order(connection):
    mail.enqueue(connection, to="a@b.example")

def test_an_order_is_confirmed(redisjobs_connection, redisjobs_enqueued):
    place_order(redisjobs_connection)
    redisjobs_enqueued.assert_enqueued(mail, to="a@b.example")

def test_nothing_is_left_of_the_test_before(redisjobs_connection, redisjobs_enqueued):
    redisjobs_enqueued.refute_enqueued(mail)
    assert redisjobs_connection.rows == []

def test_a_body_runs():
    assert asyncio.run(run(mail, "a")) == Succeeded("a")
""",
    )
    assert "3 passed" in said


def test_async_tests_have_a_world(tmp_path: Path):
    (tmp_path / "pytest.ini").write_text(ASYNCIO + "strict")
    said = pytest_says(
        tmp_path,
        "pytest_asyncio.plugin",
        conftest=CONFTEST,
        test_shop="""
import pytest
from conftest import mail

@pytest.mark.asyncio
async def test_an_order_is_confirmed(redisjobs_world, redisjobs_enqueued):
    async with redisjobs_world.connect() as connection:
        handle = await mail.enqueue(connection, to="a")
    await redisjobs_world.settle()
    assert redisjobs_world.state(handle).state == "done"
    redisjobs_enqueued.assert_enqueued(mail)

@pytest.mark.asyncio
async def test_a_connection_alone(redisjobs_async_connection, redisjobs_enqueued):
    await mail.enqueue(redisjobs_async_connection, to="a")
    redisjobs_enqueued.assert_enqueued(mail, to="a")
""",
    )
    assert "2 passed" in said


def test_a_project_that_uses_none_of_it_imports_none_of_it_and_one_that_does_must_name_its_app(tmp_path: Path):
    (tmp_path / "pytest.ini").write_text(ASYNCIO + "strict")
    said = pytest_says(
        tmp_path,
        "pytest_asyncio.plugin",
        ends=1,
        test_it="""
import sys

def test_nothing_is_imported():
    assert [name for name in sys.modules if name.split(".")[0] in ("redisjobs", "redis", "psycopg", "fakeredis")] == []

def test_it(redisjobs_enqueued):
    pass
""",
    )
    assert "1 passed, 1 error" in said
    assert "define in conftest.py a fixture redisjobs_app that returns it" in said
