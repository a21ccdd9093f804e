"""A statement is found by its name, in the schema it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from redisjobs.base import statements
from redisjobs.errors import ConfigurationError, OptionError

TWO = """\
-- name: claim_batch
-- takes the oldest rows, so that order holds
select id -- 100%% of them
  from redisjobs.outbox o
 where o.id > %(after)s;

-- name: mark
-- tells the rows apart that Redis has,
-- in one statement
update redisjobs.outbox set state = 'published' where id = any(%(ids)s)
"""

Write = Callable[[str], object]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    (tmp_path / "sql").mkdir()
    monkeypatch.setattr(statements, "files", lambda package: tmp_path)
    statements.load.cache_clear()
    yield (tmp_path / "sql" / "station.sql").write_text
    statements.load.cache_clear()


def test_statements_are_there_by_item_and_by_attribute_without_their_heads(write: Write):
    write(TWO)

    sql = statements.load("station").require("claim_batch", "mark")

    assert list(sql) == ["claim_batch", "mark"]
    assert sql.mark == b"update redisjobs.outbox set state = 'published' where id = any(%(ids)s)"
    assert sql["claim_batch"].startswith(b"select id")
    assert sql["claim_batch"].endswith(b"%(after)s")


def test_another_schema_takes_the_place_of_the_qualifier(write: Write):
    write("-- name: x\n-- why\nselect redisjobs.f(o.redisjobs, myredisjobs.a) from redisjobs.outbox o, redisjobs_x.y\n")

    sql = statements.load("station", "Shop")

    assert sql.x == b'select "Shop".f(o.redisjobs, myredisjobs.a) from "Shop".outbox o, redisjobs_x.y'


@pytest.mark.parametrize("schema", ["", "a b", 'a"b', "a.b", "1a", "pg_a", "a%b", "é", "a\n", "x" * 64])
def test_a_schema_that_is_no_plain_identifier_is_refused(write: Write, schema: str):
    write(TWO)

    with pytest.raises(OptionError, match=r"schema .* must be 1 to 63 letters"):
        statements.load("station", schema)


def test_a_missing_statement_is_refused_with_the_file_and_the_known_ones(write: Write):
    write(TWO)
    sql = statements.load("station")

    for ask in (lambda: sql.require("mark", "claim"), lambda: sql.claim, lambda: sql["claim"]):
        with pytest.raises(ConfigurationError, match=r"no statement 'claim' in sql/station\.sql.*claim_batch, mark"):
            ask()


def test_a_missing_file_is_refused_with_the_known_ones(write: Write):
    write(TWO)

    with pytest.raises(ConfigurationError, match=r"no file redisjobs/sql/other\.sql: load one of station"):
        statements.load("other")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select 1\n", r"sql/station\.sql: no statement in it"),
        ("-- name: x\nselect 1\n", r"sql/station\.sql, x: the line behind its name does not say why"),
        ("-- name: x\n-- why\n", r"sql/station\.sql, x: it has no SQL"),
        ("-- name: X\n-- why\nselect 1\n", "cannot be named 'X'"),
        ("-- name: require\n-- why\nselect 1\n", "cannot be named 'require'"),
        ("-- name: x\n-- why\nselect 1\n-- name: x\n-- why\nselect 2\n", "two statements are named x"),
        ("-- name: x\n-- why\nselect 5 % 2\n", r"station\.sql, x: psycopg cannot read '% 2': .*%% for a percent"),
        ("-- name: x\n-- why\nselect %s\n", "psycopg cannot read '%s'"),
    ],
)
def test_a_file_in_another_form_is_refused_by_name(write: Write, text: str, message: str):
    write(text)

    with pytest.raises(ConfigurationError, match=message):
        statements.load("station")


def test_every_statement_of_the_project_loads():
    for station in statements.stations():
        assert list(statements.load(station))
