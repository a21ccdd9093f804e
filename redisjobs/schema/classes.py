"""JSON Schemas of classes: dataclasses, NamedTuples, TypedDicts, pydantic models and enums."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from enum import CONFORM, STRICT, Enum, Flag
from typing import Any, ForwardRef, NotRequired, Required, get_origin

from redisjobs.base.annotations import annotations_of, shape_of
from redisjobs.base.plain import Refusal, is_json
from redisjobs.base.records import (
    DataclassRecord,
    DictRecord,
    EnumShape,
    ModelRecord,
    Record,
    RootRecord,
    TupleRecord,
)

Json = dict[str, Any]
Of = Callable[[Any], Json]

_LIMITS = {
    "gt": ("exclusiveMinimum", "number"), "ge": ("minimum", "number"), "lt": ("exclusiveMaximum", "number"),
    "le": ("maximum", "number"), "multiple_of": ("multipleOf", "number"),
}  # fmt: skip
_WORDS: dict[type, str] = {str: "string", int: "integer"}
_SIZES = {"min_length": "min", "max_length": "max"}
_SIZED = {"string": "Length", "array": "Items", "object": "Properties"}


def of_record(shape: Record, of: Of) -> Json:
    """The schema of a class with fields.

    Args:
        of: the schema of a field's annotation.
    """
    match shape:
        case RootRecord():
            return of(shape.annotations()["root"])
        case ModelRecord():
            made = _of_model(shape, of)
        case TupleRecord():
            return _of_tuple(shape, of)
        case DictRecord():
            made = _object(_properties(shape, of), _required_keys(shape.cls))
        case DataclassRecord():
            made = _of_dataclass(shape, of)
        case _:
            return {}
    return described(made, shape.cls)


def of_enum(shape: EnumShape) -> Json:
    """The schema of an enum, by what its members are sent as."""
    cls = shape.cls
    if issubclass(cls, Flag):
        every = 0
        for member in cls.__members__.values():
            every |= member.value
        # Python 3.11.2 conforms unless it is told not to
        bounded = getattr(cls, "_boundary_", None) in (STRICT, CONFORM)
        return described({"type": "integer", "minimum": 0, **({"maximum": every} if bounded else {})}, cls)
    values: list[Any] = [sent(member) for member in cls]
    word = next((word for kind, word in _WORDS.items() if all(type(each) is kind for each in values)), None)
    return described({**({"type": word} if word else {}), "enum": values}, cls)


def sent(member: Enum) -> Any:
    """What a member of an enum is sent as."""
    return shape_of(type(member)).write(member)


def default(annotation: Any, value: Any) -> Json:
    """The word `default`, where the value has a JSON form."""
    try:
        data = shape_of(annotation).write(value)
        return {"default": data} if is_json(data) else {}
    except Refusal:
        return {}


def described(schema: Json, cls: Any) -> Json:
    """The schema with what the class says of itself in its docstring."""
    own: dict[str, object] = dict(cls.__dict__)
    text = inspect.getdoc(cls) if own.get("__doc__") else None
    if not text or text.startswith(f"{cls.__name__}("):  # what dataclasses write themselves
        return schema
    return {"description": text.partition("\n\n")[0], **schema}


def _object(properties: Json, required: list[str], *, closed: bool = False) -> Json:
    made: Json = {"type": "object", "properties": properties}
    if required:
        made["required"] = required
    return {**made, "additionalProperties": False} if closed else made


def _properties(shape: Record, of: Of) -> Json:
    return {name: of(annotation) for name, annotation in shape.annotations().items()}


def _of_dataclass(shape: DataclassRecord, of: Of) -> Json:
    parameters = inspect.signature(shape.cls).parameters
    hints = shape.annotations()
    properties = {
        name: of(annotation) for name, annotation in hints.items() if name in shape.names or name in parameters
    }
    open_ended = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    for name, each in parameters.items():
        if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
            given = {} if each.default is each.empty else default(hints.get(name), each.default)
            properties[name] = {**properties.get(name, {}), **given}
    return _object(properties, _required(parameters), closed=not open_ended)


def _required(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    ordinary = [each for each in parameters.values() if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    return [each.name for each in ordinary if each.default is each.empty]


def _of_tuple(shape: TupleRecord, of: Of) -> Json:
    """A NamedTuple: by name, or as a list of its fields in their order."""
    defaults: dict[str, Any] = getattr(shape.cls, "_field_defaults", {})
    places = {name: of(shape.annotations().get(name)) for name in getattr(shape.cls, "_fields", ())}
    properties = {
        name: {**each, **(default(shape.annotations().get(name), defaults[name]) if name in defaults else {})}
        for name, each in places.items()
    }
    listed: Json = {"type": "array", "prefixItems": list(places.values()), "minItems": len(places) - len(defaults),
                    "maxItems": len(places)}  # fmt: skip
    return {"anyOf": [_object(properties, [name for name in places if name not in defaults], closed=True), listed]}


def _required_keys(cls: Any) -> list[str]:
    """The keys that a TypedDict must have; where annotations are texts, Python itself does not see `NotRequired`."""
    bases: tuple[Any, ...] = cls.__mro__
    written = {name: each for base in reversed(bases) for name, each in annotations_of(base).items()}
    return [name for name, each in written.items() if _says(each, name in cls.__required_keys__)]


def _says(annotation: Any, otherwise: bool) -> bool:  # noqa: FBT001  # what the class says, if the key says nothing
    if isinstance(annotation, (str, ForwardRef)):
        text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        found = re.match(r"(?:\w+\.)?(NotRequired|Required)\[", text)
        return found[1] == "Required" if found else otherwise
    origin: Any = get_origin(annotation)
    return origin is Required or (origin is not NotRequired and otherwise)


def _of_model(shape: ModelRecord, of: Of) -> Json:
    properties: Json = {}
    required: list[str] = []
    choices: list[Json] = []
    for name, field in getattr(shape.cls, "model_fields", {}).items():
        names = [name, *_aliases(field)]
        schema = _with_limits(of(field.annotation), field.metadata)
        if field.is_required():
            required += names if len(names) == 1 else []
            choices += [{"anyOf": [{"required": [each]} for each in names]}] if len(names) > 1 else []
        elif field.default_factory is None:
            schema = {**schema, **default(field.annotation, field.default)}
        about = {"description": field.description} if field.description else {}
        properties |= {each: {**schema, **about} for each in names}
    config: dict[str, Any] = getattr(shape.cls, "model_config", {})
    made = _object(properties, required, closed=config.get("extra") == "forbid")
    return {**made, "allOf": choices} if choices else made


def _aliases(field: Any) -> Iterator[str]:
    """Other names by which a field is taken."""
    found = field.validation_alias or field.alias
    for each in getattr(found, "choices", [found]):
        if isinstance(each, str):
            yield each


def _with_limits(schema: Json, metadata: list[Any]) -> Json:
    """The schema with what pydantic checks of a field, as far as JSON Schema has words for it."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    found = {name: value for each in _flat(metadata) for name, value in _attributes(each).items() if value is not None}
    trims = found.get("strip_whitespace")
    made = dict(schema)
    for name, value in found.items():
        if name in _LIMITS and isinstance(value, (int, float)) and {"integer", "number"} & set(kinds):
            made[_LIMITS[name][0]] = value
        if name in _SIZES and not (trims and name == "max_length"):
            made |= {f"{_SIZES[name]}{_SIZED[kind]}": value for kind in kinds if kind in _SIZED}
        if name == "pattern" and isinstance(value, str) and "string" in kinds and "(?" not in value and not trims:
            made["pattern"] = value
    return made


def _flat(metadata: list[Any]) -> Iterator[Any]:
    """The marks of a field; some are groups of others."""
    for each in metadata:
        yield from list(each) if hasattr(each, "__iter__") and not isinstance(each, (str, bytes, type)) else [each]


def _attributes(mark: Any) -> dict[str, Any]:
    names = [*_LIMITS, *_SIZES, "pattern", "strip_whitespace"]
    return {name: getattr(mark, name) for name in names if hasattr(mark, name)}
