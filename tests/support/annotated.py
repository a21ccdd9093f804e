"""Annotations of all kinds, and values of them, for properties that hold for any of them."""

from __future__ import annotations

import dataclasses
import enum
import string
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import GenericAlias
from typing import Any, Literal, NamedTuple
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    PAIR = (1, 2)
    HALF = 0.5


class Place(NamedTuple):
    x: int
    at: datetime | None = None


Pair = tuple[Any, st.SearchStrategy[Any]]
"""An annotation, and values of it."""

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
MOMENTS = st.datetimes(
    min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30),  # noqa: DTZ001  # the zone comes with `timezones`
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-3))]),
)  # fmt: skip
LEAVES: list[Pair] = [
    (str, TEXT),
    (int, st.integers(-(2**70), 2**70)),
    (bool, st.booleans()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (type(None), st.none()),
    (bytes, st.binary(max_size=6)),
    (datetime, MOMENTS),
    (date, st.dates()),
    (time, st.times()),
    (timedelta, st.timedeltas(timedelta(days=-10), timedelta(days=10))),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (UUID, st.uuids()),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Odd, st.sampled_from(Odd)),
    (Literal["a", 1] | None, st.sampled_from(["a", 1, None])),
    (Place, st.builds(Place, st.integers(), st.none() | MOMENTS)),
    (Any, st.none() | TEXT | st.integers() | st.lists(st.integers(), max_size=2)),
]


def dataclass_of(fields: Sequence[Pair], optional: Sequence[bool]) -> Pair:
    """A dataclass with these fields; the optional ones have a default."""
    named = list(zip(string.ascii_lowercase, fields, optional, strict=False))
    given: list[Any] = [(name, annotation) for name, (annotation, _), free in named if not free]
    given += [(name, annotation, dataclasses.field(default=None)) for name, (annotation, _), free in named if free]
    cls = dataclasses.make_dataclass("Made", given)
    return cls, st.builds(cls, **{name: values for name, (_, values), _ in named})


def list_of(pair: Pair) -> Pair:
    """A list of such values."""
    return GenericAlias(list, pair[0]), st.lists(pair[1], max_size=3)


def map_of(pair: Pair) -> Pair:
    """A mapping from texts to such values."""
    return GenericAlias(Mapping, (str, pair[0])), st.dictionaries(TEXT, pair[1], max_size=3)


def either(pairs: tuple[Pair, Pair]) -> Pair:
    """A value of one kind or of the other; where Python has no union of these, of the one kind."""
    (one, ones), (other, others) = pairs
    return (one | other, ones | others) if isinstance(one, type) and isinstance(other, type) else pairs[0]


def _by_colour(pair: Pair) -> Pair:
    return GenericAlias(dict, (Colour, pair[0])), st.dictionaries(st.sampled_from(Colour), pair[1])


def _fixed(pairs: list[Pair]) -> Pair:
    return GenericAlias(tuple, tuple(each for each, _ in pairs)), st.tuples(*(values for _, values in pairs))


def _compound(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    some = st.lists(inner, min_size=1, max_size=3)
    classes = st.builds(dataclass_of, some, st.lists(st.booleans(), min_size=3, max_size=3))
    unions = st.tuples(inner, inner).map(either)
    return st.one_of(inner.map(list_of), inner.map(map_of), inner.map(_by_colour), some.map(_fixed), unions, classes)


ANNOTATIONS: st.SearchStrategy[Pair] = st.recursive(st.sampled_from(LEAVES), _compound, max_leaves=6)

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
"""Other programs may hold the machine."""
