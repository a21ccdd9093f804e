"""What was promised, and a book of each job by which every event of a run is judged.

A check is waived where Redis lost data between the two events that it compares: promise 7 allows what follows of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from tests.model.values import FINAL, GRACE, Delivery, Id, Violation
from tests.model.witness import Witness

if TYPE_CHECKING:
    from tests.model.postgres import Row

PROMISES = {
    "stuck": (1, "a job whose enqueue committed reaches an end"),
    "no-end": (1, "what has left the outbox has an end that Postgres knows"),
    "leftover": (1, "at rest nothing is left in Redis"),
    "rolled-back": (2, "a job whose transaction rolled back never runs"),
    "two-completions": (3, "at most one completion of a life is accepted"),
    "stale-completion": (3, "only the holder's completion is accepted"),
    "accepted-but-told-lost": (3, "whose completion was accepted is never told that it is lost"),
    "holder-turned-away": (3, "who holds a job can claim its run"),
    "redrive-undone": (3, "an outcome of a former life changes nothing"),
    "step-again": (4, "a recorded step never runs again in the attempt that holds the job"),
    "step-again-late": (4, "no step starts once its lease is known to be over"),
    "effect-twice": (4, "the effect of a transactional job is committed once"),
    "order": (5, "what was committed before another was begun is published first"),
    "below-floor": (5, "no row is passed over by the floor of a queue's reads"),
    "dispatch": (6, "one dispatch for each occurrence"),
    "extra-start": (7, "every further start of a body is explained by a fault"),
    "ran-after-cancel": (7, "no body starts once its cancel was answered"),
    "early": (7, "no body starts before its time"),
    "early-again": (7, "no retry or snooze starts before the time that Postgres was told"),
    "key": (7, "a key has one live owner"),
    "dedup-against-ended": (7, "a duplicate ends only beside a job that lives, or in its window"),
    "lane": (7, "of a lane one job at a time"),
    "limit": (7, "of a limit never more at once than it says"),
    "not-told": (7, "who waits for a limit comes when there is room, and not by the clock"),
    "child-twice": (4, "a step calls one child"),
    "child-not-cancelled": (7, "the children of a cancelled run are cancelled with it"),
}
"""Name -> number in the guarantees, and what it says."""


@dataclass(slots=True)
class Last:
    """The last start of a body. end: None while it runs, final, again, lapsed or killed; data: losses so far."""

    who: str
    token: tuple[int, int]
    life: int
    data: int
    end: str | None = None
    due: int = 0
    at: int = 0
    receipt: tuple[str, tuple[int, int]] | None = None


@dataclass(slots=True)
class Page:
    """What is known of one job. Times in `began` and after are steps of the run, `run_at` is time of Postgres."""

    id: Id
    queue: str
    seq: int
    tx: int
    began: int
    body: str
    key: str
    lane: str
    run_at: int
    prompt: bool
    parent: Id | None
    committed: int | None = None
    first: int | None = None
    ended: str | None = None
    life: int = 0
    last: Last | None = None
    not_before: int | None = None
    cancelled: tuple[int, int] | None = None
    steps: set[str] = field(default_factory=set[str])
    effects: int = 0
    flagged: bool = False
    parent_cancelled: bool = False


class Ledger(Witness):
    """Hears of everything. The world sets `now`, `step`, `losses` and what kinds of faults were dealt."""

    def __init__(self) -> None:
        self.now = self.step = self.losses = self.postgres_now = 0
        self.faulty = self.clock_moved = self.partial = False
        self.book: dict[Id, Page] = {}
        self.occurrences: set[int] = set()
        self.lapses: set[tuple[str, int, int]] = set()
        self.children: dict[tuple[Id, str], list[Id]] = {}
        self.inside: dict[tuple[str, Id], tuple[str, int, int]] = {}

    def broke(self, promise: str, text: str) -> NoReturn:
        assert promise in PROMISES
        raise Violation(promise, text)

    # -- what Postgres tells
    def staged(self, row: Row, now: int) -> None:
        due = row.run_at if row.run_at is not None else now
        self.book[row.id] = Page(
            row.id, row.queue, row.seq, row.xact, self.step, row.body, row.key, row.lane, due,
            not row.key and not row.lane and due <= now, row.parent,
        )  # fmt: skip

    def committed(self, row: Row) -> None:
        self.book[row.id].committed = self.step

    def redriven(self, row: Row) -> None:
        page = self.book[row.id]
        page.life, page.ended, page.prompt = page.life + 1, None, False

    def ended(self, row: Row, word: str) -> None:
        self.book[row.id].ended = word
        for page in self.book.values() if word == "cancelled" else ():
            if page.parent == row.id and page.ended is None:
                page.parent_cancelled = True

    def wait_settled(self, job: Id) -> None:
        last = self.book[job].last
        if last is not None and last.end == "again":
            self.book[job].not_before = last.due

    def cancel_answered(self, job: Id, losses: int | None = None) -> None:
        self.book[job].cancelled = (self.losses if losses is None else losses, self.step)

    def dispatched(self, occurrence: int) -> None:
        if occurrence in self.occurrences:
            self.broke("dispatch", f"occurrence {occurrence} was dispatched twice")
        self.occurrences.add(occurrence)

    def recorded(self, job: Id, name: str) -> None:
        self.book[job].steps.add(name)

    def took_effect(self, job: Id) -> None:
        self.book[job].effects += 1

    def called(self, run: Id, name: str, child: Id) -> None:
        children = self.children.setdefault((run, name), [])
        children.append(child)
        if len(children) > 1:
            self.broke("child-twice", f"step {name} of {run} called {' and '.join(children)}")

    def parent_told(self, parent: Id, child: Id) -> None:
        """The record of the child says how it ended."""

    def child_flagged(self, child: Id) -> None:
        self.book[child].flagged = True

    # -- what Redis tells
    def placed(self, job: Id) -> None:
        page = self.book[job]
        if page.first is not None:
            return
        page.first = self.step
        for other in self.book.values() if page.prompt else ():
            if other.prompt and other.first is None and not other.ended and other.queue == page.queue:
                self._is_in_order(other, page)

    def _is_in_order(self, waits: Page, published: Page) -> None:
        if waits.committed is None:
            return
        if waits.committed < published.began or (waits.tx == published.tx and waits.seq < published.seq):
            self.broke("order", f"{published.id} was published before {waits.id}")

    def delivered(self, d: Delivery) -> None:
        d.at, d.data = self.step, self.losses

    def lapsed(self, job: Id, consumer: str, entry: int, start: int) -> None:
        last = self.book[job].last
        self.lapses.add((consumer, entry, start))
        if last is not None and last.who == consumer and last.end is None:
            last.end = "lapsed"

    def over(self, job: Id, word: str) -> None:
        last = self.book[job].last
        if last is not None:
            last.end = "final"

    # -- what workers do
    def starts(self, consumer: str, d: Delivery) -> None:
        """A body starts."""
        page = self.book[d.id]
        if (consumer, d.entry, d.start) in self.lapses:
            return  # it could not know that its lease was gone
        if page.committed is None:
            self.broke("rolled-back", f"{d.id} ran without a commit")
        if page.cancelled and page.cancelled[0] == self.losses == d.data and d.at > page.cancelled[1]:
            self.broke("ran-after-cancel", f"{d.id} started after its cancel was answered")
        self._is_in_time(page)
        self._is_explained(page, d)
        self._is_alone(page)
        page.not_before = None
        page.last = Last(consumer, d.token, d.life, d.data)

    def _is_in_time(self, page: Page) -> None:
        if self.clock_moved:
            return
        if self.postgres_now < page.run_at:
            self.broke("early", f"{page.id} started before its time")
        if page.not_before and self.now < page.not_before and not self.partial:
            self.broke("early-again", f"{page.id} started before the time that Postgres had been told")

    def _is_explained(self, page: Page, d: Delivery) -> None:
        last = page.last
        if last is None or last.life != d.life or last.data < self.losses:
            return
        if last.end in (None, "final") or (not self.faulty and last.end == "lapsed"):
            self.broke("extra-start", f"{d.id} started again; its last start ended: {last.end}")

    def _is_alone(self, page: Page) -> None:
        for other in self.book.values() if page.key or page.lane else ():
            last = other.last
            if other is page or other.ended or last is None or last.data != self.losses or last.life != other.life:
                continue
            if self.partial or last.end == "final":
                continue
            if page.key and other.key == page.key and other.queue == page.queue:
                self.broke("key", f"{page.id} started while {other.id} with the same key lives")
            if page.lane and other.lane == page.lane and other.queue == page.queue:
                self.broke("lane", f"{page.id} started while {other.id} of its lane has not ended")

    def finished(self, d: Delivery, consumer: str, word: str, delay: int) -> None:
        """A finish was accepted."""
        last = self.book[d.id].last
        if last is None:
            return
        if not d.began:
            if word in FINAL and last.data == self.losses and last.life == d.life:
                last.end = "final"
            return
        current = last.data == self.losses
        if current and (last.who, last.token) != (consumer, d.token) and last.end is None:
            self.broke("stale-completion", f"{consumer} {d.token} finished {d.id}, held by {last.who} {last.token}")
        page = self.book[d.id]
        if current and last.end == "final" and word in FINAL and last.life == page.life and page.ended is None:
            self.broke("two-completions", f"{d.id} was completed twice")
        last.end, last.due = "final" if word in FINAL else "again", self.now + delay
        last.receipt, last.at = (consumer, d.token), self.now

    def refused(self, d: Delivery, consumer: str, answer: str) -> None:
        last = self.book[d.id].last
        if last is None or answer != "lost" or last.data != self.losses or self.clock_moved:
            return
        if last.receipt == (consumer, d.token) and self.now - last.at < GRACE:
            self.broke("accepted-but-told-lost", f"{consumer} was told that its accepted finish of {d.id} was lost")

    def killed(self, consumer: str) -> None:
        for page in self.book.values():
            if page.last and page.last.who == consumer and page.last.end is None:
                page.last.end = "killed"
        self.inside = {key: value for key, value in self.inside.items() if key[0] != consumer}

    def step_starts(self, d: Delivery, name: str, *, fenced: bool, trusted: bool) -> None:
        if name in self.book[d.id].steps:
            if not fenced:
                self.broke("step-again", f"step {name} of {d.id} ran again by its rightful holder")
            if not trusted:
                self.broke("step-again-late", f"step {name} of {d.id} ran again by a holder past its lease")

    # -- limits
    def enters(self, consumer: str, d: Delivery, key: str, most: int, trust: int) -> None:
        """A body starts under a permit; `trust` is until when it believes in it."""
        others = [k for k, (name, until, losses) in self.inside.items()
                  if name == key and until > self.now and losses == self.losses and k != (consumer, d.id)]  # fmt: skip
        if len(others) >= most and not self.clock_moved:
            self.broke("limit", f"{d.id} started beside {others} under the limit {key}")
        self.inside[consumer, d.id] = (key, trust, d.data)  # the permit may be older than a loss before the start

    def stays(self, consumer: str, job: Id, trust: int) -> None:
        if (consumer, job) in self.inside:
            key, until, losses = self.inside[consumer, job]
            self.inside[consumer, job] = (key, max(until, trust), losses)

    def leaves(self, consumer: str, job: Id) -> None:
        self.inside.pop((consumer, job), None)

    # -- the end
    def close(self, finished: set[Id]) -> None:
        """At rest."""
        for page in self.book.values():
            if page.effects > 1:
                self.broke("effect-twice", f"the effect of {page.id} was committed {page.effects} times")
            if page.committed is not None and page.id not in finished:
                self.broke("no-end", f"{page.id} has no end")
            if page.parent_cancelled and not page.flagged:
                self.broke("child-not-cancelled", f"{page.id} was not cancelled with its parent {page.parent}")
