"""`redisjobs.schema.compare`: what a new release would not take of what producers send by the old document."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from datetime import date, datetime
from decimal import Decimal
from types import GenericAlias
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import jsonschema
import pydantic
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from redisjobs import App
from redisjobs.errors import ConfigurationError
from redisjobs.schema import Change, compare, export
from tests.support.annotated import ANNOTATIONS, LEAVES, PATIENT, Pair, either, list_of, map_of
from tests.support.json_forms import as_json, changed, places, without
from tests.unit.test_schema_export import FORMATS, job_of, sent
from tests.unit.test_shapes import Names, Tree


def exported(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    app = App("shop")
    app.declare(function, {"name": "job", **options})  # type: ignore[typeddict-item]  # any option
    return export("shop", app.jobs)


def of(annotation: Any) -> dict[str, Any]:
    """The document of an app whose one job takes one argument `value`."""
    return export("shop", {"take": job_of(annotation)})


def told(changes: list[Change]) -> list[str]:
    return [f"{each.level}: {each.path} {each.text}" for each in changes]


class Small(enum.Enum):
    A = "a"


class Large(enum.Enum):
    A = "a"
    B = "b"


class Bounded(pydantic.BaseModel):
    n: int = pydantic.Field(ge=5, le=10)
    word: str = pydantic.Field("x", max_length=3)


class Loose(pydantic.BaseModel):
    n: int = pydantic.Field(ge=0)
    word: str = "x"


class Strict(pydantic.BaseModel):
    n: int = 1
    model_config = pydantic.ConfigDict(extra="forbid")


class Free(pydantic.BaseModel):
    n: int = 1


class One(NamedTuple):
    a: int


class Two(NamedTuple):
    a: int
    b: int = 0


class Half(TypedDict, total=False):
    a: int


class Full(TypedDict):
    a: int


def record(**fields: Any) -> Any:
    given: list[Any] = [(name, kind) if not isinstance(kind, tuple) else (name, *kind) for name, kind in fields.items()]
    return make_dataclass("Line", given)


@pytest.mark.parametrize(
    ("old", "new", "breaking", "path"),
    [
        (int, str, "takes string now, and not integer", "value"),
        (int | None, int, "takes integer now, and not null", "value"),
        (float, int, "takes integer now, and not number", "value"),
        (Any, int, "takes integer now, and not anything", "value"),
        (datetime, date, "takes less now: format date, and was format date-time", "value"),
        (str, UUID, "takes less now: format uuid, and was format any", "value"),
        (str, Decimal, "takes less now: pattern", "value"),
        (str, Literal["a", "b"], 'takes "a" or "b" now, and not string', "value"),
        (Large, Small, 'takes "a" now, and not "b"', "value"),
        (list[int], list[str], "takes string now, and not integer", "value[]"),
        (tuple[int, int], tuple[int, str], "takes string now, and not integer", "value[1]"),
        (tuple[int, int], tuple[int, int, int], "takes less now: minItems 3, and was minItems 2", "value"),
        (list[int], tuple[int, int], "takes less now", "value"),
        (dict[str, int], dict[str, str], "takes string now, and not integer", "value[*]"),
        (dict[str, int], dict[Small, int], 'takes "a" now, and not string', "value[names]"),
        (record(a=int), record(a=int, b=int), "must be sent now", "value.b"),
        (record(a=int, b=(int, 0)), record(a=int, b=int), "must be sent now", "value.b"),
        (record(a=int, b=(int, 0)), record(a=int), "is not taken any more", "value.b"),
        (record(a=int), record(c=int), "is not taken any more", "value.a"),
        (GenericAlias(list, record(a=int)), GenericAlias(list, record(a=str)), "takes string now", "value[].a"),
        (record(a=int) | None, record(a=str) | None, "takes string now", "value.a"),
        (Loose, Bounded, "takes less now: minimum 5, and was minimum 0", "value.n"),
        (Loose, Bounded, "takes less now: maxLength 3, and was maxLength none", "value.word"),
        (Free, Strict, "takes no other names any more", "value"),
        (Half, Full, "must be sent now", "value.a"),
        (Two, One, "is not taken any more", "value.b"),
        (bytes, UUID, "takes less now: format uuid", "value"),
        (Names, list[int], "takes integer now, and not string", "value[]"),
        (Tree, record(children=list[int]), "takes integer now", "value.children[]"),
    ],
    ids=str,
)
def test_what_is_narrower_than_before_breaks(old: Any, new: Any, breaking: str, path: str):
    found = [each for each in compare(of(old), of(new)) if each.level == "breaking"]

    assert any(each.path == path and breaking in each.text for each in found), told(found)


@pytest.mark.parametrize(
    ("old", "new", "text", "path"),
    [
        (int, int | None, "takes null too now", "value"),
        (int, float, "takes number too now", "value"),
        (str, str | int, "takes integer too now", "value"),
        (int, Any, "takes anything too now", "value"),
        (UUID, str, "takes more now", "value"),
        (Small, Large, 'takes "b" too now', "value"),
        (Literal["a"], str, "takes string too now", "value"),
        (list[int], list[float], "takes number too now", "value[]"),
        (tuple[int, int], list[int], "takes more now", "value"),
        (dict[Small, int], dict[str, int], "takes string too now", "value[names]"),
        (record(a=int), record(a=int, b=(int, 0)), "is new, and may be left out", "value.b"),
        (record(a=int, b=int), record(a=int, b=(int, 0)), "may be left out now", "value.b"),
        (Bounded, Loose, "takes more now: minimum 0, and was minimum 5", "value.n"),
        (Strict, Free, "takes other names too now", "value"),
        (One, Two, "is new, and may be left out", "value.b"),
        (Full, Half, "may be left out now", "value.a"),
    ],
    ids=str,
)
def test_what_is_wider_than_before_is_told_and_breaks_nothing(old: Any, new: Any, text: str, path: str):
    found = compare(of(old), of(new))

    assert {each.level for each in found} == {"compatible"}, told(found)
    assert any(each.path == path and text in each.text for each in found), told(found)


def test_a_job_that_is_gone_breaks_and_a_new_one_does_not():
    assert told(compare(export("shop", {"old": job_of(int)}), export("shop", {"new": job_of(int)}))) == [
        "breaking:  the job is gone: its calls are parked",
        "compatible:  the job is new",
    ]


def test_arguments_break_as_fields_do():
    def old(a: int, b: str = "x") -> None: ...
    def new(a: int | None, c: str, *, d: int = 0) -> None: ...
    def anything(a: int, **rest: Any) -> None: ...

    assert told(compare(exported(old), exported(new))) == [
        "breaking: b is not taken any more",
        "breaking: c must be sent now",
        "compatible: a takes null too now",
        "compatible: d is new, and may be left out",
    ]
    assert told(compare(exported(old), exported(anything))) == ["compatible:  takes other names too now"]


def test_another_queue_is_a_warning_for_workers_must_go_on_serving_the_old_one():
    def job(a: int) -> None: ...

    assert told(compare(exported(job), exported(job, queue="mail"))) == [
        "warning:  its queue is 'mail' now, and was 'default': workers must go on serving the old one"
    ]


def test_another_order_is_a_warning_for_those_who_send_arrays():
    def old(a: int, b: int) -> None: ...
    def new(b: int, a: int) -> None: ...
    def before(z: int | None = None, a: int = 0, b: int = 0) -> None: ...

    (change,) = compare(exported(old), exported(new))
    assert (change.level, change.text[:58]) == ("warning", "the arguments stand in another order now (b, a): an array ")
    assert [each.level for each in compare(exported(old), exported(before)) if "order" in each.text] == ["warning"]


def test_another_default_is_told():
    def old(a: int = 1) -> None: ...
    def new(a: int = 2) -> None: ...

    assert told(compare(exported(old), exported(new))) == ["compatible: a where it is left out it is 2 now, and was 1"]


def test_a_class_that_moved_or_has_another_name_changes_nothing():
    @dataclass
    class Before:
        a: int
        inner: list[Small] = field(default_factory=list)

    @dataclass
    class After:
        a: int
        inner: list[Small] = field(default_factory=list)

    assert compare(of(Before), of(After)) == []
    assert compare(of(Tree), of(Tree)) == []


@pytest.mark.parametrize("old", [None, [], {}, {"oneOf": 5}, {"oneOf": [{}]}, {"type": "object"}, "x",
                                 {"oneOf": [{"properties": {"job": {"const": "a"}}}]}])  # fmt: skip
def test_a_document_that_is_no_export_is_refused(old: Any):
    with pytest.raises(ConfigurationError, match=r"is no export of all jobs.*: store what `redisjobs schema"):
        compare(old, of(int))


def test_a_document_that_somebody_edited_is_compared_or_refused():
    document = of(tuple[One, Bounded | None, Literal["a", 1], dict[Small, list[Decimal]], Tree])
    others: list[Any] = [None, True, 7, "x", [], {}, [1]]
    refused = 0
    for way in list(places(document)):
        edited = [changed(document, way, value) for value in others]
        for each in [*edited, *([without(document, way)] if way else [])]:
            try:
                compare(each, document)
            except ConfigurationError:
                refused += 1
    assert refused > 100


@settings(PATIENT, max_examples=30)
@given(ANNOTATIONS)
def test_what_did_not_change_is_no_change(pair: Pair):
    assert compare(of(pair[0]), of(pair[0])) == []


def related(pair: Pair) -> st.SearchStrategy[Pair]:
    """An annotation, and one that is like it but for a thing."""
    other = st.sampled_from(LEAVES)
    return (
        st.just(pair)
        | other
        | st.sampled_from([list_of(pair), map_of(pair)])
        | other.map(lambda leaf: either((pair, leaf)))
    )


@settings(PATIENT, max_examples=60)
@given(st.data())
def test_what_was_sent_by_the_old_document_is_allowed_by_the_new_where_nothing_breaks(data: st.DataObject):
    old = data.draw(ANNOTATIONS)
    new = data.draw(related(old))
    one, other = of(old[0]), of(new[0])
    assume(all(change.level != "breaking" for change in compare(one, other)))

    row = {"job": "take", "input": sent(job_of(old[0]), data.draw(old[1]))}
    jsonschema.Draft202012Validator(other, format_checker=FORMATS).validate(as_json(row))
