"""Shapes of classes: dataclasses, NamedTuples, TypedDicts and pydantic models, by their fields, and enums."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum, Flag
from functools import cached_property
from typing import Any

from redisjobs.base.plain import Refusal, is_dict, is_list
from redisjobs.base.shapes import Shape, deeper

Find = Callable[[Any], Shape]
"""The shape of an annotation."""


class Record(Shape, ABC):
    """A class with fields: travels as a dict of them, by name.

    The shapes of the fields are looked up at first use, so that a class may refer to itself.

    Attributes:
        annotations: answers the annotation of each field.
        find: the shape of an annotation inside of this class.
    """

    writes = True
    reads = True
    kinds = frozenset({dict})

    def __init__(self, cls: type, annotations: Callable[[], Mapping[str, Any]], find: Find) -> None:
        self.cls = cls
        self.annotations = annotations
        self.find = find

    @cached_property
    def fields(self) -> dict[str, Shape]:
        """The shape of each field."""
        return {name: self.find(annotation) for name, annotation in self.annotations().items()}

    def claims(self, value: Any) -> bool:
        return type(value) is self.cls

    def write(self, value: Any, depth: int = 0) -> Any:
        return self.write_fields(self.values(value), depth) if self.claims(value) else value

    def write_fields(self, values: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """The plain data of these fields; one that is not declared travels if it is plain."""
        depth = deeper(depth)
        written: dict[str, Any] = {}
        name = ""
        try:
            for name, value in values.items():
                shape = self.fields.get(name)
                written[name] = value if shape is None else shape.write(value, depth)
        except Refusal as refusal:
            raise refusal.inside(f".{name}") from None
        return written

    def read(self, data: Any) -> Any:
        return self.build(self.read_fields(data)) if is_dict(data) else data

    def read_fields(self, data: Mapping[Any, Any]) -> dict[str, Any]:
        """The values of these fields."""
        fields = self.fields
        return {name: fields[name].read(value) if name in fields else value for name, value in data.items()}

    @abstractmethod
    def values(self, value: Any) -> Mapping[str, Any]:
        """The fields of a value."""

    def build(self, values: dict[str, Any]) -> Any:
        """The value with these fields; raises TypeError or ValueError for fields that do not fit."""
        return self.cls(**values)


class DataclassRecord(Record):
    """A dataclass: built by its constructor, and then each field is what was sent, also past `__post_init__`.

    Attributes:
        names: of its fields.
    """

    def __init__(self, cls: type, annotations: Callable[[], Mapping[str, Any]], find: Find) -> None:
        super().__init__(cls, annotations, find)
        declared = dataclasses.fields(cls)
        self.names = [field.name for field in declared]
        self._arguments = frozenset(field.name for field in declared if field.init)
        self._afterwards = hasattr(cls, "__post_init__") or len(self._arguments) < len(self.names)
        self._wants_more = any(
            getattr(kind, "_field_type", None) is _INIT_VAR and kind.default is dataclasses.MISSING
            for kind in getattr(cls, "__dataclass_fields__", {}).values()
        )

    def values(self, value: Any) -> Mapping[str, Any]:
        if self._wants_more:
            raise Refusal(
                "has an InitVar without a default, which is gone by now: give it a default, or pass plain data"
            )
        return {name: getattr(value, name) for name in self.names}

    def build(self, values: dict[str, Any]) -> Any:
        if not self._afterwards:
            return self.cls(**values)
        late = {name: values[name] for name in values.keys() - self._arguments if name in self.names}
        built = self.cls(**{name: value for name, value in values.items() if name not in late})
        for name in self.names:
            if name in values and getattr(built, name, None) is not values[name]:
                object.__setattr__(built, name, values[name])
        return built


_INIT_VAR = getattr(dataclasses, "_FIELD_INITVAR", None)


class TupleRecord(Record):
    """A NamedTuple; another language may send its fields as a list too."""

    kinds = frozenset({dict, list})

    def values(self, value: Any) -> Mapping[str, Any]:
        return dict(zip(value._fields, value, strict=True))

    def read(self, data: Any) -> Any:
        return super().read(dict(zip(self.fields, data, strict=False)) if is_list(data) else data)


class DictRecord(Record):
    """A TypedDict: a dict all the way, with shapes for what its keys hold."""

    def claims(self, value: Any) -> bool:
        return type(value) is dict

    def values(self, value: Any) -> Mapping[str, Any]:
        return value  # type: ignore[no-any-return]  # `claims` has seen that it is a dict

    def build(self, values: dict[str, Any]) -> Any:
        return values


class ModelRecord(Record):
    """A pydantic model: validated again where it comes back, by its field names or their aliases."""

    def values(self, value: Any) -> Mapping[str, Any]:
        return {**{name: getattr(value, name) for name in self.fields}, **(value.model_extra or {})}

    def build(self, values: dict[str, Any]) -> Any:
        return self.cls.model_validate(values, by_alias=True, by_name=True)  # type: ignore[attr-defined]


class RootRecord(ModelRecord):
    """A pydantic RootModel: travels as its root."""

    @cached_property
    def _root(self) -> Shape:
        return self.fields["root"]

    def write(self, value: Any, depth: int = 0) -> Any:
        return self._root.write(value.root, deeper(depth)) if self.claims(value) else value

    def read(self, data: Any) -> Any:
        return self.cls.model_validate(self._root.read(data))  # type: ignore[attr-defined]


class EnumShape(Shape):
    """An enum: travels by its value, where all values are texts or ints, else by its name."""

    writes = True
    reads = True

    def __init__(self, cls: type[Enum]) -> None:
        self.cls = cls
        kinds: set[type] = {type(member.value) for member in cls.__members__.values()} or {int}
        self.by_value = kinds <= {str, int}
        self.kinds = frozenset(kinds) if self.by_value else frozenset({str})

    def claims(self, value: Any) -> bool:
        return isinstance(value, self.cls)

    def write(self, value: Any, depth: int = 0) -> Any:
        if not isinstance(value, self.cls):
            return value
        return value.value if self.by_value else value.name

    def read(self, data: Any) -> Any:
        if type(data) not in self.kinds:
            return data
        if not self.by_value:
            return self.cls[data]
        member = self.cls(data)
        if isinstance(member, Flag) and member.value != data >= 0:  # Python 3.11.2 drops bits that no member has
            raise ValueError(f"{data} is not a valid {self.cls.__name__}")
        return member


class ModelField(Shape):
    """A type that only pydantic knows, such as a URL: goes through its JSON form.

    Tried at the call: what would come back as something else is refused there.
    """

    writes = True
    reads = True

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation

    @cached_property
    def adapter(self) -> Any:
        """What pydantic makes of the annotation."""
        from pydantic import TypeAdapter  # noqa: PLC0415  # an extra; who gets here has it

        return TypeAdapter(self._annotation)

    def claims(self, value: Any) -> bool:
        return not isinstance(self._annotation, type) or isinstance(value, self._annotation)

    def write(self, value: Any, depth: int = 0) -> Any:
        if value is None:
            return None
        try:
            data = self.adapter.dump_python(value, mode="json")
            back = self.adapter.validate_python(data)
            exact = type(back) is type(value) and back == value
        except Exception:  # noqa: BLE001  # whatever a type of somebody else's makes pydantic raise
            exact, data = False, None
        if not exact:
            raise Refusal(
                f"is a {type(value).__qualname__}, which pydantic's JSON form does not bring back: pass plain data"
            )
        return data

    def read(self, data: Any) -> Any:
        return None if data is None else self.adapter.validate_python(data)
