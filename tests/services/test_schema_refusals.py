"""The table of refusals in `docs/producers.md` is whole, and true."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

Conn = psycopg.Connection[tuple[object, ...]]
PAGE = (Path(__file__).parents[2] / "docs" / "producers.md").read_text()
CODES = {
    "23502": "INSERT INTO redisjobs.outbox (job, queue, input) VALUES ('j', NULL, '{}')",
    "23505": "SELECT redisjobs.enqueue('j', id => '00000000-0000-7000-8000-000000000001') FROM generate_series(1, 2)",
    "23514": "SELECT redisjobs.enqueue('j', queue => 'no good')",
    "22P02": "SELECT redisjobs.enqueue('j', '{broken')",
    "22007": "SELECT redisjobs.enqueue('j', delay => 'soon')",
    "22008": "SELECT redisjobs.enqueue('j', run_at => '2026-13-01')",
    "22021": "SELECT redisjobs.enqueue(convert_from('\\xed', 'UTF8'))",
    "22023": "SELECT redisjobs.enqueue('j', run_at => now(), delay => '1 s')",
    "42883": "SELECT redisjobs.enqueue('j', '{}'::jsonb)",
    "42501": "SET ROLE pg_monitor; SELECT redisjobs.enqueue('j')",
    "42P01": "DROP TABLE redisjobs.outbox CASCADE; SELECT redisjobs.enqueue('j')",
    "3F000": "DROP SCHEMA redisjobs CASCADE; SELECT redisjobs.enqueue('j')",
}


def rows() -> list[tuple[str, str]]:
    """The first two cells of each line of the page's table."""
    return re.findall(r"^\| (\d[0-9A-Z, ]{4,}) \|([^|]*)\|", PAGE, re.MULTILINE)


def test_every_constraint_of_the_outbox_that_a_producer_can_meet_is_in_the_table(conn: Conn):
    found = conn.execute(
        "SELECT conname FROM pg_constraint WHERE conrelid = 'redisjobs.outbox'::regclass AND contype IN ('c', 'p')"
    )
    told = {name for _, cell in rows() for name in re.findall(r"`(\w+)`", cell)}

    assert told == {str(name) for (name,) in found} - {"state_is_known"}, "a producer may not write the state"


def test_every_code_of_the_table_is_tried_here():
    assert {code for cell, _ in rows() for code in cell.split(", ")} == {*CODES, "25P02"}


@pytest.mark.parametrize("code", CODES)
def test_each_code_of_the_table_is_what_postgres_answers(conn: Conn, code: str):
    with pytest.raises(psycopg.Error) as refused:
        conn.execute(CODES[code].encode())

    assert refused.value.sqlstate == code


def test_behind_an_error_the_transaction_answers_25p02(conn: Conn):
    with pytest.raises(psycopg.errors.CheckViolation):
        conn.execute("SELECT redisjobs.enqueue('j', queue => 'no good')")
    with pytest.raises(psycopg.Error) as refused:
        conn.execute("SELECT redisjobs.enqueue('j')")

    assert refused.value.sqlstate == "25P02"


def test_a_jsonb_value_is_taken_by_an_insert_and_by_the_function_with_a_cast(conn: Conn):
    conn.execute("""INSERT INTO redisjobs.outbox (job, input) VALUES ('j', jsonb_build_object('a', 1))""")
    conn.execute("""SELECT redisjobs.enqueue('j', jsonb_build_object('a', 1)::json)""")

    assert conn.execute("SELECT DISTINCT input::text FROM redisjobs.outbox").fetchall() == [('{"a": 1}',)]


def test_a_second_function_for_jsonb_would_make_every_plain_text_ambiguous(conn: Conn):
    """Why there is none: drivers send parameters without a type, and Postgres prefers neither json nor jsonb."""
    conn.execute("""
        CREATE FUNCTION redisjobs.enqueue(job text, input jsonb, queue text DEFAULT 'default') RETURNS uuid
        LANGUAGE sql AS $$ SELECT redisjobs.enqueue(job, input::json, queue) $$""")

    for call in ("'j', '{}'", "'j', '{}', queue => 'mail'"):
        with pytest.raises(psycopg.errors.AmbiguousFunction), conn.transaction():
            conn.execute(f"SELECT redisjobs.enqueue({call})".encode())
    with pytest.raises(psycopg.errors.AmbiguousFunction):
        conn.execute("SELECT redisjobs.enqueue(%s, %s)", ["j", "{}"])
