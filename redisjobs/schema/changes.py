"""What changed for producers between a stored export and the jobs as they are now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from redisjobs.errors import ConfigurationError
from redisjobs.schema.containment import Comparison, Difference, Schema, find
from redisjobs.schema.reading import check_document

Level: TypeAlias = Literal["breaking", "warning", "compatible"]


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Args:
        level: breaking: what producers send by the old document would not be taken; warning: it depends on them;
            compatible: they need not know.
        path: of the argument, such as `order.lines[].price`; empty: the job as a whole.
    """

    level: Level
    job: str
    path: str
    text: str


def compare(old: object, new: Schema) -> list[Change]:
    """What changed from a stored export to one of now; the breaking ones first.

    Raises:
        ConfigurationError: the old document is no export of all jobs.
    """
    check_document(old)
    before, after = _rows(old), _rows(new)
    gone = "the job is gone: its calls are parked"
    found = [Change("breaking", name, "", gone) for name in before if name not in after]
    found += [Change("compatible", name, "", "the job is new") for name in after if name not in before]
    for name, row in before.items():
        if name in after:
            found += _of_job(name, row, after[name], cast(Schema, old), new)
    order = {"breaking": 0, "warning": 1, "compatible": 2}
    return sorted(found, key=lambda each: (order[each.level], each.job, each.path))


def _rows(document: object) -> dict[str, Schema]:
    """The queue of each job, and the schema of its arguments."""
    given = cast(Any, document)
    try:
        rows = [each["properties"] for each in given["oneOf"]]
        named = {
            each["job"]["const"]: {"queue": str(each["queue"]["default"]), "input": each["input"]} for each in rows
        }
        if all(find(each["input"]["$ref"], given)["type"] == "object" for each in rows):
            return named
    except (KeyError, TypeError, AttributeError):
        pass
    raise ConfigurationError(
        "the old document is no export of all jobs: store what `redisjobs schema export` prints without --job"
    )


def _of_job(name: str, old_row: Schema, new_row: Schema, old: Schema, new: Schema) -> list[Change]:
    before, after = (row["input"] for row in (old_row, new_row))
    broken = Comparison(new, old).differences(after, before)
    widened = Comparison(old, new).differences(before, after)
    paths = {each.path for each in broken}
    changes = [Change("breaking", name, each.path, _broken(each)) for each in broken]
    changes += [Change("compatible", name, each.path, _widened(each)) for each in widened if each.path not in paths]
    changes += _of_queue(name, old_row, new_row)
    one, other = (find(each["$ref"], document) for each, document in ((before, old), (after, new)))
    return changes + _of_order(name, one, other) + _of_defaults(name, one, other)


def _of_queue(name: str, old: Schema, new: Schema) -> list[Change]:
    if old["queue"] == new["queue"]:
        return []
    text = f"its queue is {new['queue']!r} now, and was {old['queue']!r}: workers must go on serving the old one"
    return [Change("warning", name, "", text)]


def _of_order(name: str, old: Schema, new: Schema) -> list[Change]:
    one, other = (list(each.get("properties", {})) for each in (old, new))
    if other[: len(one)] == one or not set(one) <= set(other):  # one that is gone is told already
        return []
    text = f"the arguments stand in another order now ({', '.join(other)}): an array of positions means something else"
    return [Change("warning", name, "", text)]


def _of_defaults(name: str, old: Schema, new: Schema) -> list[Change]:
    changes: list[Change] = []
    for argument, schema in new.get("properties", {}).items():
        before = old.get("properties", {}).get(argument, {})
        if "default" in schema and "default" in before and schema["default"] != before["default"]:
            text = f"where it is left out it is {schema['default']!r} now, and was {before['default']!r}"
            changes.append(Change("compatible", name, argument, text))
    return changes


def _broken(difference: Difference) -> str:
    match difference.kind:
        case "required":
            return "must be sent now"
        case "unknown":
            return "is not taken any more" if difference.narrow else "takes no other names any more"
        case "limit":
            return f"takes less now: {difference.wide}, and was {difference.narrow}"
        case _:
            return f"takes {difference.wide} now, and not {difference.narrow}"


def _widened(difference: Difference) -> str:
    match difference.kind:
        case "required":
            return "may be left out now"
        case "unknown":
            return "is new, and may be left out" if difference.narrow else "takes other names too now"
        case "limit":
            return f"takes more now: {difference.narrow}, and was {difference.wide}"
        case _:
            return f"takes {difference.narrow} too now"
