"""`migrate` brings a database up to date, however many do it at once, and a DBA can do it by hand."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from redisjobs.errors import ConfigurationError, DatabaseUnavailable, OptionError
from redisjobs.migrations import migrate, migrations, missing, script
from tests.support.binaries import postgres_binaries
from tests.support.builders import finish
from tests.support.relays import hand, job_of, relay_by_hand

SHAPE = """
SELECT 'column', table_name, column_name, data_type || coalesce(column_default, '') || is_nullable
FROM information_schema.columns WHERE table_schema = %(schema)s
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = %(name)s::regnamespace
UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = %(schema)s
UNION ALL SELECT 'function', proname, proacl::text, md5(pg_get_functiondef(oid)) FROM pg_proc
WHERE pronamespace = %(name)s::regnamespace
ORDER BY 1, 2, 3
"""


def shape(url: str, schema: str = "redisjobs") -> list[tuple[object, ...]]:
    with psycopg.connect(url) as conn:
        return conn.execute(SHAPE, {"schema": schema, "name": f'"{schema}"'}).fetchall()


def test_it_says_what_it_applied_and_applies_it_once(empty_database_url: str):
    names = [f"{step.version:04} {step.name}" for step in migrations()]
    assert missing(empty_database_url) == names

    assert migrate(empty_database_url) == names
    assert migrate(empty_database_url) == []
    assert missing(empty_database_url) == []


def test_the_steps_are_numbered_from_1_without_a_gap_or_a_twin():
    assert [step.version for step in migrations()] == list(range(1, len(migrations()) + 1))


def test_eight_at_once_apply_each_step_once(empty_database_url: str):
    with ThreadPoolExecutor(8) as threads:
        applied = list(threads.map(migrate, [empty_database_url] * 8))

    assert sorted(name for each in applied for name in each) == [f"{s.version:04} {s.name}" for s in migrations()]


def test_the_printed_script_makes_the_same_schema(empty_database_url: str, database_url: str):
    psql = postgres_binaries() / "psql"
    ran = subprocess.run(
        [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", empty_database_url],
        input=script(), text=True, capture_output=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr

    assert shape(empty_database_url) == shape(database_url)
    assert migrate(empty_database_url) == []


def test_a_step_that_was_applied_with_another_text_is_refused(database_url: str):
    with psycopg.connect(database_url) as conn:
        conn.execute("UPDATE redisjobs.migrations SET sha = 'another'")

    with pytest.raises(ConfigurationError, match="migration 1 was applied with another text"):
        migrate(database_url)


def test_a_database_of_a_newer_version_is_refused(database_url: str):
    with psycopg.connect(database_url) as conn:
        conn.execute("INSERT INTO redisjobs.migrations (version, name, sha) VALUES (9999, 'later', 'x')")

    with pytest.raises(ConfigurationError, match="migration 9999, which this version of redisjobs does not know"):
        migrate(database_url)


def test_a_step_that_fails_leaves_nothing_behind(empty_database_url: str):
    with psycopg.connect(empty_database_url) as conn:
        conn.execute("CREATE SCHEMA redisjobs; CREATE TABLE redisjobs.dead ()")

    with pytest.raises(Exception, match="already exists"):
        migrate(empty_database_url)

    assert missing(empty_database_url)
    with psycopg.connect(empty_database_url) as conn:
        assert conn.execute("SELECT to_regclass('redisjobs.outbox')").fetchone() == (None,)


def test_a_database_that_is_not_there_is_named_without_its_password():
    with pytest.raises(DatabaseUnavailable) as refused:
        migrate("postgresql://me:secret@127.0.0.1:1/none")

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("schema", ["", "pg_mine", "a-b", 'a"b', "1a", "x" * 64])
def test_a_schema_must_be_a_plain_name(empty_database_url: str, schema: str):
    with pytest.raises(OptionError, match="schema"):
        migrate(empty_database_url, schema)


def test_two_schemas_live_side_by_side_and_alike(database_url: str):
    migrate(database_url, "Other_jobs")

    def texts(schema: str) -> list[str]:
        return [" ".join(map(str, row)).replace(f'"{schema}"', "S").replace(schema, "S")
                for row in shape(database_url, schema) if row[0] != "function"]  # fmt: skip

    assert sorted(texts("Other_jobs")) == sorted(texts("redisjobs"))


async def test_a_schema_of_another_name_works_from_end_to_end(empty_database_url: str, redis_url: str):
    migrate(empty_database_url, "Jobs")
    with psycopg.connect(empty_database_url, autocommit=True) as conn:
        conn.execute('SELECT "Jobs".grant_producer(current_user), "Jobs".grant_relay(current_user)')
        async with relay_by_hand(empty_database_url, redis_url, schema="Jobs") as relay, hand(redis_url) as worker:
            await relay.relay.start()
            row = conn.execute("""SELECT "Jobs".enqueue('add', idempotency_key => 'k')""").fetchone()
            twin = conn.execute("""SELECT "Jobs".enqueue('add', idempotency_key => 'k')""").fetchone()
            assert row is not None
            assert twin is not None
            await relay.rounds()
            first = await worker.one()
            assert job_of(first) == row[0]
            await worker.end(finish(first, "dead"))
            await relay.rounds()
            assert conn.execute('SELECT "Jobs".redrive(array_agg(id)) FROM "Jobs".dead').fetchone() == (1,)
            await relay.rounds()
            await worker.run("done")
            await relay.rounds()
            await relay.relay.settler.clean()

        ends = conn.execute('SELECT id, state FROM "Jobs".finished ORDER BY state').fetchall()
        assert ends == [(twin[0], "deduplicated"), (row[0], "done")]
        parts = conn.execute("""SELECT count(*) FROM pg_inherits WHERE inhparent = '"Jobs".finished'::regclass""")
        assert parts.fetchone() == (3,)
