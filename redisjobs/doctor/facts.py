"""What `doctor` finds out of Postgres, as plain values; what Redis tells is in `broker.checkup`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from redisjobs.broker.presence import Presence
from redisjobs.broker.share_lines import ShareLine
from redisjobs.broker.view import QueueView
from redisjobs.operator import QueueLine


@dataclass(frozen=True, slots=True)
class Server:
    """Postgres, this login, and what holds for it.

    Args:
        places: connections for logins that are no superusers. taken: connections open now.
        login_limit, database_limit: connections at most; -1: no limit.
    """

    number: int
    version: str
    standby: bool
    login: str
    database: str
    read_only: bool
    isolation: str
    statement_timeout_ms: int
    transaction_timeout_ms: int
    idle_timeout_ms: int
    autovacuum: bool
    fsync: bool
    full_page_writes: bool
    synchronous_commit: str
    places: int
    taken: int
    login_limit: int
    database_limit: int
    encrypted: bool
    now_s: float


@dataclass(frozen=True, slots=True)
class HotTable:
    """The outbox as a table. `mute`: its trigger does not wake relays."""

    unlogged: bool
    row_security: bool
    autovacuum_off: bool
    mute: bool
    dead_rows: int
    live_rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Holding:
    """Something that keeps vacuum from its work: a transaction, prepared, slot; or hidden: what may not be seen."""

    kind: str
    name: str
    detail: str
    age_s: float
    bytes: int


@dataclass(frozen=True, slots=True)
class PostgresFacts:
    """All of Postgres.

    Args:
        host: where it is, as it was reached. host_now_s: this machine's clock, when `server` was asked.
        missing: migrations that are not applied. schema_error: why the schema cannot be used.
        lacks: rights that are missing, by the work that needs them.
        hears: a NOTIFY came back to a session that listens; None: not tried.
        connect_s: how long it took to connect, login included.
    """

    url: str
    schema: str
    host: str
    server: Server
    host_now_s: float
    connect_s: float
    missing: Sequence[str] = ()
    schema_error: str | None = None
    lacks: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    table: HotTable | None = None
    holding: Sequence[Holding] = ()
    hears: bool | None = None

    @property
    def has_tables(self) -> bool:
        """Whether the schema is there and of this version."""
        return not self.missing and self.schema_error is None


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """One queue in both stores; None: a store does not know it, or could not be asked.

    Args:
        ungrouped: entries in streams that have no group.
        workers: all that said of late that they are there, whatever they serve.
        lapsed: who holds jobs under a lease that lapsed, and the seconds since then.
        paused_shares: those with jobs behind their pause.
        known: Postgres was asked, so that no line means no queue.
    """

    name: str
    line: QueueLine | None
    view: QueueView | None
    ungrouped: int = 0
    workers: Sequence[Presence] = ()
    lapsed: tuple[str, float] | None = None
    paused_shares: Sequence[ShareLine] = ()
    known: bool = True
