"""Any calls to the limiter in any order, each perhaps twice or with its reply lost: a small model says what must hold.

The model knows what workers know: which attempts were let in, and by whom. Never more than the limit are let in among
live leases; who waits comes in the order of coming; what is free is never forgotten; and at rest nothing is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from redisjobs.broker import Ask, Want
from tests.support.limiting import LimiterByHand, Lines, ask, limit

T = TypeVar("T")

WANTS: tuple[tuple[Want, ...], ...] = (
    (limit("a", 1),),
    (limit("b", 2),),
    (limit("c:1", 4),),
    (limit("c:1", 4, weight=3),),
    (limit("a", 1), limit("b", 2)),
    (limit("b", 2), limit("a", 1)),
    (limit("c:2", 4, weight=4), limit("b", 2)),
    (limit("a", 1), limit("c:1", 4, weight=2), limit("b", 2)),
)
MOST = {"a": 1, "b": 2, "c": 4}
QUEUES = ("q", "mail")
CONSUMERS = ("w1", "w2", "w3")
ACTIONS = (
    "ask", "ask", "ask", "ask", "ask_again", "ask_again", "ask_again", "ask_again", "come_back_by_itself",
    "release", "release", "release", "release", "release", "release_as_another", "retry", "gone", "gone",
    "die", "hold", "hold", "hold_late", "start_anew", "miss_the_word", "sweep", "sweep", "adjust", "flush",
)  # fmt: skip


@dataclass(eq=False)
class Job:
    """A job as its queue knows it.

    Args:
        start: of its last attempt. holder: the worker that runs it; None: it waits.
        lapsed: its lease has lapsed while it ran. gone: it was cancelled while it waited.
    """

    n: int
    wants: tuple[Want, ...]
    queue: str
    start: int = 0
    holder: str | None = None
    lapsed: bool = False
    gone: bool = False
    takes: dict[str, int] = field(default_factory=dict)

    def ask(self) -> Ask:
        return ask(self.n, *self.wants, start=self.start, queue=self.queue)


class Machine(RuleBasedStateMachine):
    """Jobs of two queues, three workers that may die at any time."""

    url = ""

    @initialize()
    def open(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.h = LimiterByHand(self.url)
        self.h.redis.flushall()
        self.jobs: dict[int, Job] = {}
        self.told: set[int] = set()
        self.most = dict(MOST)
        self.made = 0

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(call)

    def teardown(self) -> None:
        if hasattr(self, "h"):
            self.to_the_end()
            self.do(self.h.__aexit__())
            self.loop.close()

    @rule(action=st.sampled_from(ACTIONS), pick=st.integers(0, 99), twice=st.booleans())
    def do_something(self, action: str, pick: int, twice: bool) -> None:
        """One rule for all: of many rules hypothesis leaves out some in each run, and then no job comes far."""
        getattr(self, action)(pick, twice)

    # -- what workers do
    def admit(self, job: Job, consumer: str, twice: bool) -> None:
        job.start += 1
        before = Lines(self.h)
        (verdict,) = self.do(self.h.admit(job.ask(), consumer=consumer))
        if twice:
            (again,) = self.do(self.h.admit(job.ask(), consumer=consumer))
            assert again == verdict
        self.told.discard(job.n)
        if verdict.word == "ok":
            job.holder = consumer
            self.has_all(job)
            self.came_in_turn(job, before)
        else:
            assert verdict.word == "wait"
            job.holder = None

    def has_all(self, job: Job) -> None:
        """It has a permit now."""
        job.lapsed = False
        job.takes = {want.key: min(want.weight, self.most[want.name]) for want in job.wants}
        for want in job.wants:
            assert self.in_use(want.key) <= self.most[want.name], f"{want.key} is above its limit"

    def in_use(self, key: str) -> int:
        """Among live leases."""
        return sum(job.takes[key] for job in self.live() if key in job.takes)

    def live(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.holder and not job.lapsed]

    def hear(self, woken: list[int], before: Lines) -> None:
        assert len(set(woken)) == len(woken)
        for n in woken:
            self.told.add(n)
            if n in self.jobs:
                self.came_in_turn(self.jobs[n], before)

    def came_in_turn(self, job: Job, before: Lines) -> None:
        """Of those that want the same one key, none stands in the line that came before."""
        if len(job.wants) == 1 and job.n in before.seq:
            for other in before.in_line:
                peer = self.jobs.get(other)
                if peer and peer.wants == job.wants and peer.queue == job.queue:
                    still = other in Lines(self.h).in_line
                    assert not still or before.seq[other] >= before.seq[job.n], f"{job.n} came before {other}"

    def ask(self, pick: int, twice: bool) -> None:
        self.made += 1
        job = self.jobs[self.made] = Job(self.made, WANTS[pick % len(WANTS)], QUEUES[pick // 10 % 2])
        self.admit(job, CONSUMERS[pick % 3], twice)

    def ask_again(self, pick: int, twice: bool) -> None:
        """A job that was told to come is begun again."""
        told = [self.jobs[n] for n in sorted(self.told) if n in self.jobs and not self.jobs[n].gone]
        if told:
            self.admit(told[pick % len(told)], CONSUMERS[pick % 3], twice)

    def come_back_by_itself(self, pick: int, twice: bool) -> None:
        """Its fallback in `due` has come."""
        if waiting := [job for job in self.jobs.values() if not job.holder and not job.gone]:
            self.admit(waiting[pick % len(waiting)], CONSUMERS[pick % 3], twice)

    def start_anew(self, pick: int, twice: bool) -> None:
        """Another worker has taken the job over."""
        if running := [job for job in self.jobs.values() if job.holder]:
            job = running[pick % len(running)]
            former, start = job.holder, job.start
            self.admit(job, CONSUMERS[(pick + 1) % 3], twice)
            assert self.h.hold(job.n, start=start, consumer=former or "") == {job.n}

    def end(self, pick: int, twice: bool) -> Job | None:
        if not (running := [job for job in self.jobs.values() if job.holder]):
            return None
        job = running[pick % len(running)]
        before = Lines(self.h)
        woken = self.do(self.h.release(job.n, start=job.start, consumer=job.holder or ""))
        job.holder = None
        if twice:
            assert self.do(self.h.release(job.n, start=job.start, consumer=CONSUMERS[0])) == []
        if pick % 5:  # else the reply was lost
            self.hear(woken, before)
        return job

    def release(self, pick: int, twice: bool) -> None:
        if job := self.end(pick, twice):
            del self.jobs[job.n]

    def retry(self, pick: int, twice: bool) -> None:
        """It comes back later, and stands at the end of the line again."""
        if job := self.end(pick, twice):
            self.admit(job, CONSUMERS[pick % 3], twice)

    def release_as_another(self, pick: int, twice: bool) -> None:
        if running := self.live():
            job, before = running[pick % len(running)], self.h.used()
            assert self.do(self.h.release(job.n, start=job.start, consumer="nobody")) == []
            assert self.do(self.h.release(job.n, start=job.start + 1, consumer=job.holder or "")) == []
            assert self.h.used() == before

    def gone(self, pick: int, twice: bool) -> None:
        """A job that waits is cancelled; the limiter hears of it when it tells the job to come."""
        waiting = [job for job in self.jobs.values() if not job.holder]
        if waiting and not pick % 3:
            waiting[pick % len(waiting)].gone = True
        for n in sorted(self.told):
            if n not in self.jobs or self.jobs[n].gone:
                before = Lines(self.h)
                self.told.discard(n)
                self.jobs.pop(n, None)
                woken = self.do(self.h.gone(n))
                if twice:
                    assert self.do(self.h.gone(n)) == []
                self.hear(woken, before)

    def die(self, pick: int, twice: bool) -> None:
        """Nobody renews this one any more."""
        if running := self.live():
            job = running[pick % len(running)]
            self.h.lapse(job.n)
            self.sweep(0, twice)
            job.lapsed = True
            assert self.h.state(job.n) == "x", "a permit is lost within a lease"

    def hold(self, pick: int, twice: bool) -> None:
        for job in self.live():
            assert self.h.hold(job.n, start=job.start, consumer=job.holder or "") == set()
        if waiting := [job for job in self.jobs.values() if not job.holder]:
            job = waiting[pick % len(waiting)]
            assert self.h.hold(job.n, start=job.start) == {job.n}

    def hold_late(self, pick: int, twice: bool) -> None:
        """A worker that was paused goes on."""
        if lapsed := [job for job in self.jobs.values() if job.holder and job.lapsed]:
            job = lapsed[pick % len(lapsed)]
            if self.h.hold(job.n, start=job.start, consumer=job.holder or ""):
                job.holder = None
                return
            self.has_all(job)

    def miss_the_word(self, pick: int, twice: bool) -> None:
        """What was reserved for a job is not come for in time."""
        reserved = [n for n in Lines(self.h).permits if self.h.state(n) == "r"]
        if reserved:
            n = reserved[pick % len(reserved)]
            self.h.lapse(n)
            before = Lines(self.h)
            woken = self.do(self.h.sweep())
            assert n in woken, "it is told again"
            self.hear(woken, before)

    def sweep(self, pick: int, twice: bool) -> None:
        if twice:  # queues that were asleep wake by themselves
            for queue in QUEUES:
                self.h.redis.zadd(self.h.key("asleep"), {queue: 1}, xx=True)
        before = Lines(self.h)
        self.hear(self.do(self.h.sweep()), before)
        assert Lines(self.h).could_begin(self.most) == set(), "somebody could begin, and nobody tells him"

    def adjust(self, pick: int, twice: bool) -> None:
        self.most["c"] = 2 + pick % 5
        self.do(self.h.limiter.set_limit("c", most=self.most["c"]))
        self.sweep(pick, twice)

    def flush(self, pick: int, twice: bool) -> None:
        """Redis loses everything; bodies under a permit are cancelled, and jobs come anew."""
        if pick % 10:
            return
        self.h.redis.flushall()
        self.most = dict(MOST)
        for job in self.live():
            assert self.h.hold(job.n, start=job.start, consumer=job.holder or "") == {job.n}
        self.told.clear()
        self.jobs = {n: job for n, job in self.jobs.items() if not job.gone}
        for job in self.jobs.values():
            job.holder = None

    # -- what must hold at all times
    @invariant()
    def what_is_known_fits_together(self) -> None:
        if hasattr(self, "h"):
            lines = Lines(self.h)
            lines.check()
            assert lines.could_begin(self.most) <= lines.looked_at, "somebody could begin, and no sweep looks"
            assert {job.n for job in self.live()} <= {n for n in lines.permits if self.h.state(n) == "h"}

    # -- the end of each run
    def to_the_end(self) -> None:
        for _ in range(300):
            self.gone(1, twice=False)
            for job in [job for job in self.jobs.values() if job.holder]:
                if job.lapsed and self.h.hold(job.n, start=job.start, consumer=job.holder or ""):
                    job.holder = None
                    self.admit(job, "w1", twice=False)
                    continue
                before = Lines(self.h)
                woken = self.do(self.h.release(job.n, start=job.start, consumer=job.holder or ""))
                del self.jobs[job.n]
                self.hear(woken, before)
            for n in sorted(self.told):
                if n in self.jobs and not self.jobs[n].gone:
                    self.admit(self.jobs[n], "w1", twice=False)
            lines = Lines(self.h)
            for job in [job for job in self.jobs.values() if not job.holder]:
                if job.n not in lines.tickets and self.h.state(job.n) in ("", "x"):  # its queue starts it again
                    self.admit(job, "w1", twice=False)
            self.h.lapse(*[n for n in lines.permits | lines.tickets if self.h.state(n) in ("r", "")])
            self.sweep(0, twice=True)
            if not self.jobs and not Lines(self.h).permits | Lines(self.h).tickets:
                break
        assert self.jobs == {}
        self.h.redis.delete(self.h.key("limits"))
        self.h.pass_looks()
        self.do(self.h.sweep())
        assert self.h.left() == {}


def test_any_calls_in_any_order(redis_url: str):
    Machine.url = redis_url
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=20,
            stateful_step_count=40,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
