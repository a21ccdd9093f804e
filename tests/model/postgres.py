"""Postgres: the outbox, who holds which queue, and the statements over them; each method is one transaction.

`postgres_runs.py` adds what durable runs need. Methods are named as the statements of `redisjobs/sql`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from redisjobs.floor import Snapshot
from tests.model.ledger import Ledger
from tests.model.values import FAR, HORIZON, RELAY_LEASE, Fence, Id, Item, Token

PUBLISHED = ("published", "retrying", "snoozed", "parked")


@dataclass(slots=True)
class Row:
    """A row of the outbox. xact: the transaction that gave it its place."""

    id: Id
    queue: str
    seq: int
    xact: int
    body: str = "plain"
    key: str = ""
    window: int = 0
    lane: str = ""
    run_at: int | None = None
    state: str = "staged"
    publications: int = 0
    settled: int = 0
    life: int = 0
    attempts: int = 0
    fence: Token | None = None
    holder: str | None = None
    cancel: bool = False
    wake_at: int | None = None
    parent: Id | None = None


@dataclass(slots=True)
class QueueRow:
    """Who holds a queue."""

    holder: str = ""
    token: int = 0
    until: int = -1
    epoch: str = ""


@dataclass(slots=True)
class Finished:
    """key_until: the end of the window of its key."""

    word: str
    key: str
    key_until: int


@dataclass(slots=True)
class Settlement:
    """One outcome of a job, as `settle` takes it; waits: a suspension for more than a time."""

    id: Id
    word: str
    life: int
    number: int
    attempts: int
    delay: int
    waits: bool


@dataclass
class Tables:
    """All that is committed."""

    rows: dict[Id, Row] = field(default_factory=dict[Id, Row])
    dead: dict[Id, Row] = field(default_factory=dict[Id, Row])
    finished: dict[Id, Finished] = field(default_factory=dict[Id, Finished])
    steps: dict[Id, dict[str, str]] = field(default_factory=dict[Id, dict[str, str]])
    children: dict[tuple[Id, str], Id] = field(default_factory=dict[tuple[Id, str], Id])
    events: dict[Id, str] = field(default_factory=dict[Id, str])
    queues: dict[str, QueueRow] = field(default_factory=dict[str, QueueRow])
    watermark: int = 0


class Postgres:
    """The transactions of producers, relays, schedulers and operators.

    Args:
        now: the time of Postgres. on: the rules that hold.
    """

    def __init__(self, now: Callable[[], int], on: frozenset[str], ledger: Ledger, queues: Sequence[str]) -> None:
        self.on, self.ledger = on, ledger
        self._now = now
        self.t = Tables(queues={queue: QueueRow() for queue in queues})
        self._xid = self._ended = 0
        self._seq = 0
        self._open: set[int] = set()
        self.untold: list[tuple[Id, str]] = []

    @property
    def now(self) -> int:
        return self._now()

    # -- transactions
    def begin(self) -> int:
        """A transaction that writes; until `end_of` it is in every snapshot."""
        self._xid += 1
        self._open.add(self._xid)
        return self._xid

    def end_of(self, xid: int) -> None:
        self._open.discard(xid)
        self._ended = max(self._ended, xid)

    def writes(self) -> int:
        """A transaction that ends at once."""
        xid = self.begin()
        self.end_of(xid)
        return xid

    def snapshot(self) -> Snapshot:
        """It knows nothing of transactions that are younger than the last one that ended."""
        xmax = self._ended + 1
        running = frozenset(xid for xid in self._open if xid < xmax)
        return Snapshot(min(running, default=xmax), xmax, running)

    def next_seq(self) -> int:
        self._seq += 1
        return self._seq

    # -- producers and operators
    def stage(self, xid: int, row: Row) -> Row:
        """In a transaction that is open."""
        row.seq, row.xact = self.next_seq(), xid
        self.ledger.staged(row, self.now)
        return row

    def commit(self, xid: int, rows: Sequence[Row]) -> None:
        self.end_of(xid)
        for row in rows:
            self.t.rows[row.id] = row
            self.ledger.committed(row)

    def cancel(self, job: Id) -> None:
        row = self.t.rows.get(job)
        if row is None:
            return
        if "cancel_by_relay" in self.on or row.state in PUBLISHED:
            self.writes()
            row.cancel = True
        else:
            self.end(row, "cancelled")
            self.ledger.cancel_answered(job)

    def redrive(self, job: Id) -> None:
        row = self.t.dead.pop(job, None)
        if row is None or job in self.t.rows:
            return
        counts_on = "redrive_counts_on" in self.on
        row.seq, row.xact, row.state, row.run_at = self.next_seq(), self.writes(), "staged", None
        row.life += 1
        row.attempts, row.settled, row.cancel, row.wake_at = 0, 0, False, None
        row.publications = row.publications + 1 if counts_on else 0
        row.fence, row.holder = ((row.publications, 0) if counts_on else None), None
        self.t.rows[job] = row
        self.ledger.redriven(row)

    def dispatch(self, seen: int, occurrence: int, row: Row) -> bool:
        """The watermark moves, and its job is staged, in one statement."""
        if "watermark_cas" in self.on and self.t.watermark != seen:
            return False
        self.t.watermark = max(occurrence, self.t.watermark)
        xid = self.begin()
        self.commit(xid, [self.stage(xid, row)])
        self.ledger.dispatched(occurrence)
        return True

    # -- leases
    def take(self, relay: str, queue: str) -> tuple[int, str] | None:
        """Renews or takes: token and epoch; None: another one holds it."""
        q = self.t.queues[queue]
        if q.holder != relay and q.until >= self.now:
            return None
        self.writes()
        q.token += q.holder != relay
        q.holder, q.until = relay, self.now + RELAY_LEASE
        return q.token, q.epoch

    def fresh_token(self, relay: str, queue: str, token: int, above: int = 0) -> int | None:
        q = self.t.queues[queue]
        if (q.holder, q.token) != (relay, token):
            return None
        self.writes()
        q.token, q.until = max(q.token, above) + 1, self.now + RELAY_LEASE
        return q.token

    def is_held(self, queue: str, fence: Fence) -> bool:
        q = self.t.queues[queue]
        return "statements_fenced" not in self.on or (
            (q.token, q.epoch) == (fence.token, fence.epoch) and q.until > self.now
        )

    def with_staged(self, queue: str) -> bool:
        return any(row.queue == queue and row.state == "staged" for row in self.t.rows.values())

    # -- publisher
    def batch(self, queue: str, floor: int, limit: int) -> tuple[list[Row], Snapshot]:
        found = [row for row in self.t.rows.values() if (row.queue, row.state) == (queue, "staged") and row.seq > floor]
        found.sort(key=lambda row: row.seq)
        return [copy.copy(row) for row in found[:limit]], self.snapshot()

    def item(self, row: Row) -> Item:
        """A row that was read, as publish carries it."""
        delay = 0 if row.run_at is None else row.run_at - self.now
        return Item(row.id, row.publications + 1, row.life, row.settled, row.attempts, max(0, delay), row.key,
                    row.window, 1, row.lane, row.seq, row.body)  # fmt: skip

    def mark(self, queue: str, fence: Fence, rows: Sequence[tuple[Id, int, int]]) -> int:
        """Each with its life and the number of the publication."""
        self.writes()
        changed = 0
        for job, life, number in rows if self.is_held(queue, fence) else ():
            row = self.t.rows.get(job)
            if row is None or row.state != "staged" or (row.life != life and "lives" in self.on):
                continue
            if row.publications != number - 1 and "number_marked" in self.on:
                continue
            row.state, row.publications = "published", row.publications + 1
            changed += 1
        return changed

    def defer(self, queue: str, fence: Fence, jobs: Sequence[Id]) -> int:
        self.writes()
        held = self.is_held(queue, fence)
        rows = [row for job in jobs if held and (row := self.t.rows.get(job)) and row.state == "staged"]
        for row in rows:
            row.state = "deferred"
        return len(rows)

    def come_due(self, queue: str) -> None:
        for row in list(self.t.rows.values()):
            due = row.run_at is not None and row.run_at < self.now + HORIZON
            if row.queue == queue and row.state == "deferred" and due:
                row.state, row.seq, row.xact = "staged", self.next_seq(), self.writes()
            elif row.queue == queue and row.run_at is not None and row.run_at <= self.now:
                self.stage_run(row)

    def stage_run(self, row: Row) -> None:
        if row.state == "suspended":
            row.state, row.run_at, row.wake_at = "staged", None, None
            row.seq, row.xact = self.next_seq(), self.writes()

    def deduplicate(self, queue: str, fence: Fence, rows: Sequence[tuple[Id, int, Id, bool]], read_at: int) -> list[Id]:
        """Those that ended; each was given with its life, the job that has its key, and whether that is sure."""
        self.writes()
        gone: list[Id] = []
        for job, life, owner, sure in rows if self.is_held(queue, fence) else ():
            row, ended = self.t.rows.get(job), self.t.finished.get(owner)
            lives = owner in self.t.rows
            open_window = ended is not None and ended.key_until > self.now
            if row is None or row.life != life:
                continue
            if "dedup_checks" in self.on and not (sure or lives or open_window):
                continue
            if not sure and not lives and ended is not None and ended.key_until <= read_at:
                self.ledger.broke("dedup-against-ended", f"{job} ended as a duplicate of {owner}, which had ended")
            self.end(row, "deduplicated")
            gone.append(job)
        return gone

    def cancels(self, queue: str) -> list[tuple[Id, int, int, int]]:
        """Rows whose end was asked for: id, life, settled publication, and the next one."""
        return [
            (r.id, r.life, r.settled, r.publications + 1) for r in self.t.rows.values() if r.queue == queue and r.cancel
        ]

    def end_cancelled(
        self, queue: str, fence: Fence, rows: Sequence[tuple[Id, int]], losses: int
    ) -> list[tuple[Id, str, int, str]]:
        """What ended here; each with the key that it holds in Redis while suspended, its window, and its lane."""
        self.writes()
        gone: list[tuple[Id, str, int, str]] = []
        for job, life in rows if self.is_held(queue, fence) else ():
            row = self.t.rows.get(job)
            if row is not None and row.life == life and row.cancel:
                held = row.settled > 0
                self.end(row, "cancelled")
                self.ledger.cancel_answered(job, losses)
                gone.append((job, row.key if held else "", row.window, row.lane if held else ""))
        return gone

    # -- settler
    def settle(self, batch: Sequence[Settlement]) -> None:
        self.writes()
        for told in batch:
            row = self.t.rows.get(told.id)
            if row is None or (row.life != told.life and "lives" in self.on):
                continue
            if row.settled >= told.number and "number_settled" in self.on and row.life == told.life:
                continue
            if row.life != told.life:
                self.ledger.broke("redrive-undone", f"an outcome of {row.id} of a former life was settled")
            if told.word in ("done", "dead", "cancelled"):
                row.publications = max(row.publications, told.number)
                self.end(row, told.word)
            elif told.word == "suspended":
                self.suspend(row, told)
            else:
                row.state = {"retry": "retrying", "snooze": "snoozed"}.get(told.word, told.word)
                row.attempts, row.publications = (
                    max(row.attempts, told.attempts),
                    max(row.publications, told.number),
                )
                self.ledger.wait_settled(row.id)
                if "due_in_row" in self.on:
                    row.run_at = self.now + told.delay

    def suspend(self, row: Row, told: Settlement) -> None:
        times = [row.wake_at] if row.wake_at is not None else []
        times += [] if told.waits else [self.now + told.delay]
        at = min(times, default=None)
        row.state = "suspended" if told.waits else "staged"
        if at is not None and at <= self.now:
            row.state = "staged"
        elif not told.waits and at is not None and at > self.now + HORIZON:
            row.state = "deferred"
        row.run_at = at if at is not None and at > self.now else None
        row.seq, row.xact, row.wake_at = self.next_seq(), self._xid, None
        row.attempts, row.settled = max(row.attempts, told.attempts), told.number
        row.publications = max(row.publications, told.number)

    def end(self, row: Row, word: str) -> None:
        """It leaves the outbox, and what follows from that is in the same transaction."""
        del self.t.rows[row.id]
        until = self.now + row.window if row.window else -FAR
        self.t.finished[row.id] = Finished(word, row.key, until)
        if word == "dead":
            self.t.dead[row.id] = row
        if word != "dead" or "steps_outlive_death" not in self.on:
            self.t.steps.pop(row.id, None)
        self.ledger.ended(row, word)
        if row.parent is not None:
            if "tell_with_end" in self.on:
                self.tell_parent(row.id, word)
            else:
                self.untold.append((row.id, word))
        if word == "cancelled" and "children_cancelled" in self.on:
            for child in self.t.rows.values():
                if child.parent == row.id:
                    child.cancel = True
                    self.ledger.child_flagged(child.id)

    def tell_parent(self, child: Id, word: str) -> None:
        """Overridden where there are runs."""
        raise NotImplementedError

    # -- recovery and audit
    def take_back(self, queue: str, token: int, limit: int) -> int | None:
        """A chunk of what Redis held joins the line again; None: the lease is another's."""
        q = self.t.queues[queue]
        if q.token != token or q.until <= self.now:
            return None
        self.writes()
        chunk = sorted(r.id for r in self.t.rows.values() if r.queue == queue and r.state in PUBLISHED)[:limit]
        for job in chunk:
            self.t.rows[job].state = "staged"
        return len(chunk)

    def name_life(self, queue: str, token: int, epoch: str, *, first: bool) -> bool:
        q = self.t.queues[queue]
        if q.token != token or q.until <= self.now:
            return False
        self.writes()
        q.epoch = epoch
        for row in self.t.rows.values():
            if not first and row.queue == queue and row.state in PUBLISHED:
                row.state = "staged"
        return True

    def open_windows(self, queue: str) -> list[tuple[str, Id, int]]:
        """Keys that are held without a job in Redis, as `adopt` takes them."""
        rows = [row for row in self.t.rows.values() if row.queue == queue and row.settled > 0]
        return [
            *((f.key, job, f.key_until - self.now) for job, f in self.t.finished.items() if f.key_until > self.now),
            *((row.key, row.id, -1) for row in rows if row.key),
            *((row.lane, row.id, -2) for row in rows if row.lane),
        ]

    def published(self, queue: str) -> list[tuple[Id, int, int]]:
        return [(r.id, r.life, r.settled) for r in self.t.rows.values() if r.queue == queue and r.state in PUBLISHED]

    def publish_again(self, queue: str, fence: Fence, missing: Sequence[tuple[Id, int]]) -> int:
        self.writes()
        count = 0
        for job, life in missing if self.is_held(queue, fence) else ():
            row = self.t.rows.get(job)
            if row is not None and row.state in PUBLISHED and (row.life == life or "lives" not in self.on):
                row.state = "staged"
                count += 1
        return count

    def rowless(self, jobs: Sequence[Id]) -> list[Id]:
        return [job for job in jobs if job not in self.t.rows]
