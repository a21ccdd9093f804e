"""The limiter in Redis: who may begin, who waits in which order, who is told to come. Each method is one script call.

A job wants one share of one limit here; rates, weights and several limits at once have a machine of their own
(`tests/services/test_limiter_machine.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.model.rules import ALL
from tests.model.values import Id

RESERVED, SLEEP = 10, 30
"""As in `lua/lib/limit.lua`, in its seconds."""


class Ask(NamedTuple):
    """most: so many at once."""

    id: Id
    start: int
    queue: str
    key: str
    most: int


@dataclass(slots=True)
class Permit:
    """state: h its attempt runs, r reserved until it asks, x lapsed while it ran."""

    state: str
    start: int
    consumer: str
    queue: str
    seq: int
    key: str
    most: int


@dataclass(slots=True)
class Ticket:
    """where: in whose line it stands; empty: it was told to come."""

    seq: int
    queue: str
    where: str
    key: str
    most: int


@dataclass
class LimiterKeys:
    """All keys of the limiter."""

    held: dict[Id, Permit] = field(default_factory=dict[Id, Permit])
    expiry: dict[Id, int] = field(default_factory=dict[Id, int])
    used: dict[str, int] = field(default_factory=dict[str, int])
    counted: bool = False
    line: set[tuple[str, str, int, Id]] = field(default_factory=set[tuple[str, str, int, Id]])
    heads: set[tuple[str, int, str, Id]] = field(default_factory=set[tuple[str, int, str, Id]])
    idle: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    asleep: dict[str, int] = field(default_factory=dict[str, int])
    tickets: dict[Id, Ticket] = field(default_factory=dict[Id, Ticket])
    look: dict[str, int] = field(default_factory=dict[str, int])
    seq: int = 0
    swept: int = -(10**6)


class Limiter:
    """now: the time of Redis. on: the rules that hold."""

    def __init__(
        self, now: Callable[[], int], on: frozenset[str] = ALL, *, reserved: int = RESERVED, sleep: int = SLEEP
    ) -> None:
        self.k = LimiterKeys()
        self.on, self.reserved, self.sleep = on, reserved, sleep
        self._now = now
        self._touched: dict[str, None] = {}
        self._told: list[tuple[str, Id]] = []
        self._change: dict[str, int] = {}

    @property
    def now(self) -> int:
        return self._now()

    # -- lines
    def _first_head(self, key: str, queue: str) -> tuple[str, int, str, Id] | None:
        first = min((each for each in self.k.line if each[:2] == (key, queue)), default=None)
        return first and (key, first[2], queue, first[3])

    def _is_asleep(self, queue: str) -> bool:
        return self.k.asleep.get(queue, -1) > self.now

    def _look_at(self, key: str, at: int) -> None:
        self.k.look[key] = min(at, self.k.look.get(key, at))

    def _rouse(self, queue: str, key: str) -> None:
        if (queue, key) in self.k.idle:
            self.k.idle.discard((queue, key))
            first = self._first_head(key, queue)
            if first:
                self.k.heads.add(first)
            self._look_at(key, self.now)

    def _head_of(self, key: str) -> tuple[str, int, str, Id] | None:
        while head := min((each for each in self.k.heads if each[0] == key), default=None):
            if not self._is_asleep(head[2]):
                return head
            self.k.heads.discard(head)
            self.k.idle.add((head[2], key))
        return None

    def _join(self, job: Id, t: Ticket, key: str) -> None:
        self._rouse(t.queue, key)
        before = self._first_head(key, t.queue)
        self.k.line.add((key, t.queue, t.seq, job))
        after = self._first_head(key, t.queue)
        if after and before != after:
            self.k.heads.discard(before or after)
            self.k.heads.add(after)
        t.where = key
        self.k.tickets[job] = t

    def _leave(self, job: Id, t: Ticket) -> None:
        if not t.where:
            return
        key, t.where = t.where, ""
        self.k.line.discard((key, t.queue, t.seq, job))
        if (key, t.seq, t.queue, job) in self.k.heads:
            self.k.heads.discard((key, t.seq, t.queue, job))
            first = self._first_head(key, t.queue)
            if first:
                self.k.heads.add(first)

    # -- what is in use
    def _use(self, key: str, by: int) -> None:
        used = max(0, self.k.used.get(key, 0) + by)
        self._change[key] = self._change.get(key, 0) + by
        if used:
            self.k.used[key] = used
        else:
            self.k.used.pop(key, None)

    def _weigh(self, seq: float, key: str, most: int, *, kept: bool) -> bool:
        if self.k.used.get(key, 0) + 1 > most:
            return False
        head = None if kept else self._head_of(key)
        return not (head and head[1] < seq)

    def _free(self, p: Permit) -> None:
        if p.state != "x":
            self._use(p.key, -1)
        self._touched[p.key] = None

    def _drop(self, job: Id, p: Permit) -> None:
        self._free(p)
        del self.k.held[job]
        self.k.expiry.pop(job, None)

    def _next_seq(self) -> int:
        self.k.seq = max(self.k.seq + 1, self.now * 1000)
        return self.k.seq

    def _begin(self) -> None:
        self._touched, self._told, self._change = {}, [], {}

    # -- scripts
    def admit(self, consumer: str, asks: Sequence[Ask], lease: int) -> list[str]:
        """A word for each: ok or wait."""
        self._begin()
        words = [self._ask(consumer, ask, lease) for ask in asks]
        for key, change in self._change.items():
            if change < 0 and self._head_of(key):
                self._look_at(key, self.now)
        return words

    def _is_there(self, queue: str, key: str) -> None:
        if queue in self.k.asleep:
            self.k.asleep[queue] = 0
            self._rouse(queue, key)

    def _ask(self, consumer: str, ask: Ask, lease: int) -> str:
        job, k = ask.id, self.k
        p, t = k.held.get(job), k.tickets.get(job)
        self._is_there(ask.queue, ask.key)
        if p and p.start > ask.start and "admit_supersedes" in self.on:
            return "wait"
        if p and (p.state, p.start, p.consumer) == ("h", ask.start, consumer):
            k.expiry[job] = self.now + lease
            return "ok"
        kept, seq = bool(p and p.state != "x"), p.seq if p else t.seq if t else None
        stood = t.where if t else ""
        if p:
            self._drop(job, p)
        if t:
            self._leave(job, t)
        fits = self._weigh(0 if p else float("inf") if seq is None else seq, ask.key, ask.most, kept=kept)
        if stood and (fits or stood != ask.key) and self._head_of(stood):
            self._look_at(stood, self.now)
        if not fits:
            place = self._next_seq() if seq is None else seq
            self._join(job, Ticket(place, ask.queue, "", ask.key, ask.most), ask.key)
            k.expiry.pop(job, None)
            return "wait"
        k.tickets.pop(job, None)
        self._use(ask.key, 1)
        k.held[job] = Permit("h", ask.start, consumer, ask.queue, seq or 0, ask.key, ask.most)
        k.expiry[job] = self.now + lease
        return "ok"

    def release(self, consumer: str, ended: Sequence[tuple[Id, int]]) -> list[tuple[str, Id]]:
        """Attempts have ended, or with start 0 a job is gone; answers queue and id of each that is to come."""
        self._begin()
        for job, start in ended:
            p = self.k.held.get(job)
            if start == 0:
                self._is_gone(job, p)
            elif p and p.state != "r" and self._is_its_own(p, start, consumer):
                self._drop(job, p)
        return self._wake(consumer)

    def _is_its_own(self, p: Permit, start: int, consumer: str) -> bool:
        return "permit_of_attempt" not in self.on or (p.start, p.consumer) == (start, consumer)

    def _is_gone(self, job: Id, p: Permit | None) -> None:
        t = self.k.tickets.get(job)
        if p:
            if p.state == "r":
                self._drop(job, p)
            queue = p.queue
        elif t and not t.where:
            del self.k.tickets[job]
            self.k.expiry.pop(job, None)
            queue = t.queue
        else:
            return
        if self._is_asleep(queue):
            self.k.asleep[queue] = 0

    def hold(self, consumer: str, permits: Sequence[tuple[Id, int]], lease: int) -> list[Id]:
        """Those that are lost."""
        self._begin()
        lost: list[Id] = []
        for job, start in permits:
            p = self.k.held.get(job)
            own = p is not None and (p.consumer, p.start) == (consumer, start) and p.state != "r"
            if p and own and (p.state == "h" or self._take_again(p)):
                self.k.expiry[job] = self.now + lease
            else:
                if p and own:
                    self._drop(job, p)
                lost.append(job)
        return lost

    def _take_again(self, p: Permit) -> bool:
        if self._head_of(p.key) or self.k.used.get(p.key, 0) + 1 > p.most:
            return False
        p.state = "h"
        self._use(p.key, 1)
        return True

    def sweep(self, consumer: str, every: int, keep: int) -> list[tuple[str, Id]]:
        """What was lost comes back; answers who is to come, as `release`."""
        k = self.k
        if 0 <= self.now - k.swept < every:
            return []
        self._begin()
        later = self.now + keep
        self._count_again()
        for job in [job for _, job in sorted((at, job) for job, at in k.expiry.items() if at <= self.now)]:
            self._lapse(job, later)
        self._rouse_queues()
        for key in [key for _, key in sorted((at, key) for key, at in k.look.items() if at <= self.now)]:
            del k.look[key]
            self._touched[key] = None
        told = self._wake(consumer)
        if not k.expiry:
            k.expiry = dict.fromkeys(k.held, later)
            if not k.expiry:
                for key in k.used:
                    self._look_at(key, self.now)
                k.used, k.counted = {}, False
        k.swept = self.now
        return told

    def _count_again(self) -> None:
        """Where `used` was lost, permits say what is in use."""
        k = self.k
        if k.counted or not k.expiry:
            return
        for key in k.used:
            self._look_at(key, self.now)
        k.used = {}
        for p in k.held.values():
            if p.state != "x":
                self._use(p.key, 1)
        k.counted = True

    def _rouse_queues(self) -> None:
        for queue in [queue for queue, until in self.k.asleep.items() if until <= self.now]:
            for _, key in [part for part in self.k.idle if part[0] == queue]:
                self._rouse(queue, key)
            del self.k.asleep[queue]

    def _lapse(self, job: Id, later: int) -> None:
        k = self.k
        p, t = k.held.get(job), k.tickets.get(job)
        if p and p.state == "x":
            self._drop(job, p)
        elif p and p.state == "h" and "permits_lapse" not in self.on:
            k.expiry[job] = later
        elif p and p.state == "h":
            self._free(p)
            p.state = "x"
            k.expiry[job] = later
        elif p:
            self._free(p)
            self._not_come(job, p, later)
        elif t and not t.where and "told_again" in self.on:
            k.expiry[job] = later
            self._told.append((t.queue, job))
        else:
            k.expiry.pop(job, None)

    def _not_come(self, job: Id, p: Permit, later: int) -> None:
        k = self.k
        del k.held[job]
        k.tickets[job] = Ticket(p.seq if p.seq > 0 else self._next_seq(), p.queue, "", p.key, p.most)
        k.expiry[job] = later
        k.asleep[p.queue] = self.now + self.sleep
        if "told_again" in self.on:
            self._told.append((p.queue, job))

    def _wake(self, consumer: str) -> list[tuple[str, Id]]:
        for key in self._touched:
            while head := self._head_of(key):
                _, seq, queue, job = head
                t = self.k.tickets.get(job)
                if t is None or (t.where, t.seq) != (key, seq):
                    self._leave(job, Ticket(seq, queue, key, key, 0))
                    if t is None:
                        self._told.append((queue, job))
                elif self._weigh(seq, key, t.most, kept=False):
                    self._call_up(job, t, consumer)
                else:
                    break
        return self._told

    def _call_up(self, job: Id, t: Ticket, consumer: str) -> None:
        self._leave(job, t)
        del self.k.tickets[job]
        self._told.append((t.queue, job))
        if "reserved_first" in self.on:
            self._use(t.key, 1)
            self.k.held[job] = Permit("r", 0, consumer, t.queue, t.seq, t.key, t.most)
            self.k.expiry[job] = self.now + self.reserved
