"""Whether one schema allows all that another one does, and where not.

For the schemas that `forms` writes, not for any that there may be: a keyword that it does not know counts as a
difference where the two do not have it alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

Schema: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["required", "unknown", "type", "values", "limit"]

_ABOUT = frozenset({"default", "description", "title", "examples"})
_SIZES = ("Length", "Items", "Properties")
_OTHER = ("format", "pattern", "contentEncoding", "multipleOf")
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "null": (type(None),),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """What the narrow schema allows at a place, and the wide one does not.

    Args:
        path: such as `order.lines[].price`; empty: the whole.
        kind: what of it is in the way: a name that is required, a name that is unknown, a type, values or a limit.
        narrow: what the narrow schema says there; for names, the name.
        wide: what the wide one says.
    """

    path: str
    kind: Kind
    narrow: Any
    wide: Any


class Comparison:
    """Compares schemas of two documents."""

    def __init__(self, wide: Schema, narrow: Schema) -> None:
        self._wide, self._narrow = wide, narrow
        self._open: set[tuple[str, str]] = set()

    def differences(self, wide: Schema, narrow: Schema, path: str = "") -> list[Difference]:
        """Where `wide` does not allow what `narrow` allows; empty: it allows all of it."""
        pair = (json.dumps(wide, sort_keys=True), json.dumps(narrow, sort_keys=True))
        if pair in self._open:  # a class that refers to itself: this very question is being answered
            return []
        self._open.add(pair)
        try:
            targets = list(_branches(wide, self._wide))
            found = [
                each for branch in _branches(narrow, self._narrow) for each in self._nearest(targets, branch, path)
            ]
        finally:
            self._open.discard(pair)
        return [each for at, each in enumerate(found) if each not in found[:at]]

    def _nearest(self, targets: list[Schema], branch: Schema, path: str) -> list[Difference]:
        """The differences from the alternative that is nearest."""
        found = [self._between(target, branch, path) for target in targets]
        if [] in found:
            return []
        alike = [each for each in found if all(one.path != path or one.kind != "type" for one in each)]
        if not alike:
            kind: Kind = "values" if "const" in branch and all("const" in each for each in targets) else "type"
            return [Difference(path, kind, named([branch]), named(targets))]
        return min(alike, key=len)

    def _between(self, wide: Schema, narrow: Schema, path: str) -> list[Difference]:
        if not wide:
            return []
        if "const" in narrow:
            return [] if _admits(wide, narrow["const"]) else [Difference(path, "type", named([narrow]), named([wide]))]
        if "const" in wide or not _fits(narrow.get("type"), wide.get("type")):
            return [Difference(path, "type", named([narrow]), named([wide]))]
        found = [Difference(path, "limit", *each) for each in _limits(wide, narrow)]
        if wide.get("type") == "object":
            found += self._objects(wide, narrow, path)
        if wide.get("type") == "array":
            found += self._arrays(wide, narrow, path)
        return found

    def _objects(self, wide: Schema, narrow: Schema, path: str) -> Iterator[Difference]:
        given = _demands(narrow)
        for names in _demands(wide):
            if not any(each <= names for each in given):
                yield Difference(_at(path, min(names)), "required", min(names), None)
        ours: Schema = narrow.get("properties", {})
        theirs: Schema = wide.get("properties", {})
        others: Schema | bool = wide.get("additionalProperties", True)
        rest: Schema | bool = narrow.get("additionalProperties", True)
        for name, schema in ours.items():
            if name in theirs:
                yield from self.differences(theirs[name], schema, _at(path, name))
            elif others is False:
                yield Difference(_at(path, name), "unknown", name, None)
            elif isinstance(others, dict):
                yield from self.differences(others, schema, _at(path, name))
        if rest is not False and others is False:
            yield Difference(path, "unknown", None, None)
        elif rest is not False and isinstance(others, dict):
            yield from self.differences(others, {} if rest is True else rest, f"{path}[*]")
        if "propertyNames" in wide:
            text = narrow.get("propertyNames", {"type": "string"})
            yield from self.differences(wide["propertyNames"], text, f"{path}[names]")

    def _arrays(self, wide: Schema, narrow: Schema, path: str) -> Iterator[Difference]:
        most = narrow.get("maxItems")
        places = max(len(each.get("prefixItems", ())) for each in (wide, narrow))
        for at in range(places):
            if most is None or at < most:
                yield from self.differences(_item(wide, at), _item(narrow, at), f"{path}[{at}]")
        if most is None or most > places:
            yield from self.differences(wide.get("items", {}), narrow.get("items", {}), f"{path}[]")


def named(branches: list[Schema]) -> str:
    """The alternatives as people call them."""
    return " or ".join(dict.fromkeys(_name(each) for each in branches)) or "nothing"


def find(reference: str, document: Schema) -> Schema:
    """The definition that `#/$defs/…` points to; where there is none, one that allows anything."""
    name = unquote(reference.removeprefix("#/$defs/")).replace("~1", "/").replace("~0", "~")
    found: Schema = document.get("$defs", {}).get(name, {})
    return found


def _branches(schema: Schema, document: Schema) -> Iterator[Schema]:
    """The alternatives of a schema, each with one type or one value."""
    schema = {name: value for name, value in schema.items() if name not in _ABOUT}
    if "$ref" in schema:
        reference = schema.pop("$ref")
        yield from _branches({**find(reference, document), **schema}, document)
    elif "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _branches(each, document)
    elif "enum" in schema:
        yield from ({"const": value} for value in schema["enum"])
    elif isinstance(schema.get("type"), list):
        yield from ({**schema, "type": each} for each in schema["type"])
    elif schema.get("type") == "boolean":
        yield from ({"const": value} for value in (True, False))
    elif schema.get("type") == "null":
        yield {"const": None}
    else:
        yield schema


def _name(branch: Schema) -> str:
    if "const" in branch:
        return "a boolean" if isinstance(branch["const"], bool) else json.dumps(branch["const"], ensure_ascii=False)
    word = branch.get("format") or branch.get("contentEncoding") or branch.get("type")
    return str(word) if word else "anything"


def _fits(narrow: str | None, wide: str | None) -> bool:
    return wide is None or narrow == wide or (narrow, wide) == ("integer", "number")


def _admits(schema: Schema, value: Any) -> bool:
    """Whether a schema of one type or value allows a single value."""
    if "const" in schema:
        return bool(type(schema["const"]) is type(value) and schema["const"] == value)
    if "format" in schema or type(value) not in _TYPES.get(schema.get("type", ""), ()):
        return False
    return not list(_limits(schema, _exactly(value)))


def _exactly(value: Any) -> Schema:
    if isinstance(value, str):
        return {"minLength": len(value), "maxLength": len(value), "text": value}
    return {"minimum": value, "maximum": value}


def _limits(wide: Schema, narrow: Schema) -> Iterator[tuple[str, str]]:
    """What the narrow schema says and what the wide one demands, where the latter is more."""
    for size in _SIZES:
        yield from _bound(f"min{size}", wide.get(f"min{size}"), narrow.get(f"min{size}", 0), lower=True)
        yield from _bound(f"max{size}", wide.get(f"max{size}"), narrow.get(f"max{size}"), lower=False)
    for word, strict, lower in (("minimum", "exclusiveMinimum", True), ("maximum", "exclusiveMaximum", False)):
        own = narrow.get(word, narrow.get(strict))
        yield from _bound(word, wide.get(word), own, lower=lower)
        yield from _bound(strict, wide.get(strict), own, lower=lower, strict=strict not in narrow)
    for word in _OTHER:
        matched = word == "pattern" and "text" in narrow and re.search(str(wide.get(word)), narrow["text"])
        if word in wide and narrow.get(word) != wide[word] and not matched:
            yield f"{word} {narrow.get(word, 'any')}", f"{word} {wide[word]}"


def _bound(word: str, wide: Any, narrow: Any, *, lower: bool, strict: bool = False) -> Iterator[tuple[str, str]]:
    if wide is None:
        return
    if narrow is not None:
        within = narrow >= wide if lower else narrow <= wide
        if within and not (strict and narrow == wide):
            return
    yield f"{word} {'none' if narrow is None else narrow}", f"{word} {wide}"


def _demands(schema: Schema) -> list[frozenset[str]]:
    """The names of which at least one must be there, for each argument that must be."""
    own = [frozenset({name}) for name in schema.get("required", ())]
    choices = [frozenset(name for one in each["anyOf"] for name in one["required"]) for each in schema.get("allOf", ())]
    return own + choices


def _item(schema: Schema, at: int) -> Schema:
    places: list[Schema] = schema.get("prefixItems", [])
    found: Schema = places[at] if at < len(places) else schema.get("items", {})
    return found


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
