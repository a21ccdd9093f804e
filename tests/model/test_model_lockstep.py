"""The same calls to the model's queue and to the real scripts, with losses between them: same answers, same state."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.model.as_one import UNIT_MS, WHOLE, BothQueues
from tests.model.values import Delivery, End, Fence, Id, Item, Live

T = TypeVar("T")

CONSUMERS = ("w1", "w2")
KEYS = ("", "", "k", "key two")
LANES = ("", "", "lane", "skips")
LEASE = 3
SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
WORDS = ("done", "limited", "retry", "snooze", "suspended", "dead", "released", "parked", "limited", "cancelled")
ACTIONS = (
    "publish", "publish", "publish", "take", "take", "take", "finish", "finish", "finish", "finish", "settle", "settle",
    "publish_again", "publish_again", "wait_and_begin", "recall", "reclaim", "reclaim", "renew", "overtake", "cancel",
    "move", "promote", "promote", "bury", "audit", "forget", "wake", "free", "vacate", "pass_time", "pass_time",
    "open", "lose", "save", "go_back", "flush", "holder",
)  # fmt: skip


def one_of(things: Sequence[T], pick: int) -> T:
    """The newest for 0, so that what has just happened is met often."""
    return things[-1 - pick % len(things)]


class Machine(RuleBasedStateMachine):
    """One queue, two workers, a relay that at times shows an old token or a former life."""

    url = ""

    @initialize()
    def start(self) -> None:
        self.both = BothQueues(self.url)
        self.fence = Fence(1, "e1")
        self.items: dict[Id, Item] = {}
        self.held: list[tuple[str, Delivery]] = []
        self.lives = 1
        self.open(1, 0, twice=False)

    def teardown(self) -> None:
        if hasattr(self, "both"):
            self.both.close()

    @rule(action=st.sampled_from(ACTIONS), pick=st.integers(0, 99), n=st.integers(0, 9), twice=st.booleans())
    def do_something(self, action: str, pick: int, n: int, twice: bool) -> None:
        """One rule for all: of many rules hypothesis leaves out some in each run, and then no job comes far."""
        getattr(self, action)(pick, n, twice)

    @invariant()
    def both_are_the_same(self) -> None:
        if hasattr(self, "both"):
            real, modelled = self.both.real_state(), self.both.model_state()
            assert real == modelled

    # -- the relay
    def shown(self, pick: int) -> Fence:
        """At times that of a relay that was replaced, or that has not heard of a loss."""
        if pick % 12 == 11:
            return Fence(self.fence.token - 1, self.fence.epoch)
        return Fence(self.fence.token, "former") if pick % 12 == 10 else self.fence

    def open(self, pick: int, n: int, twice: bool) -> None:
        """A new holder, and where Redis is in another life the name of a new one."""
        token = max(1, self.fence.token + (pick + 1) % 3 - 1)
        model, real = self.both.model, self.both.q.carrier
        word, epoch, _ = model.open(token, paused=n == 9)
        told = self.both.fenced(real.open("q", token, paused=n == 9))
        assert (told if isinstance(told, str) else told.epoch) == (word if word == "stale" else epoch)
        if word == "stale":
            return
        self.fence = Fence(token, self.fence.epoch)
        if epoch != self.fence.epoch:
            self.lives += 1
            self.fence = Fence(token, f"e{self.lives}")
            held = [("k", self.name(7), (3, -1)[n % 2]), ("lane", self.name(8), -2)] if twice else []
            assert model.adopt(self.fence, held) == "ok"
            keys = [(key.encode(), job.encode(), left if left < 0 else left * UNIT_MS) for key, job, left in held]
            assert self.both.fenced(real.adopt(self.both.fence(self.fence), keys)) is None

    @staticmethod
    def name(n: int) -> Id:
        return f"{n:016d}"

    def publish(self, pick: int, n: int, twice: bool) -> None:
        item = Item(
            self.name(len(self.items) + 1), key=KEYS[pick % 4], window=n % 3, band=n % 3, lane=LANES[pick // 4 % 4],
            order=(len(self.items) + 1) * (pick // 16 % 4 > 0), delay=(0, 0, 2)[n // 3 % 3], attempts=n // 9,
        )  # fmt: skip
        self.items[item.id] = item
        self.tell([item, item] if twice else [item], self.shown(pick))

    def publish_again(self, pick: int, n: int, twice: bool) -> None:
        """A repeat, a redrive, the next publication, or the next one after a suspension that has settled."""
        if not self.items:
            return
        item = one_of(list(self.items.values()), pick // 3)
        if pick % 3 == 1:
            item.life, item.number, item.after = item.life + 1, item.number + 1, 0
        elif pick % 3 == 2:
            item.number, item.after = item.number + 1, item.number if twice else item.after
        others = [one_of(list(self.items.values()), n)] if n % 3 == 0 else []
        self.tell([item, *others], self.shown(n * 2 + 2))

    def tell(self, items: list[Item], fence: Fence) -> None:
        real = self.both.q.carrier.publish(self.both.fence(fence), [self.both.publication(each) for each in items])
        told = self.both.fenced(real)
        words = told if isinstance(told, str) else [(word, owner.decode() if owner else None) for word, owner in told]
        assert words == self.both.model.publish(fence, items)

    def rows(self, pick: int) -> list[tuple[Id, int, int]]:
        chosen = list(self.items.values())[-1 - pick % 4 :]
        return [(each.id, each.life, each.after) for each in chosen]

    def cancel(self, pick: int, n: int, twice: bool) -> None:
        rows, fence = self.rows(pick)[: 1 + twice], self.shown(n + 2)
        real = self.both.q.carrier.cancel(self.both.fence(fence), [(job.encode(), *rest) for job, *rest in rows])  # type: ignore[misc]
        assert self.both.fenced(real) == self.both.model.cancel(fence, rows)

    def move(self, pick: int, n: int, twice: bool) -> None:
        rows = [(*row, n % 3, (-1, 0, 2)[pick % 3]) for row in self.rows(pick)[: 1 + twice]]
        fence = self.shown(n + 2)
        real = self.both.q.carrier.move(self.both.fence(fence), self.both.moves(rows))
        assert self.both.fenced(real) == self.both.model.move(fence, rows)

    def settle(self, pick: int, n: int, twice: bool) -> None:
        model, fence = self.both.model, self.shown(pick)
        positions = model.read_outcomes(model.k.settled, 1 + n % 3)
        last = self.both.q.redis.hget(self.both.q.key("life"), "settled") or b"0-0"
        read = self.both.do(self.both.q.carrier.outcomes("q", last, 1 + n % 3))
        told = [(o.job_id.decode(), o.word, o.life, o.number, o.attempts) for o in read]
        assert told == [o[:5] for position in positions for o in model.k.outcomes[position]]
        if read:
            real = list(dict.fromkeys(outcome.position for outcome in read))
            answer = self.both.fenced(self.both.q.carrier.settled(self.both.fence(fence), real))
            assert (answer or "ok") == model.settled(fence, positions)
            for outcome in read:
                if outcome.word == "suspended" and outcome.job_id.decode() in self.items:
                    item = self.items[outcome.job_id.decode()]
                    item.after = max(item.after, outcome.number)

    def bury(self, pick: int, n: int, twice: bool) -> None:
        assert self.both.q.script("bury", 1000, n // 2 * UNIT_MS) == self.both.model.bury(n // 2)

    def audit(self, pick: int, n: int, twice: bool) -> None:
        rows, fence = self.rows(pick), self.shown(n + 2)
        real = self.both.q.carrier.audit(self.both.fence(fence), [(job.encode(), *rest) for job, *rest in rows])  # type: ignore[misc]
        told = self.both.fenced(real)
        assert (told if isinstance(told, str) else [job.decode() for job in told]) == self.both.model.audit(fence, rows)

    def forget(self, pick: int, n: int, twice: bool) -> None:
        known = self.both.model.some_jobs()
        _, found = self.both.do(self.both.q.carrier.some_jobs("q", 0, 10_000))
        assert {job.decode() for job in found} == set(self.both.model.k.jobs)
        jobs, fence = [*known[pick % 3 :: 2], self.name(99)], self.shown(n + 2)
        real = self.both.q.carrier.forget(self.both.fence(fence), [job.encode() for job in jobs])
        assert self.both.fenced(real) == self.both.model.forget(fence, jobs)

    def free(self, pick: int, n: int, twice: bool) -> None:
        held, fence = [(key, job, n % 3) for key, job in self.both.model.k.keys.items()], self.shown(n + 2)
        real = self.both.q.carrier.free(
            self.both.fence(fence), [(key.encode(), job.encode(), left * UNIT_MS) for key, job, left in held]
        )
        assert self.both.fenced(real) == self.both.model.free(fence, held)

    def vacate(self, pick: int, n: int, twice: bool) -> None:
        lanes, fence = [(lane, head[0]) for lane, head in self.both.model.k.lanes.items()], self.shown(n + 2)
        real = self.both.q.carrier.vacate(
            self.both.fence(fence), [(lane.encode(), job.encode()) for lane, job in lanes]
        )
        assert self.both.fenced(real) == self.both.model.vacate(fence, lanes)

    def holder(self, pick: int, n: int, twice: bool) -> None:
        owner = self.both.do(self.both.q.broker.holder("q", KEYS[2 + pick % 2]))
        assert (owner.decode() if owner else None) == self.both.model.holder(KEYS[2 + pick % 2])

    # -- workers
    def hold(self, consumer: str, deliveries: list[Delivery]) -> None:
        self.held += [(consumer, each) for each in deliveries]

    def take(self, pick: int, n: int, twice: bool) -> None:
        consumer, count = CONSUMERS[pick % 2], 1 + n % 3
        real = self.both.do(self.both.q.take(consumer, count, LEASE * UNIT_MS))
        self.hold(consumer, self.both.deliveries(real, self.both.model.take(consumer, count, LEASE)))

    def wait_and_begin(self, pick: int, n: int, twice: bool) -> None:
        consumer, broker, model = CONSUMERS[pick % 2], self.both.q.broker, self.both.model
        self.both.make_groups()
        if not any(model.k.unread):
            return  # a read would wait
        entries = self.both.do(broker.wait("q", consumer, 1))
        modelled = model.wait(consumer)
        self.both.waited(entries, modelled)
        if n > 6:
            return  # it died between the two
        begun: list[Delivery] = []
        for _ in range(1 + twice):
            real = self.both.do(broker.begin("q", consumer, entries, lease_ms=LEASE * UNIT_MS, room=1)).deliveries
            begun = self.both.deliveries(real, model.begin(consumer, modelled, 1, LEASE))
        self.hold(consumer, begun)

    def recall(self, pick: int, n: int, twice: bool) -> None:
        consumer = CONSUMERS[pick % 2]
        real = self.both.do(self.both.q.broker.recall("q", consumer, lease_ms=LEASE * UNIT_MS))
        self.hold(consumer, self.both.deliveries(real, self.both.model.recall(consumer, LEASE)))

    def reclaim(self, pick: int, n: int, twice: bool) -> None:
        consumer, count = CONSUMERS[pick % 2], 1 + n % 2
        real = self.both.do(self.both.q.reclaim(consumer, count, LEASE * UNIT_MS, losses=2))
        self.hold(consumer, self.both.deliveries(real, self.both.model.reclaim(consumer, count, LEASE, 2)))

    def renew(self, pick: int, n: int, twice: bool) -> None:
        if self.held:
            owner, d = one_of(self.held, pick)
            consumer = owner if n else "nobody"
            asked = [(d.id.encode(), self.both.entry(d.stream, d.entry), d.start, d.stream)]
            told = self.both.q.heart.renew("q", consumer, asked)
            modelled = self.both.model.renew(consumer, d.id, d.entry, d.start, d.stream)
            assert told.get(d.id.encode(), "ok") == modelled

    def overtake(self, pick: int, n: int, twice: bool) -> None:
        if not self.held:
            return
        consumer, d = one_of(self.held, pick)
        above = (d.number + n % 2, d.start + n % 3)
        real = self.both.q.script(
            "overtake", consumer, d.id.encode(), self.both.entry(d.stream, d.entry), d.start, *above
        )
        told = self.both.model.overtake(consumer, d.id, d.entry, d.start, above)
        assert real == ([b"lost"] if told is None else [b"ok", *told])
        if told and twice:
            d.number, d.start = told

    def finish(self, pick: int, n: int, twice: bool) -> None:
        if not self.held:
            return
        owner, d = one_of(self.held, pick)
        word = "over" if n == 9 and pick % 2 else WORDS[n]
        end = End(d.id, d.entry, d.start, word, (0, 1, 3)[pick % 3], counted=word == "retry", skips=d.start % 2 == 0)
        if word == "suspended" and pick % 2:
            end.delay = -1
        consumer = "nobody" if pick % 20 == 19 else owner
        ends = [
            (d, end),
            *[(each, End(each.id, each.entry, each.start, "done")) for c, each in self.held[-2:] if c == owner],
        ]
        ends = ends if twice else ends[:1]
        assert self.both.finish(consumer, ends) == self.both.model.finish(consumer, [each for _, each in ends])

    def promote(self, pick: int, n: int, twice: bool) -> None:
        moved, wait_ms, *_rest = self.both.q.script("promote", 1000, 10**9)
        cancels = {job.decode() for job in _rest[2:]}
        told, wait, asked = self.both.model.promote()
        assert (moved, None if wait_ms < 0 else round(wait_ms / UNIT_MS), cancels) == (told, wait, asked)

    def wake(self, pick: int, n: int, twice: bool) -> None:
        waiting = [job for job, rec in self.both.model.k.jobs.items() if isinstance(rec, Live) and rec.limited]
        jobs = [(job, (0, 2)[n % 2]) for job in [*waiting, *(job for job, _, _ in self.rows(pick))]]
        real = self.both.do(self.both.q.broker.wake("q", [(job.encode(), at * UNIT_MS) for job, at in jobs]))
        assert real == self.both.model.wake(jobs)

    # -- faults and time
    def pass_time(self, pick: int, n: int, twice: bool) -> None:
        self.both.pass_time(1 + n % 4)

    def lose(self, pick: int, n: int, twice: bool) -> None:
        if twice and n % 3 == 0:
            self.both.lose(WHOLE[pick % len(WHOLE)])

    def save(self, pick: int, n: int, twice: bool) -> None:
        self.both.save()

    def go_back(self, pick: int, n: int, twice: bool) -> None:
        if n % 2 == 0:
            self.both.go_back()

    def flush(self, pick: int, n: int, twice: bool) -> None:
        if twice and n % 5 == 0:
            self.both.flush()


def run(url: str, examples: int, steps: int, start: int = 0) -> None:
    Machine.url = url
    run_state_machine_as_test(
        seed(start)(Machine),
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, database=None,
            phases=[Phase.generate, Phase.shrink], suppress_health_check=SLOW, print_blob=False,
        ),
    )  # fmt: skip


def test_the_model_of_a_queue_answers_as_the_scripts_do(redis_url: str):
    run(redis_url, int(os.environ.get("MODEL_EXAMPLES", "12")), 40, int(os.environ.get("MODEL_SEED", "0")))
