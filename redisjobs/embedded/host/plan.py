"""What the application asks of its host, and what the host answers: one JSON object each way."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MARKER = ".redisjobs-run"
"""The file that makes a temporary folder one of ours; its lock is held while the folder is in use."""


class Refused(Exception):
    """The servers cannot run like this. The message names the thing, the value and the remedy."""


@dataclass(frozen=True, slots=True)
class Binary:
    """A server program on this machine.

    Attributes:
        name: as it calls itself: `PostgreSQL`, `redis`, `valkey`.
        path: Postgres: the folder of `postgres` and `initdb`. Redis: the file.
        origin: where it was found, for people.
        tree: the file or folder that has to be copied to run it from elsewhere.
    """

    name: str
    path: Path
    version: tuple[int, ...]
    origin: str
    tree: Path

    def __str__(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))} from {self.origin}"

    @property
    def flavour(self) -> str:
        """Name and major version: data of another flavour cannot be read."""
        return f"{'pg' if self.name == 'PostgreSQL' else self.name}{self.version[0]}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to start, and where.

    Attributes:
        parent: process id of the application; the servers end with it.
        run: a new folder of ours with a short path, removed at the end.
        data: where the servers keep their data and `servers.log`; removed with `run` if it is in there.
        durable: whether acknowledged writes outlive a crash of the machine.
        namespaces: whether user namespaces may be used.
    """

    parent: int
    run: Path
    data: Path
    durable: bool
    namespaces: bool
    postgres: Binary | None
    redis: Binary | None

    def encode(self) -> str:
        return json.dumps(asdict(self), default=str)

    @classmethod
    def decode(cls, text: str) -> Plan:
        parts: dict[str, Any] = json.loads(text)
        parts["run"], parts["data"] = Path(parts["run"]), Path(parts["data"])
        parts["postgres"], parts["redis"] = _binary(parts["postgres"]), _binary(parts["redis"])
        return cls(**parts)


def _binary(parts: dict[str, Any] | None) -> Binary | None:
    if parts is None:
        return None
    version = tuple(parts["version"])
    return Binary(parts["name"], Path(parts["path"]), version, parts["origin"], Path(parts["tree"]))


@dataclass(frozen=True, slots=True)
class State:
    """What runs. Kept as `state.json` in the data folder while it does, for others to attach."""

    host_pid: int
    run: str
    description: str
    database_url: str | None
    postgres_pid: int | None
    postgres_socket: str | None
    redis_url: str | None
    redis_pid: int | None
    redis_socket: str | None


@dataclass(frozen=True, slots=True)
class Busy:
    """Another host has the data folder."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing runs.

    Attributes:
        why: the reason in words.
        log: the last lines of the servers.
    """

    why: str
    log: str = ""


Answer = State | Busy | Failed
_KINDS: dict[str, type[State | Busy | Failed]] = {"state": State, "busy": Busy, "failed": Failed}


def encode(answer: Answer) -> str:
    """The answer as one line."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(answer, cls))
    return json.dumps({kind: asdict(answer)})


def decode(line: str) -> Answer:
    """The answer that `encode` wrote.

    Raises:
        ValueError: it is not one, or not a whole one.
    """
    try:
        [(kind, parts)] = json.loads(line).items()
        return _KINDS[kind](**parts)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not an answer of a host: {line[:200]!r}") from error
