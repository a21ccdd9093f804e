"""Finds the SQL statements of a station, each by its name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import zip_longest

from redisjobs.errors import ConfigurationError, OptionError

SCHEMA = "redisjobs"

_HEAD = re.compile(r"^-- name: *(.*?) *$", re.MULTILINE)
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_WHY = re.compile(r"(?:--[^\n]*\w[^\n]*\n)+")
_QUALIFIER = re.compile(r"(?<![\w.$\"])redisjobs(?=\.)")
_SCHEMA_NAME = re.compile(r"(?!pg_)[A-Za-z_][A-Za-z0-9_]{0,62}")
_PERCENT = re.compile(r"%(?!\(\w+\)[sbt])")


class Statements:
    """The statements of one file, by item or by attribute: `sql["claim"]` is `sql.claim`.

    They are bytes, the form that psycopg sends; `%(name)s` in them are its parameters. One
    with `%%` in it needs a mapping of parameters when it is executed, be it empty, or psycopg
    sends both signs.

    Raises:
        ConfigurationError: from any access, where the file has no statement of this name.
    """

    __slots__ = ("_found", "file")

    def __init__(self, file: str, found: dict[str, bytes]) -> None:
        self.file = file
        self._found = found

    def require(self, *names: str) -> Statements:
        """The same statements, once all of these are there; called where a module is imported."""
        for name in names:
            self[name]
        return self

    def __getitem__(self, name: str) -> bytes:
        try:
            return self._found[name]
        except KeyError:
            raise ConfigurationError(
                f"no statement {name!r} in {self.file}: write one headed `-- name: {name}`, "
                f"or use one of {', '.join(self._found)}"
            ) from None

    def __getattr__(self, name: str) -> bytes:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)


def stations() -> list[str]:
    """The names of all files of statements, sorted; migrations are not among them."""
    return sorted(
        entry.name[: -len(".sql")] for entry in files("redisjobs").joinpath("sql").iterdir() if entry.is_file()
    )


@cache
def load(station: str, schema: str = SCHEMA) -> Statements:
    """The statements of `redisjobs/sql/STATION.sql`, for the tables in this schema.

    Raises:
        ConfigurationError: no such file, or one that is not in the form described in CONTRIBUTING.
        OptionError: a schema name that is not a plain identifier.
    """
    file = f"sql/{station}.sql"
    try:
        text = files("redisjobs").joinpath("sql", f"{station}.sql").read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"no file redisjobs/{file}: load one of {', '.join(stations())}, or install redisjobs-pg again"
        ) from error
    return Statements(file, {name: in_schema(body, schema).encode() for name, body in _parse(file, text).items()})


def in_schema(text: str, schema: str) -> str:
    """SQL written for the tables of the schema `redisjobs`, made to mean those of another one.

    Raises:
        OptionError: a schema name that is not a plain identifier.
    """
    if not _SCHEMA_NAME.fullmatch(schema):
        raise OptionError(
            "schema", schema, "must be 1 to 63 letters, digits and underscores, with no digit and no pg_ in front"
        )
    return text if schema == SCHEMA else _QUALIFIER.sub(f'"{schema}"', text)


def _parse(file: str, text: str) -> dict[str, str]:
    heads = list(_HEAD.finditer(text))
    found: dict[str, str] = {}
    for head, following in zip_longest(heads, heads[1:]):
        name = head[1]
        if not _NAME.fullmatch(name) or hasattr(Statements, name):
            raise ConfigurationError(f"{file}: a statement cannot be named {name!r}: use a free lower_case name")
        if name in found:
            raise ConfigurationError(f"{file}: two statements are named {name}: give each its own name")
        found[name] = _body(f"{file}, {name}", text[head.end() + 1 : following and following.start()])
    if not found:
        raise ConfigurationError(f"{file}: no statement in it: head each with `-- name: its_name`")
    return found


def _body(place: str, text: str) -> str:
    why = _WHY.match(text)
    if not why:
        raise ConfigurationError(f"{place}: the line behind its name does not say why: write `-- why it is there`")
    body = text[why.end() :].strip().removesuffix(";").rstrip()
    if not body:
        raise ConfigurationError(f"{place}: it has no SQL: write it under its head")
    single = body.replace("%%", "")
    loose = _PERCENT.search(single)
    if loose:
        rest = single[loose.start() :].splitlines()[0]
        raise ConfigurationError(
            f"{place}: psycopg cannot read {rest!r}: write %(name)s for a parameter, %% for a percent sign"
        )
    return body
