"""Shapes: how a value travels as plain data and comes back, by the annotation of its parameter.

A shape turns a dataclass, enum, NamedTuple, TypedDict or pydantic model into plain data and back. It leaves alone
what is plain already, so that most arguments cost nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from redisjobs.base.plain import DEEPEST, Refusal, Tagged, is_dict, key_part, kind_of


class Shape:
    """A value that is plain as it is: nothing to do in either direction.

    Attributes:
        writes: `write` changes something.
        reads: `read` changes something.
        kinds: the types that the plain data may have; empty: any.
    """

    writes = False
    reads = False
    kinds: frozenset[type] = frozenset()

    def write(self, value: Any, depth: int = 0) -> Any:
        """The plain data of a value; raises Refusal where the value is not what the annotation says."""
        return value

    def read(self, data: Any) -> Any:
        """The value of plain data, ours or that of a producer in another language."""
        return data

    def claims(self, value: Any) -> bool:
        """Whether a union gives this value to this member."""
        return not self.kinds or type(value) in self.kinds


ANY = Shape()


class Plain(Shape):
    """Data of certain types, which JSON has."""

    def __init__(self, *kinds: type) -> None:
        self.kinds = frozenset(kinds)


class Leaf(Plain):
    """A type that msgpack carries as it is, and JSON of other languages as something simpler."""

    reads = True

    def __init__(self, kind: type, sources: Mapping[type, Callable[[Any], Any]]) -> None:
        super().__init__(kind)
        self._sources = sources

    @property
    def sources(self) -> frozenset[type]:
        """What else it may come as."""
        return frozenset(self._sources)

    def read(self, data: object) -> Any:
        parse = self._sources.get(type(data))
        return data if parse is None else parse(data)


SCALARS: frozenset[type] = frozenset({str, int, float, bool, type(None)})
"""What JSON has besides objects and arrays."""


def scalars_of(shape: Shape) -> frozenset[type] | None:
    """Which of the scalars a value of this shape may be, or come as; None: nothing is known of that."""
    if isinstance(shape, Union):
        of_members = [scalars_of(member.shape) for member in shape.members]
        known = [each for each in of_members if each is not None]
        return frozenset[type]().union(*known) if len(known) == len(of_members) else None
    if not shape.kinds:
        return None
    kinds = set[type](shape.kinds)
    if isinstance(shape, Leaf):
        kinds |= shape.sources
    if int in kinds:
        kinds.add(bool)
    return frozenset(kinds & SCALARS)


class Unresolved(Shape):
    """An annotation that names what cannot be found: plain data passes, and nothing else."""

    writes = True

    def __init__(self, annotation: str) -> None:
        self._annotation = annotation

    def write(self, value: Any, depth: int = 0) -> Any:
        if type(value) in _OBVIOUS:
            return value
        raise Refusal(
            f"is a {type(value).__qualname__}, and its annotation {self._annotation[:60]!r} cannot be resolved: "
            "import what it names at run time, not only under TYPE_CHECKING"
        )


_OBVIOUS = frozenset({str, int, float, bool, type(None), bytes, list, dict, tuple})


class Items(Plain):
    """A list, tuple or set whose items all have one shape; the container keeps its type."""

    def __init__(self, *kinds: type, item: Shape) -> None:
        super().__init__(*kinds)
        self._item = item
        self._target = kinds[0]
        self.writes = item.writes
        self.reads = item.reads or self._target is not list

    def write(self, value: Any, depth: int = 0) -> Any:
        if type(value) not in self.kinds or not self.writes:
            return value
        return _rebuilt(value, self._write_all(value, deeper(depth)))

    def _write_all(self, values: Any, depth: int) -> list[Any]:
        written: list[Any] = []
        try:
            for value in values:
                written.append(self._item.write(value, depth))  # noqa: PERF401  # its length is the index of a refusal
        except Refusal as refusal:
            raise refusal.inside(f"[{len(written)}]") from None
        return written

    def read(self, data: Any) -> Any:
        kind = kind_of(data)
        if kind not in self.kinds and kind is not list:
            return data
        items = [self._item.read(each) for each in data] if self._item.reads else data
        return _rebuilt(data, items) if kind in self.kinds else self._target(items)


class Fixed(Plain):
    """A tuple with a shape for each place."""

    reads = True

    def __init__(self, places: list[Shape]) -> None:
        super().__init__(tuple)
        self._places = places
        self.writes = any(place.writes for place in places)

    def write(self, value: Any, depth: int = 0) -> Any:
        if not self.writes or not self.claims(value):
            return value
        if len(value) != len(self._places):
            raise Refusal(f"has {len(value)} items, and its annotation {len(self._places)}")
        pairs = enumerate(zip(self._places, value, strict=True))
        return tuple([_write_at(place, each, depth, f"[{index}]") for index, (place, each) in pairs])

    def read(self, data: Any) -> Any:
        if not isinstance(data, (tuple, list)):
            return data
        return tuple([place.read(each) for place, each in zip(self._places, cast(list[Any], data), strict=True)])


class Map(Plain):
    """A dict with one shape for its keys and one for its values."""

    def __init__(self, key: Shape, value: Shape) -> None:
        super().__init__(dict)
        self._key, self._value = key, value
        self.writes = key.writes or value.writes
        self.reads = key.reads or value.reads

    def write(self, value: Any, depth: int = 0) -> Any:
        if not self.writes or not self.claims(value):
            return value
        return {
            self._key.write(key, depth): _write_at(self._value, each, depth, key_part(key))
            for key, each in value.items()
        }

    def read(self, data: Any) -> Any:
        if not is_dict(data):
            return data
        return {self._key.read(key): self._value.read(value) for key, value in data.items()}


@dataclass(slots=True)
class Member:
    """One alternative of a union.

    Args:
        name: tells it from the others in tagged data.
        tagged: its plain data could be another alternative's too.
    """

    name: str
    shape: Shape
    tagged: bool = False


class Union(Shape):
    """One of several shapes. Where plain data alone would not tell which, it travels tagged."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members
        self.writes = any(member.shape.writes for member in members)
        self.reads = any(member.shape.reads for member in members)
        kinds = [member.shape.kinds for member in members]
        self.kinds = frozenset().union(*kinds) if all(kinds) else frozenset()
        for member in members:
            rivals = [other.shape.kinds for other in members if other is not member]
            own = member.shape.kinds
            member.tagged = member.shape.writes and any(not own or not other or own & other for other in rivals)

    def write(self, value: Any, depth: int = 0) -> Any:
        if not self.writes:
            return value
        for member in self.members:
            if member.shape.writes and member.shape.claims(value):
                data = member.shape.write(value, depth)
                return Tagged(member.name, data) if member.tagged else data
        return value

    def claims(self, value: Any) -> bool:
        return any(member.shape.claims(value) for member in self.members)

    def read(self, data: Any) -> Any:
        if type(data) is Tagged:
            return self._read_tagged(data)
        fitting = [member.shape for member in self.members if type(data) in member.shape.kinds]
        others = [member.shape for member in self.members if type(data) not in member.shape.kinds]
        takes_all = any(member.shape is ANY for member in self.members)
        if any(not shape.reads for shape in fitting):
            return data
        failure: Exception | None = None
        for shape in (*fitting, *others):
            try:
                read = shape.read(data)
            except (ValueError, TypeError, ArithmeticError, LookupError) as error:
                failure = failure or error
                continue
            if shape in fitting or read is not data:
                return read
        if fitting and failure and not takes_all:
            raise failure
        return data

    def _read_tagged(self, data: Tagged) -> Any:
        for member in self.members:
            if member.name == data.name:
                return member.shape.read(data.data)
        raise ValueError("no alternative of this name")


class Later(Shape):
    """Stands for a shape that is being made: what a recursive annotation refers to."""

    writes = True
    reads = True

    def __init__(self, find: Callable[[], Shape]) -> None:
        self._find = find

    def write(self, value: Any, depth: int = 0) -> Any:
        return self._find().write(value, deeper(depth))

    def read(self, data: Any) -> Any:
        return self._find().read(data)

    def claims(self, value: Any) -> bool:
        return self._find().claims(value)


def deeper(depth: int) -> int:
    """One level more, unless that is too deep."""
    if depth >= DEEPEST:
        raise Refusal(f"is nested deeper than {DEEPEST} levels, or contains itself: pass flatter data")
    return depth + 1


def _write_at(shape: Shape, value: Any, depth: int, part: str) -> Any:
    try:
        return shape.write(value, deeper(depth))
    except Refusal as refusal:
        raise refusal.inside(part) from None


def _rebuilt(container: Any, items: Any) -> Any:
    return items if type(container) is list else type(container)(items)
