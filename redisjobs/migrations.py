"""Brings the schema up to date: numbered files, forward only, one transaction each, safe to run side by side."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files

import psycopg

from redisjobs.base import statements
from redisjobs.base.postgres import check_database_url, in_our_words, options
from redisjobs.errors import ConfigurationError

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_KNOWN = "SELECT version, sha FROM redisjobs.migrations"
_ENTRY = "INSERT INTO redisjobs.migrations (version, name, sha) VALUES"
_SCHEMA_WORD = re.compile(r"(?<=SCHEMA )((?:IF NOT EXISTS )?)redisjobs\b")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step.

    Args:
        sha: of the file as it was written, so that a changed file is noticed.
        text: the SQL for the schema asked for.
    """

    version: int
    name: str
    sha: str
    text: str


def migrations(schema: str = statements.SCHEMA) -> list[Migration]:
    """All steps in their order, written for this schema."""
    found: list[Migration] = []
    for entry in files("redisjobs").joinpath("sql", "migrations").iterdir():
        named = _FILE.fullmatch(entry.name)
        if named:
            text = entry.read_text("utf-8")
            sha = hashlib.sha256(text.encode()).hexdigest()
            found.append(Migration(int(named[1]), named[2], sha, _for_schema(text, schema)))
    return sorted(found, key=lambda each: each.version)


def script(schema: str = statements.SCHEMA) -> str:
    """Every step with its entry in the table of migrations, to be read and run by a DBA."""
    return "\n".join(f"BEGIN;\n{each.text}\n{_entry(each, schema)};\nCOMMIT;\n" for each in migrations(schema))


def migrate(url: str, schema: str = statements.SCHEMA) -> list[str]:
    """Apply what is missing; answers the names of the steps applied. A second migrator waits for the first.

    Raises:
        ConfigurationError: the database has a step that this version does not know, or another text of one.
        DatabaseUnavailable: no answer.
        StoreRefused: a right is missing.
    """
    applied: list[str] = []
    with in_our_words("migrate"), psycopg.connect(check_database_url(url), **options()) as connection:
        for step in migrations(schema):
            with connection.transaction():
                connection.execute(
                    "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"redisjobs migrate {schema}"]
                )
                if step.version in _known(connection, schema):
                    continue
                connection.execute(step.text.encode())
                connection.execute(_entry(step, schema).encode())
                applied.append(f"{step.version:04} {step.name}")
    return applied


def missing(url: str, schema: str = statements.SCHEMA) -> list[str]:
    """The names of the steps that this database lacks.

    Raises:
        ConfigurationError, DatabaseUnavailable, StoreRefused: as `migrate`.
    """
    with (
        in_our_words("look at migrations"),
        psycopg.connect(check_database_url(url), **options()) as connection,
    ):
        known = _known(connection, schema)
    return [f"{step.version:04} {step.name}" for step in migrations(schema) if step.version not in known]


def _known(connection: psycopg.Connection[tuple[object, ...]], schema: str) -> set[int]:
    table = statements.in_schema("redisjobs.migrations", schema)
    there = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [table]).fetchone()
    if not there or not there[0]:
        return set()
    rows = connection.execute(statements.in_schema(_KNOWN, schema).encode()).fetchall()
    steps = {step.version: step for step in migrations(schema)}
    for version, sha in rows:
        step = steps.get(int(str(version)))
        if step is None:
            raise ConfigurationError(
                f"the database has migration {version}, which this version of redisjobs does not know: "
                "install the newer one"
            )
        if sha != step.sha:
            raise ConfigurationError(
                f"migration {version} was applied with another text than this version has: "
                "install the version that wrote it"
            )
    return {int(str(version)) for version, _ in rows}


def _entry(step: Migration, schema: str) -> str:
    values = f"({step.version}, '{step.name}', '{step.sha}')"
    return f"{statements.in_schema(_ENTRY, schema)} {values}"


def _for_schema(text: str, schema: str) -> str:
    qualified = statements.in_schema(text, schema)
    return qualified if schema == statements.SCHEMA else _SCHEMA_WORD.sub(rf'\1"{schema}"', qualified)
