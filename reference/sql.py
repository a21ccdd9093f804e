"""The page on SQL: tables, views and functions, as a migrated database tells of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

import redisjobs
from reference.markdown import code, fence, page, table

INTRO = """\
Everything is in the schema `redisjobs` (`--schema` names another). What a producer may write, and what each column
means, is told in [producers](../producers.md). Columns and functions are added and never renamed; what is not a
producer's may change its meaning with a release."""

COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       CASE a.attidentity WHEN 'a' THEN 'identity' ELSE pg_get_expr(d.adbin, d.adrelid) END
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
CONSTRAINTS = """
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid = %s AND contype IN ('c', 'p', 'u', 'f') ORDER BY contype DESC, conname"""
RELATIONS = """
SELECT oid, relname FROM pg_class
WHERE relnamespace = 'redisjobs'::regnamespace AND relkind = ANY (%s::"char"[]) AND NOT relispartition
ORDER BY relname"""
FUNCTIONS = """
SELECT proname, pg_get_function_arguments(oid), pg_get_function_result(oid), prosrc FROM pg_proc
WHERE pronamespace = 'redisjobs'::regnamespace ORDER BY proname"""


def page_of_sql(database_url: str) -> str:
    """The page, from a database that has the tables."""
    with psycopg.connect(database_url) as connection:
        return page(
            "SQL", INTRO, "## The life of a row", fence("text", _opening()),
            "## Functions", *_functions(connection),
            "## Tables", *_relations(connection, ["r", "p"]),
            *_views(connection),
        )  # fmt: skip


def migrations() -> list[str]:
    """The texts of all migrations, the first one first."""
    folder = Path(redisjobs.__file__).parent / "sql" / "migrations"
    return [file.read_text() for file in sorted(folder.glob("*.sql"))]


def _opening() -> str:
    """What the first migration says before its first statement."""
    comment = re.match(r"(?:--.*\n)+", migrations()[0])
    return re.sub(r"^-- ?", "", comment[0] if comment else "", flags=re.MULTILINE)


def _comment_on(function: str) -> str:
    """What stands above a function where it was last made."""
    pattern = re.compile(rf"((?:^-- .*\n)*)^CREATE (?:OR REPLACE )?FUNCTION redisjobs\.{function}\(", re.MULTILINE)
    found = [match[1] for text in migrations() for match in pattern.finditer(text)]
    return " ".join(re.sub(r"^-- ", "", found[-1], flags=re.MULTILINE).split()) if found else ""


def _functions(connection: psycopg.Connection[Any]) -> Iterator[str]:
    found = connection.execute(FUNCTIONS).fetchall()
    grants = {name: source for name, _, _, source in found if name.startswith("grant_")}
    for name, takes, gives, _ in found:
        if gives == "trigger":
            continue
        granted = [code(each) for each, source in grants.items() if re.search(rf"redisjobs\.{name}\b", source)]
        who = f"Granted by {', '.join(granted)}." if granted else "For the owner of the schema."
        yield f"### {name}"
        yield fence("text", f"redisjobs.{name}({_parameters(takes)}) → {_short(gives)}")
        yield " ".join(part for part in (_comment_on(name), who) if part)


def _parameters(takes: str) -> str:
    """On one line, or one a line where they are many."""
    each = _short(re.sub(r"::[a-z ]+", "", takes))
    return each if len(each) < 90 else "\n    " + each.replace(", ", ",\n    ") + "\n"


def _short(kind: str) -> str:
    return kind.replace("timestamp with time zone", "timestamptz")


def _relations(connection: psycopg.Connection[Any], kinds: list[str]) -> Iterator[str]:
    for oid, name in connection.execute(RELATIONS, [kinds]).fetchall():
        columns = connection.execute(COLUMNS, [oid]).fetchall()
        rules = connection.execute(CONSTRAINTS, [oid]).fetchall()
        yield f"### {name}"
        yield table(
            ["column", "type", "default", "may be null"],
            (
                [code(column), _short(kind), code(default), "" if filled else "yes"]
                for column, kind, filled, default in columns
            ),
        )
        yield table(["rule", ""], ([code(rule), code(text)] for rule, text in rules))


def _views(connection: psycopg.Connection[Any]) -> Iterator[str]:
    found = list(_relations(connection, ["v", "m"]))
    if found:
        yield "## Views"
        yield from found
