"""What the relay's statements are given and answer: arrays as texts, rows as tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from redisjobs.testing.outbox.tables import Tables

Parameters: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = list[tuple[Any, ...]]
Statement: TypeAlias = Callable[[Tables, Parameters], Rows]


def words(array: str) -> list[str]:
    """The elements of an array as `base.postgres.array` writes it."""
    return [each for each in array.strip("{}").split(",") if each]


def ids(array: str) -> list[UUID]:
    """An array of hex ids."""
    return [UUID(hex=each) for each in words(array)]


def numbers(array: str) -> list[int]:
    """An array of whole numbers."""
    return [int(each) for each in words(array)]


def is_held(tables: Tables, given: Parameters) -> bool:
    """Whether the relay's lease, token and epoch still stand."""
    queue = tables.queues.get(given["queue"])
    return (
        queue is not None
        and (queue.token, queue.epoch) == (given["token"], given["epoch"])
        and queue.lease_until > tables.now()
    )


def changed(what: Sequence[object]) -> Rows:
    """The answer of a statement that only counts what it changed."""
    return [() for _ in what]
