"""What several nodes say of themselves, as one server would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def one_info(section: str, told: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """One section of INFO. Of the memory, that of the fullest node: a queue cannot go to another.

    Of other sections every value that any node told, in one order whoever was asked first.
    """
    if section == "memory" or len(told) == 1:
        return {name: str(value) for name, value in max(told, key=fullness).items()}
    names = {name: None for each in told for name in each}
    return {name: " ".join(sorted(str(each[name]) for each in told if name in each)) for name in names}


def fullness(info: Mapping[str, object]) -> float:
    """The share of its memory that a node has used; 0 where it has no limit."""
    limit = int(str(info.get("maxmemory", 0)))
    return int(str(info.get("used_memory", 0))) / limit if limit else 0.0
