"""`redisjobs migrate` on a real Postgres."""

from __future__ import annotations

import psycopg

from redisjobs.migrations import migrations
from tests.support.cli import CommandLine


def test_migrate_makes_the_tables_once(empty_database_url: str):
    redisjobs = CommandLine({"REDISJOBS_DATABASE_URL": empty_database_url})

    assert "applied 0001 outbox" in redisjobs("migrate").stdout
    assert redisjobs("migrate").stdout == "schema redisjobs is up to date\n"


def test_check_says_what_is_missing_and_ends_with_1(empty_database_url: str):
    redisjobs = CommandLine({"REDISJOBS_DATABASE_URL": empty_database_url})

    names = [f"{step.version:04} {step.name}" for step in migrations()]
    assert f"lacks {', '.join(names)}: run `redisjobs migrate`" in redisjobs("migrate", "--check", code=1).stdout
    assert redisjobs.json("migrate", "--check", code=1)["missing"] == names
    redisjobs("migrate")
    assert redisjobs.json("migrate", "--check")["missing"] == []


def test_what_print_prints_makes_the_tables_as_migrate_does(empty_database_url: str):
    redisjobs = CommandLine({"REDISJOBS_DATABASE_URL": empty_database_url})
    script = CommandLine({})("migrate", "--print").stdout

    with psycopg.connect(empty_database_url, autocommit=True) as conn:
        conn.execute(script.encode())

    assert redisjobs.json("migrate", "--check")["missing"] == []


def test_another_schema_has_its_own_tables(empty_database_url: str):
    redisjobs = CommandLine({"REDISJOBS_DATABASE_URL": empty_database_url})

    redisjobs("migrate", "--schema", "shop")

    assert redisjobs.json("migrate", "--check", "--schema", "shop")["missing"] == []
    redisjobs("migrate", "--check", code=1)
    assert redisjobs("outbox", "--schema", "shop").exit_code == 0


def test_a_postgres_that_is_down_ends_with_69_and_without_a_traceback():
    redisjobs = CommandLine({"REDISJOBS_DATABASE_URL": "postgresql://me:hush@127.0.0.1:1/none"})

    told = redisjobs("migrate", code=69).stderr

    assert "Postgres does not answer" in told
    assert "hush" not in told
