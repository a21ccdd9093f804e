"""The fence of a run on real servers: whoever was replaced writes nothing more, whatever Redis has lost (promise 4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import psycopg
import pytest

from redisjobs.base import statements
from redisjobs.broker import Delivery
from redisjobs.errors import StepRefused
from redisjobs.steps import Token
from redisjobs.steps.postgres import PostgresSteps
from tests.support.builders import publication
from tests.support.queue import QueueByHand
from tests.support.runs import AnyRuns, done


@pytest.fixture
async def second(database_url: str) -> AsyncIterator[PostgresSteps]:
    """The store of another worker."""
    made = PostgresSteps(database_url)
    yield made
    await made.close()


def token_of(delivery: Delivery, holder: str) -> Token:
    return Token(UUID(bytes=delivery.job_id), delivery.life, delivery.number, delivery.start, holder)


async def published(q: QueueByHand, runs: AnyRuns, number: int = 1) -> UUID:
    run = runs.stage()
    await q.publish(publication(job_id=run.bytes, number=number))
    return run


async def test_a_zombie_writes_nothing_once_another_has_claimed(runs: AnyRuns, second: PostgresSteps):
    zombie = await runs.begin(holder="w1")
    await runs.store.put(zombie, done(zombie, "a"))
    heir = runs.token(zombie.run, start=2, holder="w2")

    claim = await second.claim(heir)
    for _ in range(2):
        with pytest.raises(StepRefused):
            await runs.store.put(zombie, done(zombie, "b"))

    assert [each.name for each in claim.records] == ["a"]
    await second.put(heir, done(heir, "b"))
    assert len(await second.list(zombie.run)) == 2


async def test_a_claim_waits_for_a_record_on_its_way_and_then_sees_it(runs: AnyRuns, second: PostgresSteps):
    """The record's transaction stands still between its write and its commit."""
    old = await runs.begin(holder="w1")
    connection = runs.connect()
    connection.execute(
        "WITH held AS (SELECT id FROM redisjobs.outbox WHERE id = %s FOR SHARE)"
        " INSERT INTO redisjobs.steps (run, name, kind, state) SELECT id, 'charge', 'step', 'done' FROM held",
        (old.run,),
    )

    claiming = asyncio.create_task(second.claim(runs.token(old.run, start=2, holder="w2")))
    done_early, _ = await asyncio.wait([claiming], timeout=0.3)
    assert not done_early
    connection.commit()
    claim = await claiming

    assert (claim.word, [each.name for each in claim.records]) == ("ok", ["charge"])


async def test_a_transaction_of_a_user_has_no_row_before_its_end_and_is_refused_there(
    runs: AnyRuns, second: PostgresSteps
):
    old = await runs.begin(holder="w1")

    with pytest.raises(StepRefused):
        async with runs.store.transaction(old, done(old, "debit")) as tx:
            await tx.execute("SELECT 1")
            claim = await second.claim(runs.token(old.run, start=2, holder="w2"))
            assert (claim.word, claim.records) == ("ok", [])

    assert await second.list(old.run) == []


async def test_claims_and_writes_that_race_lose_no_committed_record(runs: AnyRuns, second: PostgresSteps):
    """Whatever the order, a record is seen by the claim or was refused."""
    for _ in range(40):
        old = await runs.begin(holder="w1")
        write = asyncio.create_task(runs.store.put(old, done(old, "a")))
        claim = await second.claim(runs.token(old.run, start=2, holder="w2"))
        try:
            await write
        except StepRefused:
            assert claim.records == []
            assert await second.list(old.run) == []
        else:
            assert [each.name for each in claim.records] == ["a"]


async def test_after_flushall_the_next_publication_has_the_higher_token(q: QueueByHand, runs: AnyRuns):
    run = await published(q, runs)
    old = token_of(await q.take_one("w1"), "w1")
    await runs.store.claim(old)
    await runs.store.put(old, done(old, "a"))

    q.redis.flushall()
    await q.open(token=2, epoch="life-2")
    await q.publish(publication(job_id=run.bytes, number=2))
    new = token_of(await q.take_one("w2"), "w2")
    claim = await runs.store.claim(new)

    assert (claim.word, [each.name for each in claim.records]) == ("ok", ["a"])
    assert (old.start, new.start) == (1, 1)
    with pytest.raises(StepRefused):
        await runs.store.put(old, done(old, "b"))


async def test_after_a_failover_the_holder_takes_a_higher_token_and_the_other_gets_none(q: QueueByHand, runs: AnyRuns):
    """Redis went back to before w1 had begun it: w2 has the same entry and the same start."""
    await published(q, runs)
    first = await q.take_one("w1")
    await runs.store.claim(token_of(first, "w1"))
    await runs.store.put(token_of(first, "w1"), done(token_of(first, "w1"), "a"))
    q.redis.hset(q.key("runs"), first.job_id, b"1 0 0 w2 " + first.entry + b" 30000 -")

    twin = token_of(first, "w2")
    claim = await runs.store.claim(twin)
    assert (claim.word, claim.fence) == ("behind", (1, 1))
    with pytest.raises(StepRefused):
        await runs.store.put(twin, done(twin, "b"))
    assert await q.broker.overtake("w1", first, (1, 1)) is None
    higher = await q.broker.overtake("w2", first, (1, 1))
    assert higher is not None
    raised = runs.token(twin.run, number=higher[0], start=higher[1], holder="w2")

    claim = await runs.store.claim(raised)

    assert (claim.word, [each.name for each in claim.records]) == ("ok", ["a"])
    with pytest.raises(StepRefused):
        await runs.store.put(token_of(first, "w1"), done(token_of(first, "w1"), "c"))


async def test_after_a_failover_that_lost_a_publication_the_number_is_made_up_for(q: QueueByHand, runs: AnyRuns):
    """Postgres has seen publication 3; Redis knows of 2 only."""
    run = await published(q, runs, number=2)
    seen = runs.token(run, number=3, start=4, holder="w1")
    await runs.store.claim(seen)
    held = await q.take_one("w2")

    claim = await runs.store.claim(token_of(held, "w2"))
    assert (claim.word, claim.fence) == ("behind", (3, 4))
    higher = await q.broker.overtake("w2", held, (3, 4))
    assert higher is not None
    raised = runs.token(run, number=higher[0], start=higher[1], holder="w2")

    assert (await runs.store.claim(raised)).word == "ok"
    with pytest.raises(StepRefused):
        await runs.store.put(seen, done(seen))


async def test_a_session_that_stands_still_after_its_record_loses_the_row(runs: AnyRuns, second: PostgresSteps):
    """A process stopped between the record of its transaction and the commit must not keep the run for ever."""
    old = await runs.begin(holder="w1")
    stopped = runs.connect()
    sql = statements.load("steps")
    stopped.execute(sql.hold)
    stopped.execute(sql.lock, {"run": old.run})

    claim = await second.claim(runs.token(old.run, start=2, holder="w2"))

    assert claim.word == "ok"
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        stopped.execute("COMMIT")
