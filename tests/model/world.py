"""One run: stores, processes, faults between any two actions, and at the end everything must come to rest."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from tests.model.choices import Choices
from tests.model.ledger import Ledger
from tests.model.limiter import Limiter, LimiterKeys
from tests.model.others import Others
from tests.model.postgres import Row
from tests.model.postgres_runs import PostgresOfRuns
from tests.model.process import Actor, Process, Request, nothing
from tests.model.queue_worker import Queue
from tests.model.relay import Relays
from tests.model.rules import ALL
from tests.model.values import RELAY_LEASE, Delivery, Id, Keys, Lost
from tests.model.worker import Workers

FAULTS = ("kill", "pause", "lost", "flush", "rollback", "away", "limbo", "keyloss", "clock")
MOODS = ("mixed", "deaths", "keys", "steps", "lanes", "limits", "family")
STORM, CALM = 45, 320
"""Rounds with faults, and after that at most without."""
LOSABLE = (
    "ready",
    "jobs",
    "due",
    "runs",
    "outcomes",
    "graves",
    "keys",
    "windows",
    "lanes",
    "behind",
    "life",
    "limiter",
)


LOOKS = frozenset(
    (
        "promote", "reclaim", "read", "take", "wait", "cancels", "deliver", "open", "_batch", "bury", "sweep",
        "with_staged", "_mark_of", "published", "come_due", "_read", "some_jobs", "some_lanes", "some_keys", "audit",
        "<lambda>", "recall", "rowless", "_starts", "forget", "mark", "is_held",
    )
)  # fmt: skip
"""Of these only what they found is told in a trace."""


class World:
    """A run is made of choices alone; the same choices make the same run.

    Args:
        on: the rules that hold. faults: of which kinds there may be some. mood: what there is much of.
        trace: takes a line for each action that did something.
    """

    def __init__(
        self,
        choice: Choices,
        on: frozenset[str] = ALL,
        *,
        faults: Sequence[str] = FAULTS,
        mood: str | None = None,
        trace: list[str] | None = None,
    ) -> None:
        self.choice, self.on, self.trace = choice, on, trace
        self.now, self.storm, self.away_until = 0, True, 0
        self.ledger = Ledger()
        self.limbo: list[tuple[str, Request]] = []
        self._made = self._lives = 0
        names = ("a", "b")[: 1 + choice.below(2)]
        redis_clock, postgres_clock = 13 * choice.below(2), 29 * choice.below(2)
        self._clocks = [redis_clock, postgres_clock]
        self.queues = {name: Queue(name, self._redis_now, on, self.ledger) for name in names}
        self.limiter = Limiter(self._redis_now, on, reserved=8, sleep=15)
        self.pg = PostgresOfRuns(self._postgres_now, on, self.ledger, names)
        self.faults = [f for f in faults if choice.below(3) == 2] if choice.below(8) else []
        self.ledger.faulty = bool(self.faults)
        chosen = MOODS[choice.below(len(MOODS))]
        self.mood = mood or chosen
        self.most_jobs = 2 + choice.below(7)
        self._saved: tuple[dict[str, Keys], LimiterKeys] | None = None
        relays, workers, others = Relays(self), Workers(self), Others(self)
        self.processes = [Process(f"relay{n}", *relays.loops()) for n in (1, 2)]
        self.processes += [Process(f"worker{n}", workers.work, workers.heart) for n in (1, 2, 3)]
        self.processes += [Process(f"producer{n}", others.produce) for n in (1, 2)]
        self.processes += [Process("operator", others.operate)]
        self.processes += [Process(f"scheduler{n}", others.schedule) for n in (1, 2)]

    def _redis_now(self) -> int:
        return self.now + self._clocks[0]

    def _postgres_now(self) -> int:
        return self.now + self._clocks[1]

    # -- what actors ask for
    def again(self) -> bool:
        """Whether a call whose reply was lost is repeated."""
        return self.choice.chance(0.6)

    def new_id(self) -> Id:
        self._made += 1
        return f"j{self._made}"

    def new_epoch(self) -> str:
        self._lives += 1
        return f"life{self._lives}"

    def any_queue(self) -> str:
        return list(self.queues)[self.choice.below(len(self.queues))]

    def new_child(self, d: Delivery) -> Row:
        body = ("plain", "steps")[self.choice.below(2)]
        return Row(self.new_id(), self.any_queue(), 0, 0, body, parent=d.id)

    def say(self, who: str, text: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now:3} {who}: {text}")

    # -- actions
    def _turn(self, actor: Actor) -> None:
        self.ledger.step += 1
        self.ledger.now, self.ledger.postgres_now = self.now, self.pg.now
        try:
            answer = self._perform(actor.process.id, actor.request)
        except Lost as lost:
            actor.request = actor.generator.throw(lost)
        else:
            actor.request = actor.generator.send(answer)

    def _perform(self, who: str, request: Request) -> Any:
        if request.store == "pg" and self.now < self.away_until:
            raise Lost
        fault = self._fault_of(who, request)
        answer = request.call(*request.args) if fault in ("", "its reply is lost") else None
        if self.trace is not None and request.call is not nothing and (fault or not _is_dull(request, answer)):
            told = f"{request.store} {request.call.__name__}{_brief(request.args)} -> {_brief(answer)}"
            self.say(who, told + (f"   ({fault})" if fault else ""))
        if fault:
            raise Lost
        return answer

    def _fault_of(self, who: str, request: Request) -> str:
        if request.store == "local" or not self.storm or not self.faults:
            return ""
        if "lost" in self.faults and self.choice.chance(0.04):
            return ("its reply is lost", "it is lost")[self.choice.below(2)]
        if "limbo" in self.faults and self.choice.chance(0.02):
            self.limbo.append((who, request))
            return "it is held up"
        return ""

    # -- faults
    def _weather(self) -> None:
        """At most one fault a round, of the kinds that this run was dealt."""
        if not self.faults or not self.choice.chance(0.12):
            return
        kind = self.faults[self.choice.below(len(self.faults))]
        process = self.processes[self.choice.below(5)]
        if kind == "kill":
            self.say("fault", f"{process.id} is killed")
            self.ledger.killed(process.id)
            process.start()
        elif kind == "pause":
            process.paused = self.now + 1 + self.choice.below(2 * RELAY_LEASE)
            self.say("fault", f"{process.id} is paused until {process.paused}")
        elif kind == "away":
            self.away_until = self.now + 1 + self.choice.below(6)
            self.say("fault", f"Postgres is away until {self.away_until}")
        elif kind == "clock":
            self._clocks[0] += 3 + self.choice.below(8)
            self.ledger.clock_moved = True
            self.say("fault", "the clock of Redis jumps forward")
        elif kind in ("flush", "rollback", "keyloss"):
            self._lose(kind)
        elif self.limbo:
            who, (store, call, args) = self.limbo.pop(0)
            self.say(who, f"(held up till now) {store} {call.__name__}{_brief(args)} -> {_brief(call(*args))}")

    def _lose(self, kind: str) -> None:
        self.ledger.losses += 1
        self.ledger.partial = self.ledger.partial or kind != "flush"
        if kind == "flush":
            self.say("fault", "Redis is emptied")
            for q in self.queues.values():
                q.k = Keys()
            self.limiter.k = LimiterKeys()
        elif kind == "rollback" and self._saved is not None:
            self.say("fault", "Redis goes back to what was saved")
            saved, limiter = copy.deepcopy(self._saved)
            for name, q in self.queues.items():
                q.k = saved[name]
            self.limiter.k = limiter
        elif kind == "keyloss":
            self._lose_key(self.queues[self.any_queue()], LOSABLE[self.choice.below(len(LOSABLE))])

    def _lose_key(self, q: Queue, name: str) -> None:
        self.say("fault", f"the key {name} of {q.name} is lost")
        k, empty = q.k, Keys()
        if name == "ready":
            k.streams, k.unread, k.pending = empty.streams, empty.unread, empty.pending
        elif name == "life" and "one_life_key" not in self.on:
            k.fence = 0
        elif name == "life":
            k.epoch, k.fence, k.settled, k.swept = "", 0, 0, empty.swept
        elif name == "limiter":
            self.limiter.k = LimiterKeys()
        else:
            setattr(k, name, getattr(empty, name))

    # -- time
    def _round(self) -> None:
        awake = [a for p in self.processes if p.paused <= self.now for a in p.actors]
        relays = self.processes[:2]
        if not any(p.paused > self.now for p in relays):
            awake += [a for p in relays for a in p.actors] * 2
        while awake:
            actor = awake.pop(self.choice.below(len(awake)))
            if actor in actor.process.actors:
                self._turn(actor)
        self.now += 1

    def run(self) -> None:
        """Raises Violation where a promise is broken."""
        for _ in range(STORM):
            self._weather()
            if self.choice.chance(0.06) and "rollback" in self.faults:
                self._saved = copy.deepcopy(({name: q.k for name, q in self.queues.items()}, self.limiter.k))
                self.say("redis", "is saved")
            self._round()
        self._clear_up()
        for _ in range(CALM):
            if self._at_rest():
                self.ledger.close(set(self.pg.t.finished))
                return
            self._round()
        self._never_rested()

    def _clear_up(self) -> None:
        self.storm, self.away_until, self.limbo = False, 0, []
        self.say("fault", "there are none from here on")
        for process in self.processes:
            process.paused = 0

    def _left(self) -> dict[str, Any]:
        """What is left of jobs in Redis."""
        names = ("jobs", "streams", "due", "runs", "outcomes", "keys", "lanes", "behind", "cancels")
        left: dict[str, Any] = {}
        for q in self.queues.values():
            found = {name: value for name in names if (value := getattr(q.k, name))}
            if not any(q.k.streams):
                found.pop("streams", None)
            if found:
                left[q.name] = found
        if self.limiter.k.held or self.limiter.k.tickets:
            left["limiter"] = (self.limiter.k.held, self.limiter.k.tickets)
        return left

    def _at_rest(self) -> bool:
        return not self.pg.t.rows and not self._left()

    def _never_rested(self) -> None:
        for row in self.pg.t.rows.values():
            place = self.queues[row.queue].k.jobs.get(row.id)
            self.ledger.broke("stuck", f"{row.id} ({row.body}) never ended: {row.state}, in Redis {place}")
        self.ledger.broke("leftover", f"in Redis at rest: {self._left()}")


def _is_dull(request: Request, answer: Any) -> bool:
    nothing_new = answer in (None, [], 0, False) or (isinstance(answer, tuple) and not any(answer[:1]))
    return request.call.__name__ in LOOKS and (nothing_new or request.call.__name__ in ("_mark_of", "take", "promote"))


def _brief(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "(" + ", ".join(_brief(each) for each in value) + ")"
    if isinstance(value, Queue):
        return value.name
    if isinstance(value, Process):
        return value.id
    for name in ("id", "token", "word"):
        if hasattr(value, name) and not isinstance(value, str):
            number = f"#{value.number}" if hasattr(value, "number") else ""
            return f"{getattr(value, name)}{number}" + (f":{value.word}" if hasattr(value, "word") else "")
    return str(value)
