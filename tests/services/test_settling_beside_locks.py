"""A transaction of a user that holds a row, and stays open, holds up nobody else's jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from redisjobs.record import pack
from tests.support.builders import finish, stage, states
from tests.support.eventually import eventually
from tests.support.relays import Hand, RelayByHand, job_of, relay_by_hand
from tests.support.sleepers import sleepers

Conn = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
async def relay(database_url: str, redis_url: str) -> AsyncIterator[RelayByHand]:
    async with relay_by_hand(database_url, redis_url) as made:
        yield made


@pytest.fixture
def user(conn: Conn, database_url: str) -> Iterator[Conn]:
    """The connection of a user who takes his time."""
    with psycopg.connect(database_url) as opened:
        yield opened
        opened.rollback()


def cancel(user: Conn, *jobs: UUID) -> None:
    """Asked for, and not committed."""
    for job in jobs:
        user.execute("SELECT redisjobs.cancel(%s)", [job])


async def rounds(relay: RelayByHand, most: int = 4) -> None:
    """A few: while somebody holds a row there may be no end of them."""
    for _ in range(most):
        await relay.round()


async def reaches(relay: RelayByHand, conn: Conn, job: UUID, state: str) -> None:
    async def one_more() -> bool:
        await relay.round()
        return states(conn)[job] == state

    await eventually(one_more, f"{job} is {state}")


@pytest.mark.parametrize(
    "ends",
    [("done", "done"), ("retry", "retrying"), ("dead", "dead"), ("suspended", "staged"), ("cancelled", "cancelled")],
)
async def test_outcomes_settle_beside_that_of_a_row_which_a_user_holds(
    conn: Conn, user: Conn, relay: RelayByHand, worker: Hand, ends: tuple[Any, str]
):
    word, state = ends
    held, *others = (stage(conn) for _ in range(4))
    conn.commit()
    await relay.rounds()
    first, *rest = await worker.take()
    assert job_of(first) == held
    cancel(user, held)

    await worker.end(finish(first, word, delay_ms=60_000), finish(rest[0]))
    await worker.end(finish(rest[1], "dead"))
    await rounds(relay)
    await worker.end(finish(rest[2]))
    await rounds(relay)

    assert [states(conn)[each] for each in others] == ["done", "dead", "done"]
    assert states(conn)[held] == "published"
    user.rollback()
    await reaches(relay, conn, held, state)


async def test_what_comes_back_comes_back_at_its_time_however_long_its_row_was_held(
    conn: Conn, user: Conn, relay: RelayByHand, worker: Hand
):
    held = stage(conn)
    conn.commit()
    await relay.rounds()
    one = await worker.one()
    cancel(user, held)
    await worker.end(finish(one, "retry", delay_ms=60_000))
    due = conn.execute("SELECT clock_timestamp() + interval '60 s'").fetchone()
    conn.rollback()
    await rounds(relay, 3)
    user.rollback()
    await reaches(relay, conn, held, "retrying")

    late = conn.execute("SELECT date_part('epoch', run_at - %s) FROM redisjobs.outbox", due).fetchone()
    assert late is not None
    assert abs(float(late[0])) < 0.5


async def test_a_child_whose_parent_a_user_holds_waits_alone(
    conn: Conn, user: Conn, relay: RelayByHand, worker: Hand, database_url: str
):
    async with sleepers(database_url, worker) as runs:
        stage(conn)
        conn.commit()
        await relay.rounds()
        parent = await runs.take()
        child = await parent.call()
        await parent.suspend()
        await relay.rounds()
        other = stage(conn)
        conn.commit()
        await relay.rounds()
        cancel(user, parent.id)

        await worker.end(*(finish(each, record=pack(result=("json", b"1"))) for each in await worker.take()))
        await rounds(relay)
        assert states(conn) == {parent.id: "suspended", child: "published", other: "done"}
        user.rollback()
        await reaches(relay, conn, child, "done")
        assert states(conn)[parent.id] in ("staged", "published")


async def test_a_relay_that_takes_over_finds_what_waits_and_what_has_settled_beside_it(
    conn: Conn, user: Conn, database_url: str, redis_url: str, worker: Hand
):
    held, other = stage(conn), stage(conn)
    conn.commit()
    async with relay_by_hand(database_url, redis_url) as first:
        await first.rounds()
        one, two = await worker.take()
        cancel(user, held)
        await worker.end(finish(one))
        await worker.end(finish(two, "dead"))
        await rounds(first)
        assert states(conn)[other] == "dead"
        await first.relay.leases.let_go()
    user.commit()
    async with relay_by_hand(database_url, redis_url) as second:
        await second.rounds()
    assert states(conn) == {held: "done", other: "dead"}


async def test_rows_are_published_beside_one_that_a_user_holds(
    conn: Conn, user: Conn, relay: RelayByHand, worker: Hand
):
    held, *others = (stage(conn) for _ in range(3))
    conn.commit()
    cancel(user, held)
    await rounds(relay)
    assert [states(conn)[each] for each in (held, *others)] == ["staged", "published", "published"]
    later = stage(conn)
    conn.commit()
    await rounds(relay)
    assert states(conn)[later] == "published"
    taken = await worker.take()
    assert [job_of(each) for each in taken] == [held, *others, later]  # in the order of staging, held or not
    await worker.end(*map(finish, taken))
    await rounds(relay)
    assert [states(conn)[each] for each in (*others, later)] == ["done"] * 3
    user.commit()
    await reaches(relay, conn, held, "done")


@pytest.mark.parametrize("what", ["far off", "cancelled"])
async def test_a_row_that_leaves_the_line_waits_for_who_holds_it_and_nobody_else_does(
    conn: Conn, user: Conn, relay: RelayByHand, worker: Hand, what: str
):
    held = stage(conn)
    if what == "far off":
        conn.execute("UPDATE redisjobs.outbox SET run_at = now() + interval '1 day' WHERE id = %s", [held])
    else:
        conn.execute("SELECT redisjobs.cancel(%s)", [held])
    other = stage(conn)
    conn.commit()
    user.execute("SELECT FROM redisjobs.outbox WHERE id = %s FOR UPDATE", [held])
    await rounds(relay)
    assert states(conn) == {held: "staged", other: "published"}
    await worker.run()
    await rounds(relay)
    assert states(conn)[other] == "done"
    user.rollback()
    await reaches(relay, conn, held, "deferred" if what == "far off" else "cancelled")


@pytest.mark.parametrize("state", ["deferred", "suspended"])
async def test_others_come_due_beside_one_that_a_user_holds(conn: Conn, user: Conn, relay: RelayByHand, state: str):
    held, other = (stage(conn, run_at=datetime.now(UTC) + timedelta(days=1)) for _ in range(2))
    conn.commit()
    await relay.rounds()
    conn.execute("UPDATE redisjobs.outbox SET state = %s, run_at = now() WHERE id = ANY (%s)", [state, [held, other]])
    conn.commit()
    cancel(user, held)
    await reaches(relay, conn, other, "published")
    assert states(conn)[held] == state
    user.commit()
    await reaches(relay, conn, held, "cancelled")


async def test_others_are_moved_beside_one_that_a_user_holds(conn: Conn, user: Conn, relay: RelayByHand):
    held, other = stage(conn), stage(conn)
    conn.commit()
    await relay.rounds()
    for job in (held, other):
        conn.execute("SELECT redisjobs.reprioritize(%s, 0)", [job])
    conn.commit()
    cancel(user, held)
    await rounds(relay)
    assert conn.execute("SELECT id FROM redisjobs.outbox WHERE moving").fetchall() == [(held,)]
