"""Who takes part: the table `peers.toml`, and redisjobs in its two forms."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Store = Literal["redis", "postgres"]

TABLE = Path(__file__).with_name("peers.toml")
DRIVERS = Path(__file__).with_name("drivers")


@dataclass(frozen=True, slots=True)
class Contestant:
    """One that is measured; its driver is the module of its name in `drivers/`.

    Args:
        store: where its jobs are kept.
        serves: where its workers take them from: the same, but for the road of redisjobs.
        takes_part: in plain "jobs", in durable runs ("steps"), or in both.
        packages: exact requirements of its virtual environment; none: redisjobs, in the one that measures.
    """

    name: str
    store: Store
    serves: Store
    takes_part: tuple[str, ...]
    packages: tuple[str, ...] = ()


DIRECT = Contestant("redisjobs_direct", "redis", "redis", ("jobs",))
"""redisjobs where a job may be lost with Redis: `enqueue_direct`."""
ROAD = Contestant("redisjobs", "postgres", "redis", ("jobs", "steps"))
"""redisjobs as it is meant: a row in the producer's transaction, a relay and a worker."""
OURS = (ROAD, DIRECT)


def ours_beside(peer: Contestant) -> Contestant:
    """The form of redisjobs that keeps jobs where the peer does."""
    return ROAD if peer.store == "postgres" else DIRECT


def peers(only: Iterable[str] = (), table: Path = TABLE) -> list[Contestant]:
    """Those of the table, or of them those named.

    Raises:
        ValueError: a name is not in the table, or a requirement is not exact.
    """
    found = [_contestant(name, entry) for name, entry in tomllib.loads(table.read_text()).items()]
    wanted = list(only)
    if unknown := set(wanted) - {peer.name for peer in found}:
        raise ValueError(f"not in {table.name}: {', '.join(sorted(unknown))}; there are {_names(found)}")
    return [peer for peer in found if not wanted or peer.name in wanted]


def _contestant(name: str, entry: Mapping[str, Any]) -> Contestant:
    packages = tuple(map(str, entry["packages"]))
    if loose := [each for each in packages if "==" not in each]:
        raise ValueError(f"{name} needs exact versions, not {', '.join(loose)}")
    return Contestant(name, entry["store"], entry["store"], tuple(entry["takes_part"]), packages)


def _names(found: Iterable[Contestant]) -> str:
    return ", ".join(peer.name for peer in found)
