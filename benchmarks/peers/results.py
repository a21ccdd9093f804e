"""What a race found: records, how they are kept, and the medians and ratios that are told of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.stage import Found
from benchmarks.peers.table import OURS, peers

MEANING = ("rate", "small", "held", "hold", "patience_s", "lease_s")
"""Of the scale: what changes the meaning of a figure, and not only how sure it is."""


@dataclass(frozen=True, slots=True)
class Record:
    """One measurement.

    Args:
        beside: the peer that it was set against, or that it is; None: nobody.
        found: what it found; empty where it failed.
        failed: why, if it did.
        load: of the machine at its end, as the kernel averages it over a minute.
    """

    round: int
    measure: str
    contestant: str
    beside: str | None
    found: Found
    failed: str | None = None
    load: float = 0.0


@dataclass(slots=True)
class Results:
    """A whole race.

    Args:
        facts: of the machine and the servers, in words.
        scale: how much was measured.
        drivers: contestant to what its driver says of itself, and its packages.
    """

    facts: dict[str, str]
    scale: dict[str, float]
    drivers: dict[str, dict[str, Any]]
    records: list[Record] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Keep it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> Results:
        """What `write` kept."""
        kept = json.loads(path.read_text())
        return cls(kept["facts"], kept["scale"], kept["drivers"], [Record(**each) for each in kept["records"]])

    def peers(self, measure: str) -> list[str]:
        """Who was measured so, without redisjobs, in the order of the table."""
        found = {each.contestant: None for each in self.records if each.measure == measure}
        ours = {each.name for each in OURS}
        return sorted((name for name in found if name not in ours), key=_place)

    def of(self, measure: str, contestant: str, beside: str | None = None) -> list[Record]:
        """Its records, by round; those that failed too."""
        found = [
            each
            for each in self.records
            if (each.measure, each.contestant, each.beside) == (measure, contestant, beside)
        ]
        return sorted(found, key=lambda each: each.round)

    def pair(self, measure: str, peer: str, word: str) -> Pair | None:
        """A peer and redisjobs beside it, by a figure of both; None where either has none in any round."""
        theirs = _by_round(self.of(measure, peer, peer), word)
        names = [each.name for each in OURS]
        ours = _by_round((each for name in names for each in self.of(measure, name, peer)), word)
        shared = sorted(theirs.keys() & ours.keys())
        if not shared:
            return None
        return Pair([theirs[number] for number in shared], [ours[number] for number in shared])

    def figure(self, measure: str, contestant: str, word: str) -> float | None:
        """The median of a figure of what was measured alone."""
        values = list(_by_round(self.of(measure, contestant), word).values())
        return statistics.median(values) if values else None


@dataclass(frozen=True, slots=True)
class Pair:
    """A figure of a peer and of redisjobs right beside it, round by round."""

    theirs: Sequence[float]
    ours: Sequence[float]

    @property
    def their_median(self) -> float:
        """Of the peer."""
        return statistics.median(self.theirs)

    @property
    def our_median(self) -> float:
        """Of redisjobs."""
        return statistics.median(self.ours)

    @property
    def ratios(self) -> list[float]:
        """How many times the peer's redisjobs' is, in each round: noise that hits a whole round falls out."""
        return [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of them."""
        return statistics.median(self.ratios)


def _by_round(records: Iterable[Record], word: str) -> dict[int, float]:
    found: dict[int, float] = {}
    for each in records:
        if isinstance(value := each.found.get(word), int | float):
            found[each.round] = float(value)
    return found


def merged(parts: Sequence[Results]) -> Results:
    """Races as one: of each measure of a contestant and its neighbour, the latest race that has it.

    Raises:
        ValueError: what a figure means differs between them, such as the rate of a latency.
    """
    for word in MEANING:
        if len(values := {part.scale[word] for part in parts if word in part.scale}) > 1:
            raise ValueError(f"these races cannot be told as one: {word} was {' and '.join(map(str, sorted(values)))}")
    latest: dict[tuple[str, str | None, str], tuple[int, list[Record]]] = {}
    for number, part in enumerate(parts):
        groups: dict[tuple[str, str | None, str], list[Record]] = {}
        for each in part.records:
            groups.setdefault((each.measure, each.beside, "" if each.beside else each.contestant), []).append(each)
        latest |= {key: (number, records) for key, records in groups.items()}
    drivers: dict[str, dict[str, Any]] = {}
    for part in parts:
        drivers |= part.drivers
    records = [each for _, group in latest.values() for each in group]
    drivers = {name: drivers[name] for name in sorted(drivers, key=_place)}
    return Results(_last(part.facts for part in parts), _last(part.scale for part in parts), drivers, records)


def _place(name: str) -> int:
    """Where somebody stands in the table; redisjobs behind all others."""
    names = [each.name for each in (*peers(), *OURS)]
    return names.index(name) if name in names else len(names)


def _last(of: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in of:
        found = dict(each)
    return found
