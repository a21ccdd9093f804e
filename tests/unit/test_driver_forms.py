"""A statement in the forms that drivers read, and what Postgres refuses in our words."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from uuid import UUID

import pytest

from redisjobs import ConfigurationError, EnqueueError, StoreRefused
from redisjobs.base import statements
from redisjobs.drivers.forms import named, numbered
from redisjobs.drivers.words import in_our_words

ID = UUID("00000000-0000-7000-8000-000000000001")


def test_a_parameter_has_one_number_wherever_it_stands():
    statement = b"SELECT %(b)s::text, %(a)s, 5 %% 3 WHERE %(b)s::text <> ''"

    assert numbered((statement, {"a": 1, "b": "x"})) == ("SELECT $1::text, $2, 5 % 3 WHERE $1::text <> ''", ("x", 1))


def test_types_for_which_a_program_may_have_its_own_codecs_travel_as_text():
    at = datetime(2026, 1, 1, tzinfo=UTC)
    statement = b"VALUES (%(id)s::uuid, %(at)s::timestamptz[], %(input)s::json, %(n)s::integer)"

    text, values = numbered((statement, {"id": ID, "at": [at, None], "input": "{}", "n": 1}))

    assert text == "VALUES ($1::text::uuid, $2::text[]::timestamptz[], $3::text::json, $4::integer)"
    assert values == (str(ID), ["2026-01-01T00:00:00+00:00", None], "{}", 1)


def test_names_stay_where_a_driver_knows_them():
    text, values = named((b"SELECT %(id)s::uuid", {"id": ID}))

    assert (text, values) == ("SELECT %(id)s::uuid", {"id": str(ID)})


def test_every_statement_of_the_outbox_has_a_numbered_form():
    sql = statements.load("outbox")
    for name in sql:
        text, _ = numbered((sql[name], dict.fromkeys(_names(sql[name]))))
        assert "%" not in text


def _names(statement: bytes) -> list[str]:
    return [part.partition(b")")[0].decode() for part in statement.split(b"%(")[1:]]


@pytest.mark.parametrize(
    ("code", "table", "kind"),
    [
        ("42P01", None, ConfigurationError),
        ("3F000", None, ConfigurationError),
        ("42703", "outbox", ConfigurationError),
        ("42883", None, ConfigurationError),
        ("42501", None, StoreRefused),
        ("23514", "outbox", EnqueueError),
        ("23505", "outbox", EnqueueError),
        ("23514", "orders", type(None)),
        ("23505", "orders", type(None)),
        ("25P02", None, type(None)),
        (None, None, type(None)),
    ],
)
def test_only_what_is_about_the_outbox_is_told_in_our_words(code: str | None, table: str | None, kind: type):
    assert isinstance(in_our_words(code, "said", table, "a_rule"), kind)


def test_importing_redisjobs_imports_no_framework():
    frameworks = ("sqlalchemy", "asyncpg", "django", "starlette")
    program = f"import sys, redisjobs; print([name for name in {frameworks} if name in sys.modules])"

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert said == "[]\n"
