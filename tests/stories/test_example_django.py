"""The Django example works as its README says, and the guide from nothing."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.eventually import eventually_now
from tests.support.processes import CHECKOUT, Processes

GUIDE = CHECKOUT / "docs" / "guides" / "django.md"
EXAMPLE = CHECKOUT / "examples" / "django_shop"


@pytest.fixture
def terminals(tmp_path: Path, empty_database_url: str, redis_url: str) -> Iterator[Processes]:
    """Terminals in a copy of the example's folder, with a Postgres as psql finds it, and a Redis."""
    folder = tmp_path / "django_shop"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    given = conninfo_to_dict(empty_database_url)
    env = {f"PG{name.upper()}": str(given[name]) for name in ("host", "port", "user", "password") if given.get(name)}
    env |= {"PGDATABASE": str(given["dbname"]), "REDISJOBS_REDIS_URL": redis_url, "REDISJOBS_DATABASE_URL": ""}
    with Processes(folder, env) as started:
        yield started


def test_every_committed_order_is_confirmed_and_packed_and_no_other(terminals: Processes, empty_database_url: str):
    setting_up = "import manage, os; os.environ['DJANGO_SETTINGS_MODULE'] = 'settings';" + "".join(
        f"manage.execute_from_command_line(['manage.py', *{words.split()}]);"
        for words in ("makemigrations --check", "migrate -v 0", "redisjobs migrate", "place_orders 20")
    )
    first = terminals.python("-c", setting_up)
    dev = terminals.python("manage.py", "redisjobs", "dev")
    assert first.wait() == 0, first.log()
    assert first.log().count("payment declined") == 4
    assert "No changes detected" in first.log()

    with psycopg.connect(empty_database_url, autocommit=True) as conn:
        eventually_now(
            lambda: conn.execute("SELECT FROM redisjobs.outbox").fetchall() == [], "every task has ended", within=60
        )
        orders = {row[0] for row in conn.execute("SELECT id FROM shop_order")}
        done = {row[0] for row in conn.execute("SELECT id FROM shop_order WHERE confirmed_at NOTNULL AND packed = 1")}

    def confirmed() -> list[int]:
        return [int(number) for number in re.findall(r"order (\d+) is confirmed", dev.log())]

    assert len(orders) == 16
    assert done == orders
    eventually_now(lambda: len(confirmed()) >= len(orders), "the workers' words have come")
    assert sorted(confirmed()) == sorted(orders), "each once, for nothing went wrong"
    assert dev.stop() == 0, dev.log()


def test_the_readme_tells_these_commands():
    told = (EXAMPLE / "README.md").read_text()

    for command in ("migrate", "redisjobs migrate", "redisjobs dev", "place_orders 20", "redisjobs status"):
        assert f"    python manage.py {command}\n" in told
    assert "PGDATABASE" in told


@pytest.fixture
def empty_folder() -> Iterator[Path]:
    """A folder whose name leaves room for that of a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def written(name: str) -> str:
    """What the guide has its reader write to a file."""
    found = re.search(rf"```python file={name}\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found
    return found[1]


def test_from_nothing_to_a_task_without_any_server_before(empty_folder: Path):
    nothing: dict[str, str] = dict.fromkeys(
        ("REDISJOBS_DATABASE_URL", "REDISJOBS_REDIS_URL", "DATABASE_URL", "REDIS_URL"), ""
    )
    with Processes(empty_folder, nothing) as terminals:
        start = terminals.python("-m", "django", "startproject", "project", ".")
        assert start.wait() == 0, start.log()
        with (empty_folder / "project/settings.py").open("a") as settings:
            settings.write(written("added.py"))
        (empty_folder / "project/tasks.py").write_text(written("project/tasks.py"))

        for name in ("ada", "grace"):  # at the second start the data are there, and where they were
            dev = terminals.python("manage.py", "redisjobs", "dev")
            dev.says_now("worker.started", within=90)
            for words in (["migrate"], ["shell", "-c", f"from project.tasks import sign_up; sign_up('{name}')"]):
                other = terminals.python("manage.py", *words)
                assert other.wait() == 0, other.log()
            dev.says_now(f"welcome, {name}")
            assert dev.stop() == 0, dev.log()
