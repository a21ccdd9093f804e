"""From an annotation to the JSON Schema of what a producer sends for it.

It follows `base.annotations`, by whose shapes values are read: what a schema allows, a worker can read. It is narrower
than they are where these let pass what they do not look at: an `int` is a number here, and a worker passes a text on.
"""

from __future__ import annotations

import inspect
import types
import typing
from base64 import b64encode
from collections import abc
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NewType, TypeAlias, TypeVar, get_args, get_origin
from urllib.parse import quote
from uuid import UUID

from redisjobs.base.annotations import shape_of
from redisjobs.base.records import EnumShape, Find, ModelField, Record
from redisjobs.schema import classes

Json: TypeAlias = dict[str, Any]

_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_DECIMAL = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_TIME = r"^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?$"
_LONGEST_S = 86_399_999_913_600
_LEAVES: dict[Any, Json] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    float: {"type": "number"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    bytes: {"type": "string", "contentEncoding": "base64", "pattern": _BASE64},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array"},
    frozenset: {"type": "array"},
    dict: {"type": "object"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "pattern": _TIME},
    timedelta: {"type": "number", "minimum": -_LONGEST_S, "maximum": _LONGEST_S, "description": "seconds"},
    Decimal: {"type": ["string", "integer"], "pattern": _DECIMAL},
    UUID: {"type": "string", "format": "uuid"},
}
_ITEMS = frozenset({list, set, frozenset, abc.Sequence, abc.Iterable, abc.Collection, abc.Set, abc.MutableSequence,
                    abc.MutableSet})  # fmt: skip
_MAPS = frozenset({dict, abc.Mapping, abc.MutableMapping})
_WRAPPERS = (Annotated, typing.Required, typing.NotRequired, typing.Final, typing.ClassVar)


def reference(name: str) -> Json:
    """Points to a definition of the same document."""
    return {"$ref": f"#/$defs/{quote(name.replace('~', '~0').replace('/', '~1'), safe='~')}"}


class Forms:
    """The schemas of annotations in one document; each class stands once in `defs`.

    Args:
        taken: names of definitions that belong to others.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.defs: dict[str, Json] = {}
        self._taken = set(taken)
        self._names: dict[Any, str] = {}

    def of(self, annotation: Any, find: Find = shape_of) -> Json:
        """The schema of an annotation; of one that says nothing, the schema that allows anything.

        Args:
            find: how shapes are found where it stands, for inside of a pydantic model more types are known.
        """
        leaf = _leaf(annotation)
        if leaf is not None:
            return dict(leaf)
        if isinstance(annotation, NewType):
            return self.of(annotation.__supertype__, find)
        if isinstance(annotation, TypeVar):
            return self.of(annotation.__bound__, find) if annotation.__bound__ else {}
        if hasattr(annotation, "__value__"):
            return self._defined(annotation, lambda: self.of(annotation.__value__, find))
        origin = get_origin(annotation)
        generic = None if origin is None else self._of_generic(annotation, origin, find)
        return self._of_class(annotation, find) if generic is None else generic

    def _of_generic(self, annotation: Any, origin: Any, find: Find) -> Json | None:
        args = get_args(annotation)
        if origin in _WRAPPERS:
            return self.of(args[0], find)
        if origin in (typing.Union, types.UnionType):
            return any_of([self.of(each, find) for each in args])
        if origin is Literal:
            return values([literal(each) for each in args])
        if origin is tuple:
            return self._of_tuple(args, find)
        if origin in _ITEMS:
            return {"type": "array", "items": self.of(args[0], find)}
        if origin in _MAPS:
            return self._of_map(args[0], args[1], find)
        return None

    def _of_tuple(self, args: tuple[Any, ...], find: Find) -> Json:
        if len(args) == 2 and args[1] is Ellipsis:
            return {"type": "array", "items": self.of(args[0], find)}
        places = [self.of(each, find) for each in args if each != ()]
        size: Json = {"prefixItems": places, "minItems": len(places)} if places else {}
        return {"type": "array", **size, "maxItems": len(places)}

    def _of_map(self, key: Any, value: Any, find: Find) -> Json:
        made: Json = {"type": "object", "additionalProperties": self.of(value, find)}
        names = self.of(key, find)
        if key is not str and _is_text(self.defs.get(_defined_name(names), names)):
            made["propertyNames"] = names
        return made

    def _of_class(self, annotation: Any, find: Find) -> Json:
        shape = find(annotation)
        if isinstance(shape, EnumShape):
            return self._defined(annotation, lambda: classes.of_enum(shape))
        if isinstance(shape, Record):
            return self._defined(annotation, lambda: classes.of_record(shape, lambda each: self.of(each, shape.find)))
        return self._of_foreign(shape) if isinstance(shape, ModelField) else {}

    def _of_foreign(self, shape: ModelField) -> Json:
        made: Json = shape.adapter.json_schema(ref_template="#/$defs/{model}")
        for name, each in made.pop("$defs", {}).items():
            self.defs.setdefault(name, each)
        return made

    def _defined(self, annotation: Any, make: Callable[[], Json]) -> Json:
        if annotation not in self._names:
            self._names[annotation] = name = self._free_name(annotation)
            self.defs[name] = {}  # it may refer to itself
            self.defs[name] = make()
        return reference(self._names[annotation])

    def _free_name(self, annotation: Any) -> str:
        cls = get_origin(annotation) or annotation
        own = "_".join([cls.__name__, *(getattr(each, "__name__", str(each)) for each in get_args(annotation))])
        for name in (own, f"{getattr(cls, '__module__', '')}.{own}"):
            if name not in self.defs and name not in self._taken:
                return name
        return next(f"{own}_{n}" for n in range(2, 10_000) if f"{own}_{n}" not in self.defs)


def any_of(alternatives: list[Json]) -> Json:
    """One of these: types alone as a list of types, everything else as alternatives."""
    flat = [part for each in alternatives for part in (each["anyOf"] if set(each) == {"anyOf"} else [each])]
    unique = [each for at, each in enumerate(flat) if each not in flat[:at]]
    if {} in unique:
        return {}
    if all(set(each) == {"type"} and isinstance(each["type"], str) for each in unique) and len(unique) > 1:
        return {"type": [each["type"] for each in unique]}
    return unique[0] if len(unique) == 1 else {"anyOf": unique}


def values(allowed: list[Any]) -> Json:
    """One of these values."""
    return {"const": allowed[0]} if len(allowed) == 1 else {"enum": allowed}


def literal(value: Any) -> Any:
    """How a value of a Literal is sent."""
    if isinstance(value, Enum):
        return classes.sent(value)
    return b64encode(value).decode() if isinstance(value, bytes) else value


def _leaf(annotation: Any) -> Json | None:
    if isinstance(annotation, (str, typing.ForwardRef)) or annotation in (inspect.Parameter.empty, Any, object):
        return {}
    try:
        return _LEAVES.get(annotation)
    except TypeError:  # some annotations carry what cannot be hashed
        return None


def _defined_name(schema: Json) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _is_text(schema: Json) -> bool:
    """Whether it says which texts there are: the names in an object are always texts."""
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return schema.get("type") == "string" or (bool(allowed) and all(isinstance(each, str) for each in allowed))
