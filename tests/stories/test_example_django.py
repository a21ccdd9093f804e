"""The Django example works as its README says."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.eventually import eventually_now
from tests.support.processes import CHECKOUT, Processes

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
    confirmed = [int(number) for number in re.findall(r"order (\d+) is confirmed", dev.log())]
    assert len(orders) == 16
    assert done == orders
    assert sorted(confirmed) == sorted(orders), "each once, for nothing went wrong"
    assert dev.stop() == 0, dev.log()


def test_the_readme_tells_these_commands():
    told = (EXAMPLE / "README.md").read_text()

    for command in ("migrate", "redisjobs migrate", "redisjobs dev", "place_orders 20", "redisjobs status"):
        assert f"    python manage.py {command}\n" in told
    assert "PGDATABASE" in told
