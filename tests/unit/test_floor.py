"""The floor never passes a row over for good, and never lets a later commit overtake an earlier one."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redisjobs.floor import PATIENCE_S, Floor, Snapshot


def snapshot(text: str) -> Snapshot:
    return Snapshot.read(text)


def test_a_snapshot_is_read_as_postgres_writes_it():
    read = snapshot("10:20:10,14,19")

    assert (read.xmin, read.xmax, read.running) == (10, 20, frozenset({10, 14, 19}))
    assert snapshot("7:7:").running == frozenset()


@pytest.mark.parametrize(
    ("xid", "ended"), [(9, True), (10, False), (11, True), (14, False), (19, False), (20, False), (21, False)]
)
def test_a_transaction_has_ended_when_its_rows_would_be_visible(xid: int, ended: bool):
    assert snapshot("10:20:10,14,19").has_ended(xid) is ended


def test_without_open_transactions_the_floor_rises_with_the_next_read():
    floor = Floor()

    floor.passed(5, through=True, snapshot=snapshot("100:100:"), now=0)
    assert floor.seq == 0
    floor.passed(None, through=True, snapshot=snapshot("101:101:"), now=0)

    assert floor.seq == 5


def test_a_transaction_that_the_reads_own_snapshot_does_not_know_holds_the_floor():
    floor = Floor()
    # 100 has committed its place 3; 101 took place 2 and is open: it is younger than whatever has ended
    floor.passed(3, through=True, snapshot=snapshot("101:101:"), now=0)

    floor.passed(None, through=True, snapshot=snapshot("101:103:101"), now=0.1)  # 102 was the mark

    assert floor.seq == 0


def test_an_open_transaction_holds_the_floor_until_it_ends():
    floor = Floor()
    floor.passed(5, through=True, snapshot=snapshot("90:100:90"), now=0)
    floor.passed(None, through=True, snapshot=snapshot("90:101:90"), now=0.1)
    assert floor.seq == 0

    floor.passed(None, through=True, snapshot=snapshot("101:101:"), now=0.2)

    assert floor.seq == 5


def test_a_long_transaction_is_watched_for_by_itself_and_its_end_lowers_the_floor():
    floor = Floor()
    floor.passed(5, through=True, snapshot=snapshot("90:100:90"), now=0)
    floor.passed(None, through=True, snapshot=snapshot("90:101:90"), now=PATIENCE_S + 0.1)
    assert floor.seq == 5
    assert not floor.must_read_again(snapshot("90:105:90"))

    assert floor.must_read_again(snapshot("105:105:"))

    assert floor.seq == 0
    assert not floor.must_read_again(snapshot("105:105:"))


def test_the_floor_stays_below_what_was_left_behind():
    floor = Floor()
    floor.passed(5, through=True, snapshot=snapshot("100:100:"), now=0)

    floor.passed(3, through=False, snapshot=snapshot("101:101:"), now=0.1)

    assert floor.seq == 0


def test_a_reset_reads_from_the_beginning_and_forgets_whom_it_waited_for():
    floor = Floor()
    floor.passed(5, through=True, snapshot=snapshot("90:100:90"), now=0)
    floor.passed(9, through=True, snapshot=snapshot("90:101:90"), now=PATIENCE_S + 1)

    floor.reset()

    assert floor.seq == 0
    assert not floor.must_read_again(snapshot("200:200:"))


@dataclass
class Transaction:
    """A producer's; its number comes with its first place."""

    began: int
    xid: int | None = None
    places: list[int] = field(default_factory=list)
    committed: int | None = None
    aborted: bool = False

    @property
    def open(self) -> bool:
        return self.committed is None and not self.aborted


class World:
    """Producers, and the relay's passes over their rows, with Postgres' rules for snapshots."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.floor = Floor()
        self.next_xid, self.last_ended, self.next_seq, self.time = 100, 99, 1, 0
        self.now = 0.0
        self.transactions: list[Transaction] = []
        self.published: list[int] = []

    def take_xid(self) -> int:
        self.next_xid += 1
        return self.next_xid - 1

    def ended(self, xid: int) -> None:
        self.last_ended = max(self.last_ended, xid)

    def tick(self) -> int:
        self.time += 1
        return self.time

    def begin(self) -> None:
        self.transactions.append(Transaction(self.tick()))

    def insert(self, transaction: Transaction) -> None:
        if transaction.xid is None:
            transaction.xid = self.take_xid()
        transaction.places.append(self.next_seq)
        self.next_seq += 1

    def end(self, transaction: Transaction, commit: bool) -> None:
        if commit:
            transaction.committed = self.tick()
        else:
            transaction.aborted = True
        if transaction.xid is not None:
            self.ended(transaction.xid)

    def look(self) -> Snapshot:
        xmax = self.last_ended + 1
        running = frozenset(each.xid for each in self.transactions if each.open and each.xid and each.xid < xmax)
        return Snapshot(min(running, default=xmax), xmax, running)

    def publish(self) -> None:
        seen = self.look()
        self.floor.must_read_again(seen)
        done = set(self.published)
        rows = sorted(
            place
            for each in self.transactions
            if each.committed is not None
            for place in each.places
            if place > self.floor.seq and place not in done
        )[: self.batch]
        self.published += rows
        if rows:
            self.ended(self.take_xid())  # the mark
        last = rows[-1] if rows else None
        self.floor.passed(last, through=len(rows) < self.batch, snapshot=seen, now=self.now)

    def check(self) -> None:
        at = {place: index for index, place in enumerate(self.published)}
        committed = [each for each in self.transactions if each.committed is not None]
        assert {place for each in committed for place in each.places} == set(at), "a row was passed over for good"
        for each in committed:
            order = [at[place] for place in each.places]
            assert order == sorted(order), "the rows of one transaction changed places"
        for first in committed:
            for second in committed:
                assert first.committed is not None
                if first.committed < second.began and first.places and second.places:
                    assert max(at[p] for p in first.places) < min(at[p] for p in second.places), "overtaken"


def storm(world: World, choose: random.Random, rounds: int) -> None:
    for _ in range(rounds):
        still = [each for each in world.transactions if each.open]
        do = choose.random()
        if do < 0.2 or not still:
            world.begin()
        elif do < 0.5:
            world.insert(choose.choice(still))
        elif do < 0.7:
            world.end(choose.choice(still), commit=choose.random() < 0.8)
        elif do < 0.95:
            world.publish()
        else:
            world.now += choose.choice([0.1, 0.6, 2.0])


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**32), batch=st.integers(1, 6), rounds=st.integers(5, 120))
def test_no_order_of_commits_makes_the_floor_lose_or_reorder_a_row(seed: int, batch: int, rounds: int):
    world = World(batch)
    storm(world, random.Random(seed), rounds)
    for each in [each for each in world.transactions if each.open]:
        world.end(each, commit=True)
    for _ in range(len(world.transactions) + world.next_seq + 3):
        world.publish()

    world.check()


def test_the_floor_does_rise_while_transactions_come_and_go():
    world = World(batch=5)
    for _ in range(200):
        world.begin()
        world.insert(world.transactions[-1])
        world.begin()  # one that stays open across the pass
        world.insert(world.transactions[-1])
        world.end(world.transactions[-2], commit=True)
        world.publish()
        world.end(world.transactions[-1], commit=True)
        world.publish()
        world.now += 0.01

    assert world.floor.seq > world.next_seq - 20
