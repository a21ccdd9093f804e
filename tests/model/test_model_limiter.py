"""The same calls to the model's limiter and to the real scripts: same answers, same permits, same lines."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from hypothesis import Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from redisjobs.base import scripts
from redisjobs.broker import Ask as RealAsk
from tests.model.limiter import Ask, Limiter
from tests.model.test_model_lockstep import SLOW, one_of
from tests.support.limiting import LimiterByHand, limit

UNIT_MS = 10_000
"""One unit of the model's time: what is reserved is kept for one, a queue sleeps for three."""
LEASE, KEEP = 2, 6
_SWEEP = scripts.load("sweep")
MOST = {"a": 1, "b": 2}
QUEUES, CONSUMERS = ("q", "mail"), ("w1", "w2")
ACTIONS = ("ask", "ask", "ask", "ask_again", "ask_again", "release", "release", "gone", "hold", "sweep", "pass_time")


class Machine(RuleBasedStateMachine):
    """Jobs of two queues that want one share of one of two limits."""

    url = ""

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.h = LimiterByHand(self.url)
        self.h.redis.flushall()
        self.now = 0
        self.model = Limiter(lambda: self.now, reserved=1, sleep=3)
        self.asks: list[tuple[str, Ask]] = []

    def teardown(self) -> None:
        if hasattr(self, "h"):
            self.loop.run_until_complete(self.h.__aexit__())
            self.loop.close()

    @rule(action=st.sampled_from(ACTIONS), pick=st.integers(0, 99), n=st.integers(0, 9), twice=st.booleans())
    def do_something(self, action: str, pick: int, n: int, twice: bool) -> None:
        for _ in range(1 + (twice and n % 3 == 0)):
            getattr(self, action)(pick, n)

    # -- calls
    def admit(self, consumer: str, asks: list[Ask]) -> None:
        real = [RealAsk(a.id.encode(), a.start, a.queue, (limit(a.key, a.most),)) for a in asks]
        verdicts = self.loop.run_until_complete(self.h.admit(*real, consumer=consumer, lease_ms=LEASE * UNIT_MS))
        assert [each.word for each in verdicts] == self.model.admit(consumer, asks, LEASE)

    def ask(self, pick: int, n: int) -> None:
        key = "ab"[pick % 2]
        new = Ask(f"{len(self.asks) + 1:016d}", 1, QUEUES[pick // 2 % 2], key, MOST[key])
        self.asks.append((CONSUMERS[pick // 4 % 2], new))
        others = [one_of(self.asks, n)[1]] if n > 6 else []
        self.admit(self.asks[-1][0], [new, *others])

    def ask_again(self, pick: int, n: int) -> None:
        """Under the same start, the next one, or one that was before."""
        if self.asks:
            at = len(self.asks) - 1 - pick % len(self.asks)
            consumer, ask = self.asks[at]
            again = ask._replace(start=max(1, ask.start + (0, 1, 1, -1)[n % 4]))
            consumer = CONSUMERS[n // 4 % 2] if n % 4 else consumer
            self.asks[at] = (consumer, again)
            self.admit(consumer, [again])

    def told(self, consumer: str, ended: list[tuple[str, int]]) -> None:
        real = [(job.encode(), start) for job, start in ended]
        woken = self.loop.run_until_complete(self.h.limiter.release(consumer, real))
        assert [(each.queue, each.job_id.decode()) for each in woken] == self.model.release(consumer, ended)

    def release(self, pick: int, n: int) -> None:
        if self.asks:
            consumer, ask = one_of(self.asks, pick)
            self.told(consumer if n else "nobody", [(ask.id, ask.start)])

    def gone(self, pick: int, n: int) -> None:
        if self.asks:
            self.told(CONSUMERS[n % 2], [(one_of(self.asks, pick)[1].id, 0)])

    def hold(self, pick: int, n: int) -> None:
        if self.asks:
            consumer, ask = one_of(self.asks, pick)
            held = [(ask.id, ask.start)]
            real = self.h.heart.hold(consumer, LEASE * UNIT_MS, [(job.encode(), start) for job, start in held])
            assert {job.decode() for job in real} == set(self.model.hold(consumer, held, LEASE))

    def sweep(self, pick: int, n: int) -> None:
        every = n % 2
        reply: Any = self.h.limiter._run(_SWEEP, CONSUMERS[pick % 2], every * UNIT_MS, KEEP * UNIT_MS)
        _, *flat = self.loop.run_until_complete(reply)
        woken = [(flat[at].decode(), flat[at + 1].decode()) for at in range(0, len(flat), 3)]
        told = self.model.sweep(CONSUMERS[pick % 2], every, KEEP)
        assert self.by_key(woken) == self.by_key(told)

    def by_key(self, woken: list[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
        """Who was told to come, in the order of each limit: of two that are due together the model knows no first."""
        keys = {ask.id: ask.key for _, ask in self.asks}
        return {key: [each for each in woken if keys[each[1]] == key] for key in MOST}

    def pass_time(self, pick: int, n: int) -> None:
        units = 1 + n % 3
        self.now += units
        pipe = self.h.redis.pipeline()
        for name in ("expiry", "asleep", "look"):
            for member, score in self.h.redis.zrange(self.h.key(name), 0, -1, withscores=True):
                if score:
                    pipe.zincrby(self.h.key(name), -units * UNIT_MS, member)
        swept = self.h.redis.hget(self.h.key("life"), "swept")
        if swept:
            pipe.hset(self.h.key("life"), "swept", int(swept) - units * UNIT_MS)
        pipe.execute()

    # -- the same form
    @invariant()
    def both_are_the_same(self) -> None:
        if not hasattr(self, "h"):
            return
        pipe = self.h.redis.pipeline(transaction=True)
        pipe.time()
        for name in ("held", "tickets", "used"):
            pipe.hgetall(self.h.key(name))
        for name in ("expiry", "asleep", "look", "line", "heads", "idle"):
            pipe.zrange(self.h.key(name), 0, -1, withscores=True)
        (seconds, micros), held, tickets, used, *sets = pipe.execute()
        now_ms = seconds * 1000 + micros // 1000
        times = [{m.decode(): max(0, round((at - now_ms) / UNIT_MS)) for m, at in each} for each in sets[:3]]
        real_held = {job.decode(): text.decode().split("\n")[0].split(" ")[:5] for job, text in held.items()}
        real_tickets = {job.decode(): text.decode().split("\n")[:2] for job, text in tickets.items()}
        k = self.model.k
        assert {job: (p[0], int(p[1]), p[2], p[3], p[4] != "0") for job, p in real_held.items()} == {
            job: (p.state, p.start, p.consumer, p.queue, p.seq > 0) for job, p in k.held.items()
        }
        assert {job: (head.split(" ")[1], where) for job, (head, where) in real_tickets.items()} == {
            job: (t.queue, t.where) for job, t in k.tickets.items()
        }
        assert {key.decode(): int(n) for key, n in used.items() if key} == k.used
        assert times == [{m: max(0, at - self.now) for m, at in each.items()} for each in (k.expiry, k.asleep, k.look)]
        line, heads, idle = ([m.decode() for m, _ in each] for each in sets[3:])
        assert [m.split("\n")[-1] for m in line] == [job for *_, job in sorted(k.line)]
        assert [m.split("\n")[-1] for m in heads] == [job for *_, job in sorted(k.heads)]
        assert sorted(m.split("\n")[0] for m in idle) == sorted(queue for queue, _ in k.idle)


def test_the_model_of_the_limiter_answers_as_the_scripts_do(redis_url: str):
    Machine.url = redis_url
    run_state_machine_as_test(
        seed(int(os.environ.get("MODEL_SEED", "0")))(Machine),
        settings=settings(
            max_examples=int(os.environ.get("MODEL_EXAMPLES", "10")), stateful_step_count=30, deadline=None,
            database=None, phases=[Phase.generate, Phase.shrink], suppress_health_check=SLOW,
            print_blob=False,
        ),
    )  # fmt: skip
