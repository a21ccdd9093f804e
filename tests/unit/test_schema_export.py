"""`redisjobs.schema`: the schema of a job allows what `enqueue` writes, and nothing that a worker could not read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

import jsonschema
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redisjobs import App, Context, Job
from redisjobs.errors import ConfigurationError, DecodeError
from redisjobs.schema import export, export_job
from tests.support.annotated import ANNOTATIONS, PATIENT, Pair
from tests.support.json_forms import ODD, as_json, changed, places, without
from tests.unit.test_shapes import CASES, Color, Event, Order, Right, Tree, there_and_back

FORMATS = jsonschema.FormatChecker(["date-time", "date", "uuid"])


class Cents(pydantic.BaseModel):
    """An amount."""

    amount: int = pydantic.Field(ge=0, lt=100, description="of a cent")
    code: str = pydantic.Field("EUR", min_length=3, max_length=3, pattern="^[A-Z]+$")
    notes: list[str] = pydantic.Field(default_factory=list, max_length=2)
    model_config = pydantic.ConfigDict(extra="forbid")


class Named(pydantic.BaseModel):
    name: str = pydantic.Field(validation_alias=pydantic.AliasChoices("fullName", "n"))


class Card(TypedDict):
    number: str
    owner: NotRequired[str]


@dataclass
class Parcel:
    """What is sent.

    And more of it.
    """

    weight: float
    to: str = "nobody"


def job_of(annotation: Any, *more: Any) -> Job[Any, Any]:
    """A job with one parameter `value` that is annotated so, and a default if one is given."""

    def body(value: Any = None) -> None: ...
    def needy(value: Any) -> None: ...

    function: Callable[..., None] = body if more else needy
    function.__annotations__ = {"value": annotation}
    return App("shop").declare(function, {"name": "take"})


def validator(job: Job[Any, Any]) -> Any:
    schema = export_job(job)
    return jsonschema.Draft202012Validator(schema, format_checker=FORMATS)


def sent(job: Job[Any, Any], value: Any) -> Any:
    """What `enqueue` writes for this argument, as JSON has it."""
    call = job.call(value=value)
    return as_json(job.door.codecs.decode(call.codec, call.payload))


def variants(whole: Any, way: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Arguments with something else in this place, or nothing."""
    made = [changed(whole, way, value) for value in ODD] + ([without(whole, way)] if way else [])
    return [each for each in made if isinstance(each, dict)]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        pytest.param(annotation, value, id=f"{annotation} {n}")
        for annotation, values in CASES
        for n, value in enumerate(values)
        if (annotation, value) != (int | float, True)  # a bool, where Python sees an int
    ],
)
def test_the_schema_of_every_shape_allows_what_is_written(annotation: Any, value: Any):
    job = job_of(annotation)

    validator(job).validate(sent(job, value))


@settings(PATIENT, max_examples=80)
@given(ANNOTATIONS, st.data())
def test_the_schema_of_any_annotation_allows_what_is_written_for_its_values(pair: Pair, data: st.DataObject):
    job = job_of(pair[0])

    validator(job).validate(sent(job, data.draw(pair[1])))


@settings(PATIENT, max_examples=80)
@given(ANNOTATIONS, st.data())
def test_what_the_schema_allows_a_worker_can_read(pair: Pair, data: st.DataObject):
    job = job_of(pair[0])
    whole = sent(job, data.draw(pair[1]))
    check = validator(job)
    for variant in variants(whole, data.draw(st.sampled_from(list(places(whole))))):
        if check.is_valid(variant):
            job.signature.arguments(variant)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(Any | Color, "no colour"), (Any | Order, {"sku": 1}), (dict[str, Any | Color], {"a": "b"})],
)
def test_where_anything_is_allowed_too_what_fits_nothing_else_is_read_as_it_is(annotation: Any, value: Any):
    assert job_of(annotation).signature.arguments({"value": value}) == {"value": value}


@pytest.mark.parametrize("model", [Cents, Named, Order, Event, Tree])
def test_what_the_schema_of_a_class_allows_a_worker_can_read(model: Any):
    job = job_of(model)
    check = validator(job)
    starts: dict[Any, Any] = {
        Cents: {"amount": 5, "code": "EUR", "notes": ["a"]}, Named: {"fullName": "x", "n": "y"},
        Order: {"id": str(UUID(int=1)), "lines": [{"sku": "a", "price": "1"}], "color": "red"},
        Event: {"at": "2026-01-02T03:04:05Z", "kind": "a"}, Tree: {"children": [{"children": []}]},
    }  # fmt: skip
    tried = 0
    for way in places(start := {"value": starts[model]}):
        for variant in variants(start, way):
            if check.is_valid(variant):
                job.signature.arguments(variant)
                tried += 1
    assert tried


@pytest.mark.parametrize(
    ("annotation", "wrong"),
    [
        (Order, {"lines": []}),
        (Order, {"id": "17"}),
        (Order, {"id": str(UUID(int=1)), "colour": "red"}),
        (Order, {"id": str(UUID(int=1)), "lines": [{"sku": "a", "price": "cheap"}]}),
        (Color, "green"),
        (Right, 8),
        (Decimal, "NaN,"),
        (datetime, "yesterday"),
        (UUID, "17"),
        (time, "25:00"),
        (bytes, "not base64!"),
        (Cents, {"amount": 100}),
        (Cents, {"amount": -1}),
        (Cents, {"amount": 1, "code": "EURO"}),
        (Cents, {"amount": 1, "code": "eur"}),
        (Cents, {"amount": 1, "notes": ["a", "b", "c"]}),
        (Cents, {"amount": 1, "more": 1}),
        (Named, {}),
        (Event, {"at": "2026-01-02T03:04:05Z", "kind": "c"}),
        (tuple[int, str], [1]),
    ],
)
def test_what_a_worker_would_refuse_the_schema_refuses(annotation: Any, wrong: Any):
    job = job_of(annotation)

    with pytest.raises(DecodeError):
        job.signature.arguments({"value": wrong})
    assert not validator(job).is_valid({"value": wrong})


@pytest.mark.parametrize(
    ("annotation", "wrong"), [(int, "5"), (str, 5), (bool, 1), (Literal["a"], "b"), (list[int], [None]), (Card, {})]
)
def test_the_schema_says_what_the_annotation_does_also_where_a_worker_does_not_look(annotation: Any, wrong: Any):
    assert not validator(job_of(annotation)).is_valid({"value": wrong})


def test_a_job_is_described_by_its_parameters_without_the_context():
    def ship(ctx: Context, order_id: int, *, express: bool = False, parcel: Parcel | None = None) -> None:
        """Send it.

        For those who read the code.
        """

    job = App("shop").job(ship)
    assert export_job(job) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": ship.__qualname__.rpartition("<locals>.")[2],
        "description": "Send it.",
        "type": "object",
        "properties": {
            "order_id": {"type": "integer"},
            "express": {"type": "boolean", "default": False},
            "parcel": {"anyOf": [{"$ref": "#/$defs/Parcel"}, {"type": "null"}], "default": None},
        },
        "required": ["order_id"],
        "additionalProperties": False,
        "$defs": {
            "Parcel": {
                "description": "What is sent.",
                "type": "object",
                "properties": {"weight": {"type": "number"}, "to": {"type": "string", "default": "nobody"}},
                "required": ["weight"],
                "additionalProperties": False,
            }
        },
    }


def test_one_document_describes_the_rows_of_all_jobs():
    app = App("shop")

    @app.job(queue="mail", priority=5)
    def send(to: str) -> None: ...
    @app.job(name="odd/na~me %20 ☃")
    def odd(**others: int) -> None: ...

    schema = export("shop", app.jobs)
    check = jsonschema.Draft202012Validator(schema)

    check.validate({"job": "send", "input": {"to": "x"}})
    check.validate({"job": "odd/na~me %20 ☃", "queue": "other", "input": {"anything": 1}})
    for wrong in ({"job": "send", "input": {}}, {"job": "nobody", "input": {}}, {"job": "send"},
                  {"job": "odd/na~me %20 ☃", "input": {"a": "text"}}):  # fmt: skip
        assert not check.is_valid(wrong)
    row = next(each for each in schema["oneOf"] if each["properties"]["job"]["const"] == "send")
    assert row["properties"]["queue"]["default"] == "mail"
    assert row["properties"]["priority"]["default"] == 5


def test_classes_and_jobs_of_one_name_do_not_meet():
    one = type("Line", (), {"__annotations__": {"a": int}, "__module__": "one"})
    two = type("Line", (), {"__annotations__": {"b": str}, "__module__": "two"})
    app = App("shop")
    body: Any = lambda first, second: None  # noqa: E731
    body.__annotations__ = {"first": dataclass(one), "second": dataclass(two)}
    app.declare(body, {"name": "Line"})

    schema = export("shop", app.jobs)

    assert sorted(schema["$defs"]) == ["Line", "one.Line", "two.Line"]
    jsonschema.Draft202012Validator(schema).validate(
        {"job": "Line", "input": {"first": {"a": 1}, "second": {"b": "x"}}}
    )


def test_an_app_without_jobs_has_nothing_to_export():
    with pytest.raises(ConfigurationError, match="'shop' declares no job"):
        export("shop", {})


def test_the_bytes_of_another_language_come_in_base64():
    assert job_of(bytes).signature.arguments({"value": "AP8="}) == {"value": b"\x00\xff"}
    assert job_of(bytes | str).signature.arguments({"value": "AP8="}) == {"value": "AP8="}
    assert there_and_back(list[bytes], [b"\x00"]) == [b"\x00"]


@pytest.mark.parametrize("annotation", [annotation for annotation, _ in CASES], ids=str)
def test_each_schema_is_one_by_the_rules_of_its_dialect(annotation: Any):
    jsonschema.Draft202012Validator.check_schema(export_job(job_of(annotation)))


def test_what_annotations_do_not_say_is_open():
    assert validator(job_of(Any)).is_valid({"value": object})
    assert export_job(job_of(Annotated[timedelta, "of the call"]))["properties"]["value"]["type"] == "number"
    assert validator(job_of("Nowhere")).is_valid({"value": 1})
    assert validator(job_of(datetime, None)).is_valid({"value": datetime(2026, 1, 1, tzinfo=UTC).isoformat()})
