"""Any calls in any order, each perhaps twice, with leases that lapse at once: a small model says what must hold.

The model knows what a relay and workers know. Redis must never contradict it: at most one accepted end for each job
and life, a job at one place at a time, keys with one owner, of each lane one job at a time and in order, and nothing
left once everything has ended.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from redisjobs.broker import Delivery, Move, Outcome, Publication, ShareRule, Word
from tests.support.builders import envelope, publication
from tests.support.queue import QueueByHand, dump

T = TypeVar("T")

FINAL = ("done", "dead", "cancelled", "expired")
WORDS: tuple[Word, ...] = (*FINAL, "retry", "snooze", "dead", "parked", "released")  # type: ignore[assignment]
CONSUMERS = ("w1", "w2", "w3")
LEASE_MS = 2
KEYS = (b"", b"", b"k1", b"k 2\n")
LANES = (b"", b"ordered", b"skips", b"ordered")
"""Of `ordered` nothing is published for later, and no retry is skipped."""
SHARES = (b"", b"a", b"b 1\n")
PICK = st.integers(0, 99)
ACTIONS = (
    "publish", "publish", "publish", "take", "take", "take", "finish", "finish", "finish", "finish", "settle", "settle",
    "promote", "move", "move", "publish_again", "redrive", "redrive", "cancel", "bury", "audit", "forget",
    "wait_and_begin", "wait_and_begin", "die_between_wait_and_begin", "recall", "reclaim", "reclaim", "renew",
    "finish_as_another", "pause_a_share",
)  # fmt: skip


def one_of(things: Sequence[T], pick: int) -> T:
    """The newest for 0, so that what has just happened is met often."""
    return things[-1 - pick % len(things)]


class Machine(RuleBasedStateMachine):
    """Jobs of one queue, three workers that may die at any time, one relay."""

    url = ""
    actions: Sequence[str] = ACTIONS

    @initialize()
    def open(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.q = QueueByHand(self.url)
        self.q.redis.flushall()
        self.do(self.q.open())
        self.made = 0
        self.rows: dict[bytes, Publication] = {}  # published, not settled
        self.dead: dict[bytes, Publication] = {}
        self.held: list[tuple[str, Delivery]] = []  # every delivery ever, the lapsed ones too
        self.accepted: dict[tuple[bytes, bytes, int, str], str] = {}  # job, entry, start, consumer: word of its finish
        self.tokens: set[tuple[bytes, int, int]] = set()
        self.newest: dict[bytes, Delivery] = {}  # of each job
        self.ends: Counter[tuple[bytes, int]] = Counter()  # accepted finishes that are final
        self.told: Counter[tuple[bytes, int]] = Counter()  # final outcomes
        self.places = 0  # rows in line so far
        self.begun = 0  # the place of the last one that began in the lane `ordered`

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(call)

    def teardown(self) -> None:
        if hasattr(self, "q"):
            self.to_the_end()
            self.do(self.q.__aexit__())
            self.loop.close()

    @rule(data=st.data(), pick=PICK, n=st.integers(0, 8), twice=st.booleans())
    def do_something(self, data: st.DataObject, pick: int, n: int, twice: bool) -> None:
        """One rule for all: of many rules hypothesis leaves out some in each run, and then no job comes far."""
        getattr(self, data.draw(st.sampled_from(self.actions)))(pick, n, twice)

    # -- the relay
    def publish(self, pick: int, n: int, twice: bool) -> None:
        self.made += 1
        key, lane, delay = KEYS[pick % len(KEYS)], LANES[pick // 4 % len(LANES)], n // 7
        job = publication(
            job_id=self.made.to_bytes(16, "big"), key=key, band=n % 3, lane=lane, order=self.next_place(),
            delay_ms=0 if lane == b"ordered" else delay, share=SHARES[pick % len(SHARES)],
        )  # fmt: skip
        ((word, owner),) = self.do(self.q.publish(job))
        if word == "new":
            self.rows[job.job_id] = job
        else:
            assert word == "dup"
            assert self.rows[owner or b""].key == key
        if twice:
            assert self.do(self.q.publish(job)) == [("repeat", None) if word == "new" else (word, owner)]

    def next_place(self) -> int:
        self.places += 1
        return self.places

    def publish_again(self, pick: int, n: int, twice: bool) -> None:
        if self.rows:
            job = one_of(list(self.rows.values()), pick)
            expected = self.told_again(job)
            assert self.do(self.q.publish(job)) == [expected]

    def told_again(self, job: Publication) -> tuple[str, bytes | None]:
        """What a relay hears that publishes it once more."""
        del job
        return "repeat", None

    def redrive(self, pick: int, n: int, twice: bool) -> None:
        if not self.dead:
            return
        former = self.dead.pop(one_of(list(self.dead), pick))
        job = publication(
            job_id=former.job_id, life=former.life + 1, number=former.number + 1, lane=former.lane,
            order=self.next_place(),
        )  # fmt: skip
        assert self.do(self.q.publish(job)) == [("new", None)]
        assert self.do(self.q.publish(job)) == [("repeat", None)]
        self.rows[job.job_id] = job

    def cancel(self, pick: int, n: int, twice: bool) -> None:
        if not self.rows:
            return
        job = one_of(list(self.rows.values()), pick)
        (word,) = self.do(self.q.carrier.cancel(self.q.fence, [(job.job_id, job.life, 0)]))
        assert word in ("ended", "running", "over")
        if twice:
            again = self.do(self.q.carrier.cancel(self.q.fence, [(job.job_id, job.life, 0)]))
            assert again == ["running" if word == "running" else "over"]

    def move(self, pick: int, n: int, twice: bool) -> None:
        """Another band, and perhaps another time: what waits has it, what runs goes on as it is."""
        if not self.rows:
            return
        job = one_of(list(self.rows.values()), pick)
        changed = replace(job, band=n % 3, envelope=envelope("mail", again=pick).pack())
        delay_ms = (None, 0, 0 if job.lane == b"ordered" else 1)[pick % 3]
        move = Move(job.job_id, job.life, 0, changed.band, delay_ms, changed.envelope)
        (word,) = self.do(self.q.carrier.move(self.q.fence, [move]))
        assert word in ("moved", "running", "over")
        if word == "moved":
            self.rows[job.job_id] = changed
        if twice:
            assert self.do(self.q.carrier.move(self.q.fence, [move])) == [word]

    def settle(self, pick: int, n: int, twice: bool) -> None:
        for outcome in self.do(self.q.settle()):
            job = self.rows[outcome.job_id]
            assert outcome.life == job.life
            if outcome.word == "deduplicated":
                self.superseded(outcome)
            if outcome.word in (*FINAL, "deduplicated"):
                self.told[outcome.job_id, outcome.life] += 1
                del self.rows[outcome.job_id]
                if outcome.word == "dead":
                    self.dead[outcome.job_id] = job
        if twice:
            self.redrive(0, 0, twice=False)

    def superseded(self, outcome: Outcome) -> None:
        raise AssertionError(f"{outcome.job_id.hex()} made way, and has no policy")

    def bury(self, pick: int, n: int, twice: bool) -> None:
        self.q.bury(60_000 if twice else 0)

    def pause_a_share(self, pick: int, n: int, twice: bool) -> None:
        rules = [ShareRule(SHARES[1 + pick % 2].decode(), 1 + n, paused=twice)]
        self.do(self.q.open(shares=rules))

    def audit(self, pick: int, n: int, twice: bool) -> None:
        rows = [(job.job_id, job.life, 0) for job in self.rows.values()]
        assert self.do(self.q.carrier.audit(self.q.fence, rows)) == []

    def forget(self, pick: int, n: int, twice: bool) -> None:
        """Ids without a row: only tombstones that are settled, and they are no ghosts within their grace."""
        _, ids = self.do(self.q.carrier.some_jobs("q", 0, 10_000))
        self.do(self.q.carrier.forget(self.q.fence, [each for each in ids if each not in self.rows]))

    # -- workers
    def hold(self, consumer: str, deliveries: list[Delivery]) -> None:
        for each in deliveries:
            job = self.rows[each.job_id]
            assert (each.life, each.number, each.body) == (job.life, job.number, job.envelope)
            token = (each.job_id, each.number, each.start)
            assert token not in self.tokens, "the same token twice"
            self.tokens.add(token)
            self.newest[each.job_id] = each
            if job.lane == b"ordered":
                assert job.order >= self.begun, "one that was published later began before it"
                self.begun = job.order
            self.held.append((consumer, each))

    def take(self, pick: int, n: int, twice: bool) -> None:
        consumer = CONSUMERS[pick % 3]
        self.hold(consumer, self.do(self.q.take(consumer, 1 + n % 4, LEASE_MS)))

    def wait_and_begin(self, pick: int, n: int, twice: bool) -> None:
        consumer = CONSUMERS[pick % 3]
        entries = self.do(self.q.broker.wait("q", consumer, 1))
        begun = self.do(self.q.broker.begin("q", consumer, entries, lease_ms=LEASE_MS, room=1)).deliveries
        self.hold(consumer, begun)
        if twice:
            again = self.do(self.q.broker.begin("q", consumer, entries, lease_ms=LEASE_MS, room=1)).deliveries
            assert again == begun

    def die_between_wait_and_begin(self, pick: int, n: int, twice: bool) -> None:
        self.do(self.q.broker.wait("q", CONSUMERS[pick % 3], 1))

    def recall(self, pick: int, n: int, twice: bool) -> None:
        consumer = CONSUMERS[pick % 3]
        recalled = self.do(self.q.broker.recall("q", consumer, lease_ms=LEASE_MS))
        unheard_of = [each for each in recalled if (each.job_id, each.number, each.start) not in self.tokens]
        self.hold(consumer, unheard_of)
        assert self.do(self.q.broker.recall("q", consumer, lease_ms=LEASE_MS)) == recalled

    def reclaim(self, pick: int, n: int, twice: bool) -> None:
        consumer = CONSUMERS[pick % 3]
        self.hold(consumer, self.do(self.q.reclaim(consumer, 1 + n % 4, LEASE_MS)))

    def promote(self, pick: int, n: int, twice: bool) -> None:
        self.do(self.q.broker.promote("q"))

    def renew(self, pick: int, n: int, twice: bool) -> None:
        if not self.held:
            return
        consumer, each = one_of(self.held, pick)
        told = self.q.heart.renew("q", consumer, [(each.job_id, each.entry, each.start, each.band)])
        if (each.job_id, each.entry, each.start, consumer) in self.accepted:
            assert told == {each.job_id: "lost"}

    def finish(self, pick: int, n: int, twice: bool) -> None:
        if not self.held:
            return
        (consumer, each), word = one_of(self.held, pick), WORDS[n]
        token = (each.job_id, each.entry, each.start, consumer)
        skips = self.rows[each.job_id].lane == b"skips" if each.job_id in self.rows else False
        answer = self.do(self.q.finish(each, word, consumer=consumer, delay_ms=pick % 2, skips=skips))
        assert answer != "repeat" or token in self.accepted
        if answer == "ok":
            assert token not in self.accepted, "a finish was accepted twice"
            assert self.rows[each.job_id].life == each.life, "a former life was let in"
            assert self.newest[each.job_id] == each, "a start that was replaced, perhaps by the same worker, was let in"
            self.accepted[token] = word
            if word in FINAL:
                self.ends[each.job_id, each.life] += 1
            if twice:
                assert self.do(self.q.finish(each, word, consumer=consumer)) == "repeat"

    def finish_as_another(self, pick: int, n: int, twice: bool) -> None:
        if self.held:
            _, each = one_of(self.held, pick)
            assert self.do(self.q.finish(each, WORDS[n], consumer="nobody")) in ("lost", "gone")

    # -- what must hold at all times
    @invariant()
    def at_most_one_end(self) -> None:
        if hasattr(self, "q"):
            assert all(count == 1 for count in (*self.ends.values(), *self.told.values()))

    @invariant()
    def every_job_has_one_place(self) -> None:
        if not hasattr(self, "q"):
            return
        found = dump(self.q.redis, b"rj:{q}:")
        jobs = found.get(self.q.key("jobs"), {})
        entries: dict[bytes, bytes] = {}
        for band in range(4):
            for entry, fields in found.get(self.q.key(f"ready{band}"), {"entries": []})["entries"]:
                assert fields[b"j"] not in entries, "two entries of one job"
                entries[fields[b"j"]] = entry
        due = set(found.get(self.q.key("due"), {}))
        told = {entry for entry, _ in found.get(self.q.key("outcomes"), {"entries": []})["entries"]}
        waits = {member[-16:]: b"%" + member[-32:-16] for member in found.get(self.q.key("shares"), {})}
        live = {job_id: record.split(b" ")[0] for job_id, record in jobs.items() if not record.startswith(b"!")}
        behind = {member[-16:]: b"=" + member[-43:-17] for member in found.get(self.q.key("behind"), {})}
        assert behind == {job_id: entry for job_id, entry in live.items() if entry.startswith(b"=")}
        assert waits == {job_id: entry for job_id, entry in live.items() if entry.startswith(b"%")}
        assert entries | waits == {
            job_id: entry for job_id, entry in live.items() if entry != b"-" and job_id not in behind
        }
        heads = found.get(self.q.key("lanes"), {})
        assert {self.rows[job_id].lane for job_id in behind} <= set(heads), "a lane that stands still"
        assert heads == {
            lane: job_id for job_id in live if (lane := self.rows[job_id].lane) and heads.get(lane) == job_id
        }
        up = set(entries) | set(waits)
        assert {job_id for job_id in up if self.rows[job_id].lane} <= set(heads.values()), "two of one lane"
        assert due == {job_id for job_id, entry in live.items() if entry == b"-"}
        assert {record.split(b" ")[1] for record in jobs.values() if record.startswith(b"!")} <= told
        assert set(live) <= set(self.rows) <= set(jobs)
        assert set(found.get(self.q.key("runs"), {})) <= set(live)
        self.keys_have_one_owner(found.get(self.q.key("keys"), {}), set(live))

    def keys_have_one_owner(self, owners: dict[bytes, bytes], live: set[bytes]) -> None:
        assert owners == {self.rows[job_id].key: job_id for job_id in live if self.rows[job_id].key}

    # -- the end of each run
    def to_the_end(self) -> None:
        self.do(self.q.open())
        for _ in range(60):
            self.promote(0, 0, twice=False)
            for taken in (self.q.take("last"), self.q.reclaim("last", lease_ms=LEASE_MS)):
                for each in self.do(taken):
                    if self.do(self.q.finish(each, consumer="last")) == "ok":
                        self.ends[each.job_id, each.life] += 1
            self.settle(0, 0, twice=False)
            if not self.rows:
                break
            self.do(asyncio.sleep(LEASE_MS / 1000))
        self.at_most_one_end()
        assert self.rows == {}
        self.do(self.q.take("last"))  # and whose turn comes has no jobs any more
        self.q.bury()
        assert self.q.left() == {}


def run_machine(machine: type[Machine], redis_url: str, examples: int = 50) -> None:
    machine.url = redis_url
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=50,
            deadline=None,
            database=None,
            phases=[Phase.generate],  # leases lapse by the clock, so a failing run cannot be made smaller
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


def test_any_calls_in_any_order(redis_url: str):
    run_machine(Machine, redis_url)


@pytest.mark.parametrize("word", WORDS)
def test_the_model_itself_runs_one_job_to_each_end(redis_url: str, word: Word):
    Machine.url = redis_url
    machine = Machine()
    machine.open()
    machine.publish(2, 1, twice=True)
    machine.take(0, 1, twice=False)
    ((consumer, delivery),) = machine.held
    assert machine.do(machine.q.finish(delivery, word, consumer=consumer)) == "ok"
    machine.every_job_has_one_place()
    machine.teardown()
    assert sum(machine.told.values()) == 1
