"""What travels in the model, and its times. A unit of time is a round: nothing here knows of seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

LEASE, RELAY_LEASE, HORIZON, GRACE, MAX_LOSSES, MAX_ATTEMPTS = 6, 10, 20, 12, 3, 4
FAR = 10**6
"""Later than any run."""
UNTIL_IT_ENDS = 10**9
"""The end of the window of a key whose job is suspended."""
FINAL = ("done", "dead", "cancelled")
FRONT = 3
"""The stream of what has waited for a limit and may run now; the bands are before it."""

Id: TypeAlias = str
Token: TypeAlias = tuple[int, int]
Place: TypeAlias = tuple[int, int]


class Lost(Exception):
    """The caller got no reply. Whether the call took place it cannot know."""


class Violation(Exception):
    """A promise was broken: its name, and how."""

    def __init__(self, promise: str, text: str) -> None:
        super().__init__(promise, text)
        self.promise, self.text = promise, text


@dataclass(slots=True)
class Item:
    """A row as `publish` carries it.

    Args:
        number: of this publication. life: redrives. after: the publication whose end has settled, or 0.
        delay: until it is due; 0 or less: now. order: its place in line.
    """

    id: Id
    number: int = 1
    life: int = 0
    after: int = 0
    attempts: int = 0
    delay: int = 0
    key: str = ""
    window: int = 0
    band: int = 1
    lane: str = ""
    order: int = 0
    body: str = "plain"


@dataclass(slots=True)
class Live:
    """jobs[id] of a live job. entry: of its stream; None: it waits in `due`; or its place behind its lane."""

    entry: int | Place | None
    number: int
    life: int
    key: str
    window: int
    band: int
    lane: str
    order: int
    body: str
    front: bool = False
    cancel: bool = False
    parked: bool = False
    limited: bool = False
    woken: bool = False

    @property
    def stream(self) -> int:
        return FRONT if self.front else self.band

    @property
    def has_entry(self) -> bool:
        return isinstance(self.entry, int)

    @property
    def is_behind(self) -> bool:
        return isinstance(self.entry, tuple)


@dataclass(slots=True)
class Tombstone:
    """jobs[id] of an ended one: the outcome that it made, and who made it under which start."""

    outcome: int
    number: int
    start: int
    life: int
    consumer: str


@dataclass(slots=True)
class Run:
    """runs[id]; last: consumer and start of the last accepted finish."""

    starts: int = 0
    attempts: int = 0
    losses: int = 0
    holder: str = "-"
    entry: int | None = None
    lease: int = 0
    last: tuple[str, int] | None = None


class Outcome(NamedTuple):
    """How an attempt ended, on its way to Postgres; due: by the time of Redis, None: none."""

    id: Id
    word: str
    life: int
    number: int
    attempts: int
    due: int | None


@dataclass(slots=True)
class Delivery:
    """A job in a worker's hand."""

    queue: str
    id: Id
    entry: int
    stream: int
    start: int
    number: int
    life: int
    attempts: int
    losses: int
    cancel: bool
    body: str
    lost: bool = False
    began: bool = False
    at: int = 0
    data: int = 0

    @property
    def token(self) -> Token:
        return self.number, self.start


@dataclass(slots=True)
class End:
    """A finish: how an attempt ends. delay: until the next start; below 0, of a suspension: it has no time."""

    id: Id
    entry: int
    start: int
    word: str
    delay: int = 0
    counted: bool = False
    skips: bool = False


@dataclass(slots=True)
class Fence:
    """What a relay shows with every call."""

    token: int
    epoch: str


@dataclass
class Keys:
    """All keys of one queue."""

    streams: list[dict[int, Id]] = field(default_factory=lambda: [{}, {}, {}, {}])
    unread: list[list[int]] = field(default_factory=lambda: [[], [], [], []])
    pending: list[dict[int, tuple[str, int]]] = field(default_factory=lambda: [{}, {}, {}, {}])
    jobs: dict[Id, Live | Tombstone] = field(default_factory=dict[Id, "Live | Tombstone"])
    runs: dict[Id, Run] = field(default_factory=dict[Id, Run])
    due: dict[Id, int] = field(default_factory=dict[Id, int])
    lanes: dict[str, tuple[Id, bool]] = field(default_factory=dict[str, tuple[Id, bool]])
    behind: set[tuple[str, Place, Id]] = field(default_factory=set[tuple[str, Place, Id]])
    keys: dict[str, Id] = field(default_factory=dict[str, Id])
    windows: dict[str, int] = field(default_factory=dict[str, int])
    outcomes: dict[int, list[Outcome]] = field(default_factory=dict[int, list[Outcome]])
    graves: dict[int, int] = field(default_factory=dict[int, int])
    cancels: set[Id] = field(default_factory=set[Id])
    epoch: str = ""
    fence: int = 0
    settled: int = 0
    paused: bool = False
    swept: int = -FAR
