"""Which node of a cluster has which keys: what it says of itself, and what a refused command was told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from redis.crc import key_slot
from redis.exceptions import AskError

Argument: TypeAlias = bytes | str | int

_KEYLESS = frozenset({"PING", "TIME", "INFO", "CONFIG", "CLUSTER", "FLUSHALL", "SCRIPT", "SCAN"})
_SUBCOMMANDS = frozenset({"XGROUP", "XINFO"})
_AFTER_STREAMS = frozenset({"XREAD", "XREADGROUP"})
_SCRIPTS = frozenset({"EVAL", "EVALSHA"})


class Place(NamedTuple):
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def slot_of(words: Sequence[Argument]) -> int | None:
    """The slot of a command's keys, which share one; None: it has no key, and any node will do."""
    name = _text(words[0]).upper()
    if name in _KEYLESS:
        return None
    if name in _SCRIPTS:
        return _slot(words[3]) if int(words[2]) else None
    if name in _AFTER_STREAMS:
        at = next(at for at, word in enumerate(words) if isinstance(word, str) and word.upper() == "STREAMS")
        return _slot(words[at + 1])
    return _slot(words[2 if name in _SUBCOMMANDS else 1])


class Slots:
    """The map of a cluster, as far as it is known.

    Args:
        seeds: the nodes that the URL names; they are asked again where nobody else answers.

    Attributes:
        stale: something happened that the map does not explain.
    """

    def __init__(self, seeds: Iterable[Place]) -> None:
        self.stale = True
        self._owners: dict[int, Place] = {}
        self._order: list[Place] = list(seeds)

    def read(self, told: Sequence[Any], asked: Place) -> None:
        """Take over what CLUSTER SLOTS told, asked of this node."""
        owners: dict[int, Place] = {}
        others: list[Place] = []
        for first, last, *nodes in told:
            places = [_place(node, asked) for node in nodes]
            owners.update(dict.fromkeys(range(int(first), int(last) + 1), places[0]))
            others += places
        self._owners, self.stale = owners, False
        self._order = list(dict.fromkeys([asked, *self.primaries(), *self._order, *others]))

    def owner(self, slot: int) -> Place | None:
        """Who has a slot; None: nobody, as far as is known."""
        return self._owners.get(slot)

    def primaries(self) -> list[Place]:
        """Every node that has slots."""
        return list(dict.fromkeys(self._owners.values()))

    def to_ask(self) -> list[Place]:
        """Whom to ask for the map, the most promising first."""
        return list(self._order)

    def moved(self, slot: int, place: Place) -> None:
        """A node said that another one has this slot; likely others have moved too."""
        self._owners[slot], self.stale = place, True
        self._order = [place, *(each for each in self._order if each != place)]

    def failed(self, place: Place) -> None:
        """A node did not answer: another may have taken its slots, and it is asked last."""
        self.stale = True
        if place in self._order:
            self._order.remove(place)
            self._order.append(place)


def pointed_to(redirection: AskError, asked: Place) -> Place:
    """Where a redirection leads; without a host it is that of the node that sent it."""
    told: Any = redirection
    return Place(told.host or asked.host, int(told.port))


def _place(node: Sequence[Any], asked: Place) -> Place:
    host = _text(node[0]) if node[0] else ""
    return Place(asked.host if host in ("", "?") else host, int(node[1]))


def _slot(key: Argument) -> int:
    return key_slot(key if isinstance(key, bytes) else str(key).encode())


def _text(word: object) -> str:
    return word.decode(errors="replace") if isinstance(word, bytes) else str(word)
