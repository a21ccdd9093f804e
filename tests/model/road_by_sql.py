"""The real statements of producers, relays and workers, over a modelled Redis, with what must hold between them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from uuid import UUID

import msgpack
import psycopg

from redisjobs.base import statements
from redisjobs.base.postgres import FIRST_ID, array, id_array
from redisjobs.broker import Outcome
from redisjobs.floor import Floor, Snapshot
from redisjobs.settler import Settlement, Settler, fold
from redisjobs.staged import StagedRow
from redisjobs.steps.asking import Write, claims, of_puts, of_tokens, of_waits, waited
from redisjobs.steps.records import Claim, StepRecord, Token
from tests.model.choices import Choices
from tests.model.queue_worker import Queue
from tests.model.sessions import Ask, Call, Commit, Script, Session, Step
from tests.model.values import Delivery, End, Fence, Id, Item, Keys
from tests.model.witness import Witness

SQL = {name: statements.load(name) for name in ("publisher", "settler", "leases", "recovery", "deliverer", "steps")}
JOBS = ("plain", "plain", "steps", "event")
LEASE_S = 3600.0
WAITS = msgpack.packb({"w": 1})
UNSENT = b"""
    SELECT replace(id::text, '-', '') FROM redisjobs.outbox o
    WHERE job = 'event' AND NOT EXISTS (SELECT FROM redisjobs.events e WHERE e.key = replace(o.id::text, '-', ''))"""
SEND = b"INSERT INTO redisjobs.events (name, key, expires_at) VALUES ('paid', %(key)s, now() + interval '1 hour')"
LEASES_END = b"""
    UPDATE redisjobs.queues SET lease_until = now() - interval '1 s'
    WHERE queue IN (SELECT queue FROM redisjobs.queues FOR UPDATE SKIP LOCKED)"""
SETTLER = Settler(cast("Any", None), cast("Any", None))
Steps = Generator[Step, Any, Any]


def as_id(job: bytes) -> Id:
    """Ids of 16 bytes, as the model's."""
    return job.decode("latin-1")


def as_bytes(job: Id) -> bytes:
    return job.encode("latin-1")


@dataclass(eq=False)
class Hold:
    token: int
    epoch: str
    settled: int = 0
    floor: Floor = field(default_factory=Floor)

    @property
    def fence(self) -> Fence:
        return Fence(self.token, self.epoch)


class Road(Witness):
    """What the sessions do, and the book in which it is written down.

    Args:
        watch: a sync connection with autocommit, which sees what is committed.
    """

    def __init__(self, choice: Choices, watch: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.choice, self.watch = choice, watch
        self.step = self.lives = 0
        self.storm = True
        self.q = Queue("default", lambda: self.step // 8, witness=self)
        self.began: dict[Id, tuple[int, str, int]] = {}  # step, transaction, place in it
        self.committed: dict[Id, int] = {}
        self.published: list[Id] = []
        self.records: set[tuple[Id, str]] = set()
        self.bodies: dict[tuple[Id, str], int] = {}
        self.holds: dict[str, Hold] = {}

    def seen(self, statement: str, *given: object) -> list[tuple[Any, ...]]:
        """What is committed now."""
        return self.watch.execute(statement.encode(), given).fetchall()

    # -- the book
    def placed(self, job: Id) -> None:
        """Published for the first time: after all that was committed before it was begun."""
        assert job in self.committed or self._is_there(job), "it was read before it was committed"
        if job in self.published:
            return
        began, tx, place = self.began[job]
        for other, (_, theirs, nth) in self.began.items():
            if other not in self.published and other in self.committed:
                assert self.committed[other] >= began, f"{other!r} was passed over"
                assert (theirs, nth) >= (tx, place) or theirs != tx, "of one transaction the later one went first"
        self.published.append(job)

    def _is_there(self, job: Id) -> bool:
        return bool(self.seen("SELECT 1 FROM redisjobs.outbox WHERE id = %s", UUID(bytes=as_bytes(job))))

    # -- producers
    def produce(self, session: Session) -> Script:
        if not self.storm or len(self.began) > 12:
            yield Call(lambda: None)
            return
        jobs: list[Id] = []
        tx = f"{session.name} {self.step}"
        for nth in range(1 + self.choice.below(3)):
            began, name = self.step, JOBS[self.choice.below(len(JOBS))]
            insert = b"INSERT INTO redisjobs.outbox (job, input) VALUES (%(job)s, '{}') RETURNING uuid_send(id)"
            rows = yield Ask(insert, {"job": name})
            job = as_id(rows[0][0])
            self.began[job] = (began, tx, nth)
            jobs.append(job)
        rolls_back = self.choice.chance(0.15)
        yield Commit(rolls_back=rolls_back)
        if not rolls_back:
            self.committed.update(dict.fromkeys(jobs, self.step))

    # -- relays
    def relay(self, session: Session) -> Script:
        hold = yield from self._hold(session)
        if hold is None:
            return
        if not (yield from self._open(session, hold)):
            return
        yield from self._publish(session, hold)
        yield from self._settle(hold)
        yield Ask(SQL["publisher"].come_due, {"queue": "default", "horizon": 3600.0, "limit": 100})
        yield Commit()
        yield Ask(SQL["deliverer"].deliver, {"most": 10})
        yield Commit()

    def _hold(self, session: Session) -> Generator[Step, Any, Hold | None]:
        given = {"relay": session.name, "lease": LEASE_S, "queues": ["default"]}
        rows = yield Ask(SQL["leases"].take, given)
        yield Commit()
        hold = self.holds.get(session.name)
        if not rows:
            return hold  # locked just now: it goes on for as long as it trusts its lease
        token, epoch = rows[0][1], rows[0][2] or ""
        if hold is None or hold.token != token:
            hold = self.holds[session.name] = Hold(token, epoch)
        return hold

    def _open(self, session: Session, hold: Hold) -> Generator[Step, Any, bool]:
        word, epoch, rest = yield Call(lambda: self.q.open(hold.token))
        if word == "stale":
            self.holds.pop(session.name, None)
            return False
        if hold.epoch and epoch == hold.epoch:
            hold.settled = rest
            return True
        shown = {"queue": "default", "token": hold.token, "lease": LEASE_S}
        first = not hold.epoch
        if not first:
            yield Ask(SQL["recovery"].take_back, shown | {"after": FIRST_ID, "limit": 2})
            yield Commit()
        self.lives += 1
        name = f"life-{self.lives}"
        rows = yield Ask(SQL["recovery"].name_life, shown | {"epoch": name, "first": first})
        yield Commit()
        if not rows[0][0]:
            self.holds.pop(session.name, None)
            return False
        hold.epoch, hold.settled = name, 0
        hold.floor.reset()
        word = yield Call(lambda: self.q.adopt(hold.fence))
        return bool(word == "ok")

    def _publish(self, session: Session, hold: Hold) -> Steps:
        limit = 1 + self.choice.below(4)
        staged = "SELECT uuid_send(id), seq FROM redisjobs.outbox WHERE state = 'staged' AND seq <= %s"
        below = yield Call(lambda: self.seen(staged, hold.floor.seq))
        read = yield Ask(SQL["publisher"].batch, {"queue": "default", "floor": hold.floor.seq, "limit": limit})
        yield Commit()
        snapshot = Snapshot.read(read[0][0])
        if hold.floor.must_read_again(snapshot):
            return
        if below:
            still = self.seen("SELECT holder, token FROM redisjobs.queues")[0] == (session.name, hold.token)
            assert not still, f"rows {below} lie below the floor {hold.floor.seq}"
        rows = [StagedRow._make(row[1:]) for row in read if row[1] is not None]
        items = [
            Item(as_id(row.id), row.publications + 1, row.redrives, row.settled, row.attempts, 0, order=row.seq,
                 body=row.job)
            for row in rows
        ]  # fmt: skip
        words = yield Call(lambda: self.q.publish(hold.fence, items))
        if isinstance(words, str):
            self.holds.pop(session.name, None)
            return
        marked = 0
        if rows:
            marked = yield from self._mark(hold, rows)
        hold.floor.passed(
            rows[-1].seq if marked else None, through=len(rows) < limit, snapshot=snapshot, now=float(self.step)
        )

    def _mark(self, hold: Hold, rows: list[StagedRow]) -> Generator[Step, Any, int]:
        given = {
            "ids": id_array(row.id for row in rows),
            "lives": array(str(row.redrives) for row in rows),
            "numbers": array(str(row.publications + 1) for row in rows),
            "queue": "default", "token": hold.token, "epoch": hold.epoch,
        }  # fmt: skip
        marked = yield Ask(SQL["publisher"].mark + b" RETURNING o.id", given)

        def is_its_own() -> None:
            if marked:
                holder = self.seen("SELECT token, epoch FROM redisjobs.queues WHERE queue = 'default'")[0]
                assert holder == (hold.token, hold.epoch), f"marked under {hold.fence}, and {holder} holds the queue"

        lost = self.storm and self.choice.chance(0.1)
        yield Commit(is_its_own, rolls_back=lost)
        return 0 if lost else len(marked)

    def _settle(self, hold: Hold) -> Steps:
        found = yield Call(lambda: [(at, list(self.q.k.outcomes[at])) for at in self.q.read_outcomes(hold.settled, 5)])
        if not found:
            return
        outcomes = [
            Outcome(str(at).encode(), as_bytes(o.id), o.word, o.life, o.number, o.attempts,
                    -1.0 if o.due is None else 0.0, b"", WAITS if o.word == "suspended" else b"")
            for at, told in found for o in told
        ]  # fmt: skip
        settlements = sorted(fold(outcomes), key=lambda each: each.outcome.job_id)
        plain = [each for each in settlements if each.is_plain]
        pausing = [each for each in settlements if each.is_suspension]
        other = [each for each in settlements if not each.is_plain and not each.is_suspension]
        if plain:
            yield Ask(SQL["settler"].settle_done, SETTLER._short(plain))
        if other:
            yield Ask(SQL["settler"].settle, SETTLER._whole(other))
        if pausing:
            yield Ask(SQL["settler"].suspend, SETTLER._pauses(pausing))
        lost = self.storm and self.choice.chance(0.1)
        yield Commit(rolls_back=lost)
        if lost:
            return
        yield from self._look_again(pausing)
        word = yield Call(lambda: self.q.settled(hold.fence, [at for at, _ in found]))
        if word == "ok":
            hold.settled = found[-1][0]

    def _look_again(self, pausing: list[Settlement]) -> Steps:
        waiting = [each for each in pausing if each.waits]
        if waiting:
            yield Ask(SQL["settler"].look_again, {"ids": id_array(each.outcome.job_id for each in waiting)})
            yield Commit()

    # -- workers
    def work(self, session: Session) -> Script:
        yield Call(self.q.promote)
        yield Call(lambda: self.q.bury(6))
        taken: list[Delivery] = yield Call(lambda: self.q.reclaim(session.name) or self.q.take(session.name))
        if not taken or (self.storm and self.choice.chance(0.1)):
            return  # nothing to do, or it dies
        d = taken[0]
        word = "done" if d.body == "plain" else (yield from self._run(session, d))
        if word is not None:
            delay = -1 if word == "suspended" else 0
            end = End(d.id, d.entry, d.start, word, delay, counted=word == "retry")
            yield Call(lambda: self.q.finish(session.name, [end]))

    def _run(self, session: Session, d: Delivery) -> Generator[Step, Any, str | None]:
        token = Token(UUID(bytes=as_bytes(d.id)), d.life, d.number, d.start, session.name)
        known = {name for job, name in self.records if job == d.id}
        rows = yield Ask(SQL["steps"].claim, of_tokens([token]))
        (claim,) = claims(rows, [token])
        yield Commit()
        if not isinstance(claim, Claim) or claim.word != "ok":
            return None
        there = {record.name for record in claim.records if record.state == "done"}
        assert known <= there, f"{known - there} of {d.id!r} was recorded before the claim, which did not see it"
        if d.body == "event":
            return (yield from self._wait(token))
        for name in ("one", "two"):
            if name not in there:
                yield Call(partial(self._body, d, token, name))
                if not (yield from self._put(d, token, name)):
                    return None
        retries = self.storm and self.choice.chance(0.3)
        return "retry" if retries else "done"

    def _body(self, d: Delivery, token: Token, name: str) -> None:
        """Its own holder never runs a step that is recorded."""
        stands = self.seen("SELECT fence, holder FROM redisjobs.outbox WHERE id = %s", token.run)
        if stands and stands[0] == ([token.number, token.start], token.holder):
            assert (d.id, name) not in self.records, f"step {name} ran again"

    def _put(self, d: Delivery, token: Token, name: str) -> Generator[Step, Any, bool]:
        write = Write(token, StepRecord(token.run, name, state="done"))
        while True:
            words = yield Ask(SQL["steps"].put, of_puts([write]))

            def is_its_own(taken: bool = not words) -> None:
                stands = self.seen("SELECT fence, holder FROM redisjobs.outbox WHERE id = %s", token.run)
                if taken:
                    assert stands == [([token.number, token.start], token.holder)], f"{token} wrote beside {stands}"

            lost = self.storm and self.choice.chance(0.1)
            yield Commit(is_its_own, rolls_back=lost)
            if not words and not lost:
                self.records.add((d.id, name))
                return True
            if words and words[0][1] == "refused":
                return False

    def _wait(self, token: Token) -> Generator[Step, Any, str | None]:
        record = StepRecord(token.run, "wait", "event", "waiting", awaited=True, event="paid", key=token.run.hex)
        write = Write(token, record)
        (told,) = waited((yield Ask(SQL["steps"].wait, of_waits([write]))), [write])
        yield Commit()
        if not isinstance(told, StepRecord):
            return None
        return "done" if told.state == "done" else "suspended"

    # -- others
    def operate(self, session: Session) -> Script:
        """Sends the events that runs wait for, one for each, in a transaction that stays open for a while."""
        keys = yield Ask(UNSENT, {})
        for (key,) in keys[: 1 + self.choice.below(2)]:
            yield Ask(SEND, {"key": key})
        yield Commit(rolls_back=self.storm and self.choice.chance(0.2))

    def harm(self, session: Session) -> Script:
        """A lease of a relay ends, a transaction is open for long, Redis is emptied."""
        yield Call(lambda: None)
        if not self.storm:
            return
        kind = self.choice.below(8)
        if kind == 0:
            yield Ask(LEASES_END, {})
            yield Commit()
        elif kind == 1:
            yield Ask(b"SELECT pg_current_xact_id()", {})
            for _ in range(self.choice.below(6)):
                yield Call(lambda: None)
            yield Commit()
        elif kind == 2 and self.choice.chance(0.3):
            self.q.k = Keys()
