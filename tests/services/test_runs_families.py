"""Children and their parents: however a child ends, its parent hears of it once; however a run ends, its records go."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
import redis as redis_py

from redisjobs.operator import Operator
from redisjobs.record import pack
from redisjobs.settler import fold
from tests.support.builders import finish, stage, states
from tests.support.relays import Hand, RelayByHand, envelope_of, relay_by_hand
from tests.support.sleepers import Sleeper, Sleepers, sleepers

Conn = psycopg.Connection[tuple[Any, ...]]
CHILDS = "childs"
"""The queue of the children."""


@pytest.fixture
async def relay(database_url: str, redis_url: str) -> AsyncIterator[RelayByHand]:
    async with relay_by_hand(database_url, redis_url, retention=3600) as made:
        yield made


@pytest.fixture
async def runs(database_url: str, worker: Hand) -> AsyncIterator[Sleepers]:
    async with sleepers(database_url, worker) as made:
        yield made


class Family:
    """A run that waits for a child, and what a test does to the child."""

    def __init__(self, conn: Conn, relay: RelayByHand, worker: Hand, run: Sleeper) -> None:
        self.conn, self.relay, self.worker, self.run = conn, relay, worker, run

    async def start(self, *, publish: bool = True, **options: Any) -> UUID:
        """Let the run call a child, and suspend; answers the child."""
        child = await self.run.call(queue=CHILDS, **options)
        if publish:
            await self.relay.rounds()
        await self.run.suspend()
        if publish:
            await self.relay.rounds()
        return child

    async def end(self, word: Any, **given: Any) -> None:
        await self.worker.run(word, CHILDS, **given)
        await self.relay.rounds()

    async def cancel(self, child: UUID) -> None:
        self.conn.execute("SELECT redisjobs.cancel(%s)", [child])
        self.conn.commit()
        await self.relay.rounds()
        await self.relay.renewed()  # where an end that no worker told of is found, should the queue have cooled down
        await self.relay.rounds()

    def told(self) -> tuple[str, Any, Any]:
        """State, value and detail of the record of the child."""
        found = self.conn.execute("SELECT state, value, detail FROM redisjobs.steps WHERE name = 'child'").fetchone()
        self.conn.commit()
        assert found is not None
        return found[0], found[1], found[2]

    @property
    def state(self) -> str:
        """Of the parent; published once it is woken."""
        return states(self.conn)[self.run.id]


@pytest.fixture
async def family(conn: Conn, relay: RelayByHand, worker: Hand, runs: Sleepers) -> Family:
    stage(conn)
    conn.commit()
    await relay.rounds()
    return Family(conn, relay, worker, await runs.take())


FAILURE: Any = {"attempt": 1, "at": "2026-01-01T00:00:00Z", "type": "ValueError", "message": "no", "traceback": "…"}


async def test_t8_the_result_of_a_child_reaches_its_parent(family: Family):
    await family.start()
    held = await family.worker.one(CHILDS)
    assert envelope_of(held).has_parent
    await family.worker.end(finish(held, record=pack(result=("json", b"42"))))
    await family.relay.rounds()

    assert family.told() == ("done", b"42", {"word": "done"})
    assert family.state == "published"


async def test_a_child_that_says_nothing_is_done_all_the_same(family: Family):
    await family.start()
    await family.end("done")

    assert family.told() == ("done", None, {"word": "done"})
    assert family.state == "published"


async def test_t8_a_dead_child_tells_its_error(family: Family):
    await family.start()
    await family.end("dead", record=pack(FAILURE))

    assert family.told() == ("failed", None, {"word": "dead", "type": "ValueError", "message": "no"})
    assert family.state == "published"


async def test_a_child_that_expires_tells_so(family: Family):
    await family.start()
    await family.end("expired", record=pack(why="it was past its expires_at"))

    assert family.told() == ("failed", None, {"word": "expired", "type": None, "message": "it was past its expires_at"})
    assert family.state == "published"


async def test_a_child_that_is_cancelled_in_redis_tells_so(family: Family):
    await family.cancel(await family.start())

    state, _, detail = family.told()
    assert (state, detail["word"]) == ("failed", "cancelled")
    assert family.state == "published"


async def test_a_child_that_is_cancelled_before_redis_knows_it_tells_so(family: Family):
    child = await family.start(publish=False)
    await family.cancel(child)

    assert family.told() == ("failed", None, {"word": "cancelled", "type": None, "message": "it was cancelled"})
    assert family.state == "published"


async def test_a_child_that_is_cancelled_while_it_is_suspended_tells_so(family: Family):
    child = await family.start()
    await family.worker.run("suspended", CHILDS, delay_ms=-1, record=pack(waits=True))
    await family.relay.rounds()
    assert states(family.conn)[child] == "suspended"
    await family.cancel(child)

    assert family.told()[0] == "failed"
    assert family.state == "published"


async def test_a_child_that_is_a_duplicate_tells_who_holds_its_key(family: Family):
    owner = stage(family.conn, queue=CHILDS, idempotency_key="k")
    family.conn.commit()
    await family.relay.rounds()
    await family.start(idempotency_key="k")

    state, _, detail = family.told()
    assert (state, detail["word"]) == ("failed", "deduplicated")
    assert str(owner) in detail["message"]
    assert family.state == "published"


async def test_a_child_with_undos_tells_its_end_only_after_them(family: Family):
    child = await family.start()
    family.conn.execute("UPDATE redisjobs.outbox SET undo = true, fence = '{1,1}' WHERE id = %s", [child])
    family.conn.commit()
    await family.end("dead", record=pack(FAILURE))
    assert family.told()[0] == "waiting"
    assert family.state != "published"
    await family.end("dead", record=pack(FAILURE, undone=True))

    assert family.told()[0] == "failed"
    assert family.state == "published"


async def test_a_result_that_no_record_can_hold_is_an_error_and_stops_nobody(family: Family):
    await family.start()
    await family.end("done", record=pack(result=("json", b"x" * 1_048_577)))

    state, _, detail = family.told()
    assert (state, detail["word"]) == ("failed", "dead")
    assert "1048577 bytes" in detail["message"]
    assert family.state == "published"


async def test_an_end_that_settles_twice_is_told_once(family: Family):
    child = await family.start()
    held = await family.worker.one(CHILDS)
    await family.worker.end(finish(held, record=pack(result=("json", b"1"))))
    outcomes = await family.relay.relay.carrier.outcomes(CHILDS, b"0-0", 10)
    await family.relay.rounds()
    again = await Sleepers(family.run.store, family.worker).take()
    for _ in range(2):
        await family.relay.relay.settler._settle(CHILDS, fold(outcomes))
    await again.suspend()
    await family.relay.rounds()

    assert family.told() == ("done", b"1", {"word": "done"})
    assert states(family.conn) == {family.run.id: "suspended", child: "done"}


async def test_t8_a_cancelled_run_cancels_its_children_and_their_children(family: Family, runs: Sleepers):
    child = await family.start()
    inner = await runs.take(CHILDS)
    grandchild = await inner.call(queue="grand")
    await inner.suspend()
    await family.relay.rounds()
    await family.cancel(family.run.id)
    await family.relay.rounds()

    assert states(family.conn) == {family.run.id: "cancelled", child: "cancelled", grandchild: "cancelled"}
    assert family.conn.execute("SELECT count(*) FROM redisjobs.steps").fetchone() == (0,)


async def test_the_children_of_a_dead_run_go_on_and_a_redriven_one_finds_their_results(family: Family, runs: Sleepers):
    child = await family.run.call(queue=CHILDS)
    await family.run.end("dead", record=pack(FAILURE))
    await family.relay.rounds()
    assert states(family.conn) == {family.run.id: "dead", child: "published"}
    await family.end("done", record=pack(result=("json", b"42")))
    assert family.told()[:2] == ("done", b"42")
    family.conn.execute("SELECT redisjobs.redrive(ARRAY[%s])", [family.run.id])
    family.conn.commit()
    await family.relay.rounds()

    again = await runs.take()
    assert (again.token.life, again.id) == (1, family.run.id)
    record = await again.store.get(again.id, "child")
    assert record is not None
    assert record.value == b"42"
    await again.end()
    await family.relay.rounds()
    assert family.conn.execute("SELECT count(*) FROM redisjobs.steps").fetchone() == (0,)


async def test_rule_2_a_redriven_run_keeps_its_records_and_forgets_its_undos(family: Family, runs: Sleepers):
    await family.run.put("charge", undo=True)
    await family.run.put("undo:charge", kind="undo", state="failed", detail={"type": "E", "message": "no"})
    await family.run.end("dead", record=pack(FAILURE, undone=True))
    await family.relay.rounds()
    family.conn.execute("SELECT redisjobs.redrive(ARRAY[%s])", [family.run.id])
    family.conn.commit()

    kept = family.conn.execute("SELECT name FROM redisjobs.steps").fetchall()
    row = family.conn.execute("SELECT undo, ending, settled, fence FROM redisjobs.outbox").fetchone()
    assert kept == [("charge",)]
    assert row == (True, None, 0, [2, 0])
    family.conn.commit()
    await family.relay.rounds()
    assert (await runs.take()).token.life == 1


@pytest.mark.parametrize("before", ["running", "lost"])
async def test_a_parent_that_is_not_asleep_remembers_that_it_was_told(
    family: Family, runs: Sleepers, redis: redis_py.Redis, before: str
):
    """Waking is a level: whoever settles its suspension, or claims it next, sees it."""
    await family.run.call(queue=CHILDS)
    await family.relay.rounds()
    await family.end("done")
    if before == "lost":
        redis.flushall()
        await family.relay.renewed()
        await family.relay.rounds()
        assert (await runs.take()).id == family.run.id
        assert family.conn.execute("SELECT wake_at FROM redisjobs.outbox").fetchone() == (None,)
    else:
        await family.run.suspend()
        await family.relay.rounds()
        assert family.state == "published"


async def test_two_children_that_end_at_once_wake_their_parent_once(family: Family, runs: Sleepers):
    for name in ("a", "b"):
        await family.run.call(name, queue=f"{CHILDS}.{name}")
    await family.relay.rounds()
    await family.run.suspend()
    await family.relay.rounds()
    for name in ("a", "b"):
        await family.worker.run("done", f"{CHILDS}.{name}")
    await family.relay.rounds()

    assert (await runs.take()).token.number == 2
    assert await family.worker.take() == []


async def test_purging_a_dead_run_deletes_its_records(family: Family, database_url: str):
    await family.run.put("charge")
    await family.run.end("dead", record=pack(FAILURE))
    await family.relay.rounds()

    with Operator(database_url) as operator:
        assert operator.purge([family.run.id]) == 1

    assert family.conn.execute("SELECT count(*) FROM redisjobs.steps").fetchone() == (0,)
