"""From an annotation to its shape."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import sys
import types
import typing
from base64 import b64decode
from collections import abc
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Annotated, Any, ForwardRef, Literal, NewType, TypeVar, get_args, get_origin, is_typeddict
from uuid import UUID

from redisjobs.base.records import (
    DataclassRecord,
    DictRecord,
    EnumShape,
    ModelField,
    ModelRecord,
    Record,
    RootRecord,
    TupleRecord,
)
from redisjobs.base.shapes import ANY, Fixed, Items, Later, Leaf, Map, Member, Plain, Shape, Union, Unresolved

_PLAIN: dict[Any, Shape] = {kind: Plain(kind) for kind in (str, int, bool, type(None), list, dict)}
_LEAVES: dict[Any, Shape] = {
    **_PLAIN,
    None: Plain(type(None)),
    float: Plain(float, int),
    bytes: Leaf(bytes, {str: partial(b64decode, validate=True)}),
    datetime: Leaf(datetime, {str: datetime.fromisoformat}),
    date: Leaf(date, {str: date.fromisoformat}),
    time: Leaf(time, {str: time.fromisoformat}),
    timedelta: Leaf(timedelta, {int: lambda s: timedelta(seconds=s), float: lambda s: timedelta(seconds=s)}),
    Decimal: Leaf(Decimal, {str: Decimal, int: Decimal}),
    UUID: Leaf(UUID, {str: UUID}),
    tuple: Items(tuple, item=ANY),
    set: Items(set, item=ANY),
    frozenset: Items(frozenset, item=ANY),
    Any: ANY,
    object: ANY,
}
_ITEMS: dict[Any, tuple[type, ...]] = {
    list: (list,),
    set: (set,),
    frozenset: (frozenset,),
    abc.Sequence: (list, tuple),
    abc.Iterable: (list, tuple, set, frozenset),
    abc.Collection: (list, tuple, set, frozenset),
    abc.Set: (set, frozenset),
    abc.MutableSequence: (list,),
    abc.MutableSet: (set,),
}
_MAPS = frozenset({dict, abc.Mapping, abc.MutableMapping})


class Shapes:
    """The shapes of annotations, each class's made once.

    Args:
        foreign: a type of which nothing is known goes through pydantic: inside its models.
    """

    def __init__(self, *, foreign: bool = False) -> None:
        self._foreign = foreign
        self._records: dict[Any, Shape] = {}
        self._aliases: dict[Any, Shape | None] = {}

    def of(self, annotation: Any) -> Shape:
        """The shape of an annotation; of one that says nothing, the shape that passes plain data."""
        if isinstance(annotation, (str, ForwardRef)):
            return Unresolved(annotation if isinstance(annotation, str) else annotation.__forward_arg__)
        leaf = _leaf(annotation)
        if leaf is not None:
            return leaf
        if isinstance(annotation, (NewType, TypeVar)) or hasattr(annotation, "__value__"):
            return self._of_named(annotation)
        origin = get_origin(annotation)
        if origin is not None:
            return self._of_generic(annotation, origin, get_args(annotation))
        return self._of_class(annotation) if isinstance(annotation, type) else ANY

    def _of_named(self, annotation: Any) -> Shape:
        if isinstance(annotation, NewType):
            return self.of(annotation.__supertype__)
        if isinstance(annotation, TypeVar):
            return self.of(annotation.__bound__) if annotation.__bound__ else ANY
        if annotation not in self._aliases:
            self._aliases[annotation] = None
            self._aliases[annotation] = self.of(annotation.__value__)
        return self._aliases[annotation] or Later(lambda: self.of(annotation))

    def _of_generic(self, annotation: Any, origin: Any, args: tuple[Any, ...]) -> Shape:
        if origin in (Annotated, typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
            return self.of(args[0])
        if origin in (typing.Union, types.UnionType):
            return self._of_union([(_name(each), self.of(each)) for each in args])
        if origin is Literal:
            return self._of_union([(_name(kind), self.of(kind)) for kind in dict.fromkeys(map(type, args))])
        if origin is tuple:
            return self._of_tuple(args)
        if origin in _ITEMS:
            return Items(*_ITEMS[origin], item=self.of(args[0]))
        if origin in _MAPS:
            return Map(self.of(args[0]), self.of(args[1]))
        return self._of_class(annotation, origin) if isinstance(origin, type) else ANY

    def _of_union(self, members: list[tuple[str, Shape]]) -> Shape:
        if len(members) == 1:
            return members[0][1]
        return Union([Member(name, shape) for name, shape in members])

    def _of_tuple(self, args: tuple[Any, ...]) -> Shape:
        if len(args) == 2 and args[1] is Ellipsis:
            return Items(tuple, item=self.of(args[0]))
        return Fixed([self.of(each) for each in args if each != ()])

    def _of_class(self, annotation: Any, origin: type | None = None) -> Shape:
        if annotation not in self._records:
            self._records[annotation] = self._make(annotation, origin or annotation)
        return self._records[annotation]

    def _make(self, annotation: Any, cls: Any) -> Shape:
        kinds: tuple[Any, ...] = cls.__mro__
        if is_typeddict(cls):
            return self._record(DictRecord, annotation, cls)
        if Enum in kinds:
            return EnumShape(cls)
        if hasattr(cls, "model_fields") and hasattr(cls, "model_validate"):
            return self._model(cls)
        if dataclasses.is_dataclass(cls):
            return self._record(DataclassRecord, annotation, cls)
        if tuple in kinds and hasattr(cls, "_fields"):
            return self._record(TupleRecord, annotation, cls)
        if hasattr(cls, "__get_pydantic_core_schema__") or (self._foreign and cls not in _ITEMS and cls not in _MAPS):
            return ModelField(annotation)
        return ANY

    def _record(self, kind: type[Record], annotation: Any, cls: Any) -> Shape:
        return kind(cls, lambda: _fields(cls, get_args(annotation)), self.of)

    def _model(self, cls: Any) -> Shape:
        inside = self if self._foreign else _IN_MODELS
        kind = RootRecord if getattr(cls, "__pydantic_root_model__", False) else ModelRecord
        return kind(cls, lambda: {name: field.annotation for name, field in cls.model_fields.items()}, inside.of)


_IN_MODELS = Shapes(foreign=True)
_SHAPES = Shapes()


def shape_of(annotation: Any) -> Shape:
    """The shape of a resolved annotation."""
    return _SHAPES.of(annotation)


def _leaf(annotation: Any) -> Shape | None:
    try:
        return _LEAVES.get(annotation)
    except TypeError:  # some annotations carry what cannot be hashed
        return None


def resolve(annotations: abc.Mapping[str, Any], names: dict[str, Any], local: dict[str, Any]) -> dict[str, Any]:
    """The annotations with what their texts name; one that names what cannot be found stays a text."""
    try:
        return _resolve(annotations, names, local)
    except (NameError, TypeError, AttributeError, SyntaxError):
        resolved = dict(annotations)
        for name, annotation in annotations.items():
            with contextlib.suppress(NameError, TypeError, AttributeError, SyntaxError):
                resolved.update(_resolve({name: annotation}, names, local))
        return resolved


def _resolve(annotations: abc.Mapping[str, Any], names: dict[str, Any], local: dict[str, Any]) -> dict[str, Any]:
    def probe() -> None:
        """Bears the annotations: `get_type_hints` wants them on a thing."""

    probe.__annotations__ = dict(annotations)
    return typing.get_type_hints(probe, names, local)


def _fields(cls: type, args: tuple[Any, ...]) -> dict[str, Any]:
    """The annotations of a class's fields, its type parameters filled in."""
    hints: dict[str, Any] = {}
    for each in reversed(cls.__mro__):
        names = vars(sys.modules.get(each.__module__, types.ModuleType("gone")))
        hints |= resolve(annotations_of(each), names, {each.__name__: each, cls.__name__: cls})
    given = dict(zip(getattr(cls, "__parameters__", ()), args, strict=False))
    return {name: _filled(hint, given) for name, hint in hints.items()} if given else hints


def annotations_of(thing: Any) -> dict[str, Any]:
    """The annotations as they were written, also those that name what is not there yet."""
    if sys.version_info >= (3, 14):
        import annotationlib  # noqa: PLC0415  # new in 3.14

        return annotationlib.get_annotations(thing, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(thing)


def _filled(hint: Any, given: dict[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return given.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(each, each) for each in parameters)] if parameters else hint


def _name(annotation: Any) -> str:
    return getattr(annotation, "__qualname__", None) or str(annotation)
