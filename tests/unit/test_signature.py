"""O3: arguments are checked against the signature when the call is made, and again where they come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest

from redisjobs.base.signature import Signature
from redisjobs.context import Context
from redisjobs.errors import ArgumentsError, ConfigurationError, DecodeError, EncodeError

if TYPE_CHECKING:
    from fractions import Fraction


@dataclass
class Line:
    price: Decimal


def body(order_id: int, note: str = "", *, line: Line | None = None) -> None:
    del order_id, note, line


def with_context(ctx: Context, order_id: int) -> None:
    del ctx, order_id


def open_ended(first: int, **rest: Line) -> None:
    del first, rest


def of(function: Callable[..., Any], **local: Any) -> Signature:
    return Signature("mail", function, Context, local)


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((1,), {}, {"order_id": 1}),
        ((1, "x"), {}, {"order_id": 1, "note": "x"}),
        ((), {"note": "x", "order_id": 1}, {"order_id": 1, "note": "x"}),
        ((1,), {"line": Line(Decimal(2))}, {"order_id": 1, "line": {"price": Decimal(2)}}),
    ],
)
def test_arguments_are_bound_by_name(args, kwargs, expected):
    for _ in range(2):  # the second time it knows the names
        assert of(body).bind(args, kwargs) == expected


@pytest.mark.parametrize(
    ("args", "kwargs", "why"),
    [
        ((), {}, "missing a required argument: 'order_id'"),
        ((1, "x", 3), {}, "too many positional arguments"),
        ((1,), {"nota": 1}, "unexpected keyword argument 'nota'"),
        ((1,), {"order_id": 2}, "multiple values for argument 'order_id'"),
        ((), {"note": "x"}, "missing a required argument: 'order_id'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(args, kwargs, why: str):
    with pytest.raises(ArgumentsError, match=r"^job 'mail': .*; it takes \(order_id, note, line\)") as refused:
        of(body).bind(args, kwargs)

    assert why in str(refused.value)
    assert isinstance(refused.value, TypeError)


def test_the_context_is_no_argument():
    signature = of(with_context)

    assert signature.takes_context
    assert signature.bind((5,), {}) == {"order_id": 5}
    assert signature.arguments({"order_id": 5}) == {"order_id": 5}
    with pytest.raises(ArgumentsError, match="unexpected keyword argument 'ctx'"):
        signature.bind((), {"ctx": 1, "order_id": 5})


def test_only_a_first_parameter_annotated_with_it_is_the_context():
    def named_like_it(ctx: int, context: Context) -> None: ...
    def keyword_only(*, ctx: Context) -> None: ...
    def nothing() -> None: ...
    def positional_only(ctx: Context, /, number: int) -> None: ...
    def quoted(ctx: "redisjobs.Context", number: int) -> None: ...  # type: ignore[name-defined] # noqa: F821, UP037

    assert [of(each).takes_context for each in (named_like_it, keyword_only, nothing, positional_only, quoted)] == [
        False, False, False, True, True,
    ]  # fmt: skip


def test_other_names_are_taken_where_the_function_takes_them():
    signature = of(open_ended)

    data = signature.bind((1,), {"a": Line(Decimal(1))})

    assert data == {"first": 1, "a": {"price": Decimal(1)}}
    assert signature.arguments(data) == {"first": 1, "a": Line(Decimal(1))}
    assert signature.arguments({"first": 1}) == {"first": 1}


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda a, /: a, "positional-only"),
        (lambda *a: a, "any number of positional"),
        (lambda a, b, /, c: a, "positional-only"),
    ],
)
def test_parameters_that_have_no_name_are_refused_at_the_declaration(function, why: str):
    with pytest.raises(ConfigurationError, match=why):
        of(function)


def test_an_array_is_arguments_by_position():
    assert of(body).arguments([1, "x"]) == {"order_id": 1, "note": "x"}
    assert of(with_context).arguments([7]) == {"order_id": 7}
    with pytest.raises(DecodeError, match="takes 2 arguments by position, and 3 came"):
        of(body).arguments([1, "x", None])
    with pytest.raises(DecodeError, match="without order_id"):
        of(body).arguments([])


@pytest.mark.parametrize(
    ("data", "kind"), [("x", "a text"), (5, "a number"), (1.5, "a number"), (None, "null"), (True, "a boolean")]
)
def test_anything_else_is_no_arguments(data, kind: str):
    with pytest.raises(DecodeError, match=f"must be an object or an array, not {kind}"):
        of(body).arguments(data)


def test_arguments_of_another_release_are_told_by_name_and_not_by_value():
    with pytest.raises(
        DecodeError, match="without order_id and with the unknown extra: they do not fit job 'mail'"
    ) as refused:
        of(body).arguments({"extra": "secret", "note": "secret"})

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("data", [{"secret": 1}, {"price": 1, "secret": 2}])
def test_an_argument_that_fits_no_longer_is_told_by_name_and_not_by_value(data):
    with pytest.raises(DecodeError, match="the argument 'line' of job 'mail' does not fit its annotation") as refused:
        of(body).arguments({"order_id": 1, "line": data})

    assert "secret" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_a_value_that_cannot_travel_is_named_from_its_parameter():
    def pair(lines: tuple[Line, Line]) -> None: ...

    with pytest.raises(EncodeError, match=r"^lines: has 1 items, and its annotation 2$"):
        of(pair).bind(((Line(Decimal(1)),),), {})


def test_an_annotation_that_is_there_for_checkers_only_says_so():
    def share(part: Fraction) -> None: ...

    signature = of(share)

    assert signature.bind((1,), {}) == {"part": 1}
    with pytest.raises(EncodeError, match="part: is a Line, and its annotation 'Fraction' cannot be resolved"):
        signature.bind((Line(Decimal(1)),), {})


def test_the_result_goes_through_the_return_annotation():
    def lines() -> list[Line]:
        raise NotImplementedError

    signature = of(lines)

    data = signature.write_result([Line(Decimal(1))])
    assert data == [{"price": Decimal(1)}]
    assert signature.read_result(data) == [Line(Decimal(1))]
    assert of(lambda: None).read_result({"a": 1}) == {"a": 1}


def test_a_result_that_does_not_fit_is_told():
    def pair() -> tuple[Line, Line]:
        raise NotImplementedError

    with pytest.raises(EncodeError, match=r"^the result: has 1 items"):
        of(pair).write_result((Line(Decimal(1)),))
    with pytest.raises(DecodeError, match="the result of job 'mail' does not fit"):
        of(pair).read_result([{"secret": 1}, {}])


def test_annotations_may_name_what_stands_around_the_function():
    @dataclass
    class Local:
        number: int

    def take(value: Local) -> None: ...

    signature = of(take, Local=Local)

    assert signature.arguments(signature.bind((Local(1),), {})) == {"value": Local(1)}


class Colour(Enum):
    RED = "red"


def typed(
    *,
    number: int = 0,
    text: str = "",
    share: float = 0.0,
    sure: bool = False,
    prices: list[float] | None = None,
    line: Line | None = None,
    day: date | None = None,
    colour: Colour = Colour.RED,
    either: int | str = 0,
    sloppy: str = None,  # type: ignore[assignment]  # noqa: RUF013 - as users declare it
    anything: Any = None,
) -> None:
    del number, text, share, sure, prices, line, day, colour, either, sloppy, anything


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"number": "seven"}, "number is a str, and its annotation says int"),
        ({"number": 7.5}, "number is a float, and its annotation says int"),
        ({"number": None}, "number is None, and its annotation says int"),
        ({"text": 7}, "text is an int, and its annotation says str"),
        ({"share": "half"}, "share is a str, and its annotation says float"),
        ({"sure": 1}, "sure is an int, and its annotation says bool"),
        ({"prices": "nonsense"}, r"prices is a str, and its annotation says list\[float\] | None"),
        ({"line": "nonsense"}, "line is a str, and its annotation says Line | None"),
        ({"day": 7}, "day is an int, and its annotation says date | None"),
        ({"colour": 7}, "colour is an int, and its annotation says Colour"),
        ({"either": 1.5}, "either is a float, and its annotation says int | str"),
    ],
)
def test_a_text_or_a_number_in_the_wrong_place_is_refused_at_both_ends(arguments: dict[str, Any], why: str):
    with pytest.raises(ArgumentsError, match=f"^job 'mail': {why}"):
        of(typed).bind((), arguments)
    with pytest.raises(DecodeError, match=f"does not fit in this release: {why}"):
        of(typed).arguments(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"number": 7, "text": "seven", "share": 0.5, "sure": True, "prices": [1.5], "either": "x", "colour": "red"},
        {"number": True, "share": 7, "day": "2026-01-31", "sloppy": None, "line": None, "prices": None},
        {"anything": 7},
        {"anything": "seven"},
    ],
)
def test_what_python_takes_for_it_is_taken(arguments: dict[str, Any]):
    of(typed).bind((), arguments)
    of(typed).arguments(arguments)


def test_a_whole_number_written_with_a_point_is_a_whole_number_to_some_languages():
    assert of(typed).arguments({"number": 7.0}) == {"number": 7.0}


def test_an_unknown_name_is_told_beside_a_missing_one():
    with pytest.raises(
        ArgumentsError, match=r"missing a required argument: 'order_id', and it knows no order; it takes"
    ):
        of(body).bind((), {"order": 7})
