"""What becomes of a committed row: into Redis, and its outcome back."""

from __future__ import annotations

import psycopg

from redisjobs.leases import Hold
from tests.support.builders import finish, stage, states
from tests.support.clock import settle
from tests.support.relays import Hand, RelayByHand, envelope_of, job_of

Conn = psycopg.Connection[tuple[object, ...]]


async def test_a_committed_row_becomes_a_delivery_and_its_end_a_finished_job(
    conn: Conn, relay: RelayByHand, worker: Hand
):
    job = stage(conn, "add", {"a": 1})
    conn.commit()

    await relay.rounds()
    assert states(conn) == {job: "published"}
    delivery = await worker.one()
    assert job_of(delivery) == job
    assert envelope_of(delivery).payload == b'{"a": 1}'

    await worker.end(finish(delivery))
    await relay.rounds()
    assert states(conn) == {job: "done"}


async def test_a_row_that_is_not_committed_is_not_published(conn: Conn, relay: RelayByHand, worker: Hand):
    stage(conn)

    await relay.rounds()

    assert await worker.take() == []


async def test_what_one_queue_did_counts_although_the_turn_of_another_ends_later(relay: RelayByHand):
    """Else a round seems to have done nothing, and the next one, which has to go on with it, waits for its interval."""
    holds = await relay.relay.leases.take(["early", "late"])

    async def turn(hold: Hold) -> int:
        if hold.queue == "early":
            return 1
        await settle()
        return 0

    for order in (holds, holds[::-1]):
        assert await relay.relay._each(order, turn) == 1
