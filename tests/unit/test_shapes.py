"""Classes come back through the annotations of their parameters, wherever in it they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import pydantic
import pytest

from redisjobs.base.annotations import shape_of
from redisjobs.base.codec import Codecs
from redisjobs.base.plain import Refusal
from redisjobs.errors import EncodeError

T = TypeVar("T")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    YES = "yes"


class Right(Flag):
    READ = 1
    WRITE = 2


class Odd(Enum):
    PAIR = (1, 2)
    HALF = 0.5


@dataclass
class Line:
    sku: str
    price: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    id: UUID
    lines: list[Line] = field(default_factory=list)
    color: Color | None = None
    parent: Order | None = None
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Circle:
    size: float


@dataclass
class Square:
    size: float


@dataclass
class Big(Circle):
    label: str = ""


@dataclass
class Doubling:
    """Its constructor changes what it is given, and works out a field."""

    size: int
    area: int = field(init=False)
    scale: InitVar[int] = 2

    def __post_init__(self, scale: int) -> None:
        self.size *= scale
        self.area = self.size**2


@dataclass
class Demanding:
    size: InitVar[int]


class Point(NamedTuple):
    x: int
    at: datetime | None = None


class Address(TypedDict):
    street: str
    since: NotRequired[date]
    owner: NotRequired[Line]


@dataclass
class Box(Generic[T]):
    content: T
    more: list[T] = field(default_factory=list)


class Customer(pydantic.BaseModel):
    name: str = pydantic.Field(alias="fullName")
    lines: list[Line] = []
    color: Color = Color.RED
    born: datetime | None = None
    home: pydantic.HttpUrl | None = None
    model_config = pydantic.ConfigDict(populate_by_name=True, extra="allow")


class Tree(pydantic.BaseModel):
    children: list[Tree] = []


class Names(pydantic.RootModel[list[str]]):
    pass


class Hidden(pydantic.BaseModel):
    word: pydantic.SecretStr


class Event(pydantic.BaseModel):
    at: datetime
    kind: Literal["a", "b"]


ORDER_ID = NewType("ORDER_ID", int)
LINE = Line("a", Decimal("1.10"))
ORDER = Order(
    id=UUID(int=1), lines=[LINE, LINE], color=Color.BLUE, parent=Order(id=UUID(int=2)), notes={"a": (1, None)}
)
AT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


def there_and_back(annotation: Any, value: Any) -> Any:
    shape = shape_of(annotation)
    return shape.read(Codecs().decode(*Codecs().encode(shape.write(value))))


CASES: list[tuple[Any, list[Any]]] = [
    (Order, [ORDER]),
    (list[Order], [[ORDER, ORDER], []]),
    (dict[str, Order], [{"a": ORDER}]),
    (Order | None, [ORDER, None]),
    (Optional[Order], [ORDER, None]),  # noqa: UP045  # as it is written in older code
    (Union[Order, int, str], [ORDER, 1, "x"]),  # noqa: UP007  # likewise
    (Order | dict[str, Any], [ORDER, {"id": "x"}, {}]),
    (Circle | Square, [Circle(1.0), Square(1.0), Square(1)]),
    (list[Circle | Square | None], [[Circle(1.0), None, Square(2.0)]]),
    (Circle | Big, [Circle(1.0), Big(1.0, "x")]),
    (dict[Color, list[Line]], [{Color.RED: [LINE]}]),
    (dict[int, Line], [{1: LINE}]),
    (tuple[Line, int], [(LINE, 1)]),
    (tuple[Line, ...], [(LINE, LINE), ()]),
    (tuple[()], [()]),
    (set[Color], [{Color.RED, Color.BLUE}]),
    (frozenset[Color], [frozenset({Color.RED})]),
    (Sequence[Line], [[LINE], (LINE,)]),
    (Iterable[Color], [[Color.RED], {Color.RED}]),
    (Mapping[str, Line], [{"a": LINE}]),
    (Color, [Color.RED]),
    (Color | str, [Color.RED, "red"]),
    (Color | Word, [Color.RED, Word.YES]),
    (Level, [Level.LOW]),
    (Level | int, [Level.LOW, 1]),
    (Word, [Word.YES]),
    (Right, [Right.READ | Right.WRITE, Right(0)]),
    (Odd, [Odd.PAIR, Odd.HALF]),
    (Literal["a", 1], ["a", 1]),
    (Literal[Color.RED, "x"], [Color.RED, "x"]),
    (Point, [Point(1), Point(2, AT)]),
    (Point | tuple[int, int], [Point(1), (1, 2)]),
    (Address, [{"street": "x"}, {"street": "x", "since": date(2026, 1, 1), "owner": LINE}]),
    (Annotated[Order, "some", ["unhashable"]], [ORDER]),
    (ORDER_ID, [5]),
    (Box[Line], [Box(LINE, [LINE])]),
    (Box[int], [Box(1)]),
    (Doubling, [Doubling(3)]),
    (Big, [Big(2.0, "x")]),
    (Customer, [Customer.model_validate({"name": "x", "lines": [LINE], "born": AT, "extra_one": 1})]),
    (list[Customer] | None, [[Customer(fullName="x", home=pydantic.HttpUrl("https://example.org/a"))], None]),
    (Tree, [Tree(children=[Tree(), Tree(children=[Tree()])])]),
    (Names, [Names(["a", "b"])]),
    (pydantic.HttpUrl, [pydantic.HttpUrl("https://example.org/")]),
    (Event | Customer, [Event(at=AT, kind="a"), Customer(fullName="x")]),
    (Any, [1, "x", (1,), {"a": [Decimal(1)]}]),
    (object, [1, (AT, {1})]),
    (float, [1, 1.0, -0.0]),
    (int | float, [1, 1.0, True]),
    (datetime | str, [AT, "2026-01-01"]),
    (bytes | None, [b"x", None]),
    (timedelta | int, [timedelta(1), 5]),
    (T, [1]),
    (list, [[1, (2,)]]),
    (dict, [{"a": (1,)}]),
    (tuple, [(1, [2])]),
]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        pytest.param(annotation, value, id=f"{annotation} {n}")
        for annotation, values in CASES
        for n, value in enumerate(values)
    ],
)
def test_what_its_annotation_describes_comes_back(annotation, value):
    back = there_and_back(annotation, value)

    assert back == value
    assert repr(back) == repr(value) or isinstance(value, (set, frozenset))
    assert type(back) is type(value)


def test_each_field_is_what_was_sent_also_past_the_constructor():
    value = Doubling(3)
    value.area = 7

    assert there_and_back(Doubling, value) == value


@pytest.mark.parametrize(
    ("annotation", "data", "value"),
    [
        (datetime, "2026-01-02T03:04:05.000006+00:00", AT),
        (datetime, "2026-01-02T03:04:05.000006Z", AT),
        (date | None, "2026-01-02", date(2026, 1, 2)),
        (time, "01:02:03", time(1, 2, 3)),
        (timedelta, 90, timedelta(seconds=90)),
        (timedelta, 0.5, timedelta(seconds=0.5)),
        (Decimal, "1.10", Decimal("1.10")),
        (Decimal, 5, Decimal(5)),
        (UUID, "00000000-0000-0000-0000-000000000001", UUID(int=1)),
        (tuple[int, str], [1, "x"], (1, "x")),
        (tuple[Color, ...], ["red"], (Color.RED,)),
        (set[int], [1, 1], {1}),
        (
            Order,
            {"id": str(UUID(int=1)), "lines": [{"sku": "a", "price": "1.10"}]},
            Order(id=UUID(int=1), lines=[LINE]),
        ),
        (Circle | Point, {"size": 1.5}, Circle(1.5)),
        (Circle | Point, {"x": 1}, Point(1)),
        (Point, [1, "2026-01-02T03:04:05.000006Z"], Point(1, AT)),
        (Customer, {"fullName": "x", "color": "blue"}, Customer(fullName="x", color=Color.BLUE)),
        (
            Customer,
            {"name": "x", "home": "https://a.org"},
            Customer(fullName="x", home=pydantic.HttpUrl("https://a.org")),
        ),
        (Event | Customer, {"at": "2026-01-02T03:04:05.000006Z", "kind": "b"}, Event(at=AT, kind="b")),
        (Color | int, "red", Color.RED),
        (str, "2026-01-02", "2026-01-02"),
        (Any, {"a": "2026-01-02"}, {"a": "2026-01-02"}),
    ],
)
def test_json_of_another_language_becomes_what_the_annotation_says(annotation, data, value):
    back = shape_of(annotation).read(data)

    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "annotation", [int, str, list[int], dict[str, list[float]], Any, object, int | None, list[dict[str, Any]]]
)
def test_plain_arguments_cost_nothing(annotation):
    shape = shape_of(annotation)

    assert not shape.writes
    assert not shape.reads


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (Order, Order(id=UUID(int=1), lines=[LINE, LINE, Line("x", Decimal("NaN"))]), "order.lines[2].price"),
        (Any, ORDER, "order"),
        (list[Any], [ORDER], "order[0]"),
        (Order, Order(id=UUID(int=1), notes={"a": LINE}), "order.notes.a"),
        (Circle, Big(1.0), "order"),
        (Order, Line("x", Decimal(1)), "order"),
        (dict[str, list[Line]], {"a b": [LINE, object()]}, "order['a b'][1]"),
        (Demanding, Demanding(1), "order"),
        (Hidden, Hidden(word=pydantic.SecretStr("x")), "order.word"),
        (tuple[Line, int], (LINE,), "order"),
        (Customer, Customer.model_validate({"name": "x", "extra_one": LINE}), "order.extra_one"),
        (Box, Box(LINE), "order.content"),
    ],
)
def test_what_has_no_annotation_to_come_back_through_is_refused_with_its_place(annotation, value, path: str):
    shape = shape_of(annotation)

    with pytest.raises(EncodeError) as refused:
        Codecs().encode({"order": written(shape, value)})

    assert refused.value.path == path


def written(shape: Any, value: Any) -> Any:
    try:
        return shape.write(value)
    except Refusal as refusal:
        raise refusal.as_error("order") from None


def test_a_cycle_of_objects_is_refused():
    tree = Tree()
    tree.children.append(tree)

    with pytest.raises(EncodeError, match="contains itself"):
        written(shape_of(Tree), tree)


def test_a_class_from_a_later_release_keeps_what_it_knows():
    assert shape_of(Order).read({"id": UUID(int=1)}) == Order(id=UUID(int=1))
    with pytest.raises(TypeError):
        shape_of(Order).read({"id": UUID(int=1), "newer": 1})


class Alias:
    """What `type Nested = tuple[Line, list[Nested]]` makes in Python 3.12: looked up when it is asked for."""

    @property
    def __value__(self) -> Any:
        return tuple[Line, list[self]]  # type: ignore[valid-type]  # at run time it is one


def test_an_alias_may_refer_to_itself():
    value: Any = (LINE, [(LINE, []), (LINE, [(LINE, [])])])

    assert there_and_back(Alias(), value) == value
