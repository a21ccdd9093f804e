"""Another priority or time for jobs that wait: at once in Postgres, by the relay in Redis, and kept by a new one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from redisjobs import App, OptionError
from redisjobs.broker import Delivery
from redisjobs.errors import BrokerUnavailable
from tests.support.builders import Conn, finish, stage, states
from tests.support.proxy import Proxy
from tests.support.relays import Hand, RelayByHand, envelope_of, hand, relay_by_hand
from tests.support.rules import script
from tests.support.sleepers import sleepers

app = App()


@pytest.fixture
async def relay(database_url: str, redis_url: str) -> AsyncIterator[RelayByHand]:
    async with relay_by_hand(database_url, redis_url, lease=600) as made:
        yield made


@pytest.fixture
async def worker(redis_url: str) -> AsyncIterator[Hand]:
    async with hand(redis_url) as made:
        yield made


def change(conn: Conn, how: str, job: UUID, **given: Any) -> str:
    """The answer of `app.reprioritize` or `app.reschedule`, committed."""
    answer: str = getattr(app, how)(conn, str(job), **given)
    conn.commit()
    return answer


def committed(conn: Conn, count: int, /, **columns: Any) -> list[UUID]:
    jobs = [stage(conn, **columns) for _ in range(count)]
    conn.commit()
    return jobs


def column(conn: Conn, job: UUID, name: str) -> Any:
    row = conn.execute(f"SELECT {name} FROM redisjobs.outbox WHERE id = %s".encode(), [job]).fetchone()
    conn.commit()
    return row and row[0]


async def ids(worker: Hand) -> list[UUID]:
    return [UUID(bytes=each.job_id) for each in await worker.take()]


async def due_in_s(worker: Hand, job: UUID) -> float | None:
    """Seconds until it joins its stream; None: it does not wait for a time."""
    score = await worker.broker.redis.zscore("rj:{default}:due", job.bytes)
    seconds, micros = await worker.broker.redis.time()
    return None if score is None else score / 1000 - seconds - micros / 1e6


async def test_what_waits_in_redis_goes_before_the_others_once_the_relay_has_looked(
    conn: Conn, relay: RelayByHand, worker: Hand
):
    first, second, third = committed(conn, 3)
    await relay.rounds()

    assert change(conn, "reprioritize", third, priority=5) == "requested"
    assert change(conn, "reprioritize", first, priority=-5) == "requested"
    await relay.rounds()

    assert await ids(worker) == [third, second, first]
    assert column(conn, third, "moving") is False


async def test_a_staged_job_is_published_with_its_new_priority_and_time(conn: Conn, relay: RelayByHand, worker: Hand):
    later, low, ordinary = committed(conn, 3)
    assert change(conn, "reprioritize", low, priority=-1) == "changed"
    assert change(conn, "reschedule", later, delay=60) == "changed"

    await relay.rounds()

    assert await ids(worker) == [ordinary, low]
    assert 50 < (await due_in_s(worker, later) or 0) <= 60
    assert [column(conn, each, "moving") for each in (later, low)] == [False, False]


async def test_a_row_that_was_read_before_it_was_changed_is_moved_after_its_publication(
    conn: Conn, relay: RelayByHand, worker: Hand
):
    """What the relay has read it publishes as it was; the change must not get lost."""
    (job,) = committed(conn, 1)
    publisher: Any = relay.relay.publisher
    read = publisher._read

    async def read_and_change(*given: Any) -> Any:
        rows = await read(*given)
        publisher._read = read
        assert change(conn, "reschedule", job, delay=60) == "changed"
        return rows

    publisher._read = read_and_change
    await relay.rounds()

    assert await ids(worker) == []
    assert 50 < (await due_in_s(worker, job) or 0) <= 60


async def test_what_is_far_away_comes_at_once_and_the_other_way_round(conn: Conn, relay: RelayByHand, worker: Hand):
    (far,) = committed(conn, 1, run_at=datetime.now(UTC) + timedelta(days=9))
    (near,) = committed(conn, 1)
    await relay.rounds()
    assert states(conn) == {far: "deferred", near: "published"}

    assert change(conn, "reschedule", far) == "changed"
    assert change(conn, "reschedule", near, run_at=datetime.now(UTC) + timedelta(days=9)) == "requested"
    await relay.rounds()

    assert await ids(worker) == [far]
    assert (await due_in_s(worker, near) or 0) > 8 * 86_400


async def test_a_retry_is_brought_forward_and_its_attempts_go_on_counting(conn: Conn, relay: RelayByHand, worker: Hand):
    (job,) = committed(conn, 1)
    await relay.rounds()
    await worker.run("retry", delay_ms=600_000, counted=True)
    await relay.rounds()

    assert change(conn, "reschedule", job) == "requested"
    await relay.rounds()

    (again,) = await worker.take()
    assert (again.start, again.attempts) == (2, 1)
    await worker.end(finish(again))
    await relay.rounds()
    assert states(conn) == {job: "done"}


async def test_what_a_body_is_told_of_its_call_is_what_it_was_changed_to(conn: Conn, relay: RelayByHand, worker: Hand):
    (job,) = committed(conn, 1)
    await relay.rounds()
    change(conn, "reprioritize", job, priority=9)
    change(conn, "reschedule", job, run_at=datetime(2020, 1, 2, tzinfo=UTC))
    await relay.rounds()

    told = envelope_of((await worker.take())[0])

    assert (told.priority, told.run_at) == (9, int(datetime(2020, 1, 2, tzinfo=UTC).timestamp() * 1e6))


async def test_a_redis_that_lost_all_gets_the_new_values(conn: Conn, relay: RelayByHand, worker: Hand):
    low, later, ordinary, unheard_of = committed(conn, 4)
    await relay.rounds()
    change(conn, "reprioritize", low, priority=-1)
    change(conn, "reschedule", later, delay=60)
    await relay.rounds()
    change(conn, "reprioritize", unheard_of, priority=1)
    await worker.broker.redis.flushall()
    await relay.renewed()
    await relay.rounds()

    assert await ids(worker) == [unheard_of, ordinary, low]
    assert 50 < (await due_in_s(worker, later) or 0) <= 60


async def test_a_running_job_is_left_alone_and_ends_once(conn: Conn, relay: RelayByHand, worker: Hand):
    (job,) = committed(conn, 1)
    await relay.rounds()
    (held,) = await worker.take()

    assert change(conn, "reschedule", job, delay=3600) == "requested"
    await relay.rounds()

    assert column(conn, job, "moving") is False
    assert column(conn, job, "run_at") is None, "were it lost now, it would be published to start at once"
    await worker.end(finish(held))
    await relay.rounds()
    assert states(conn) == {job: "done"}


async def test_an_outcome_that_was_under_way_does_not_undo_the_change(conn: Conn, relay: RelayByHand, worker: Hand):
    (job,) = committed(conn, 1)
    await relay.rounds()
    await worker.run("retry", delay_ms=60_000, counted=True)

    change(conn, "reschedule", job, delay=1800)
    await relay.rounds()

    assert 1700 < (await due_in_s(worker, job) or 0) <= 1800
    run_at = column(conn, job, "run_at")
    assert run_at > datetime.now(UTC) + timedelta(seconds=1700)
    assert states(conn) == {job: "retrying"}


async def test_an_answer_that_got_lost_is_asked_for_again_and_changes_nothing(
    conn: Conn, database_url: str, redis_proxy: Proxy, worker: Hand
):
    one, other = committed(conn, 2)
    async with relay_by_hand(database_url, redis_proxy.url, lease=600) as relay:
        await relay.rounds()
        change(conn, "reprioritize", other, priority=5)
        with redis_proxy.lose_reply(script("move")), pytest.raises(BrokerUnavailable):
            await relay.rounds()
        assert column(conn, other, "moving") is True
        await relay.rounds()

    assert await ids(worker) == [other, one]
    assert column(conn, other, "moving") is False


async def test_while_a_queue_is_paused_its_jobs_move_and_none_starts(conn: Conn, relay: RelayByHand, worker: Hand):
    one, other = committed(conn, 2)
    await relay.rounds()
    conn.execute("SELECT redisjobs.pause('default')")
    conn.commit()
    await relay.renewed()

    change(conn, "reprioritize", other, priority=5)
    await relay.rounds()

    assert await ids(worker) == []
    conn.execute("SELECT redisjobs.pause('default', false)")
    conn.commit()
    await relay.renewed()
    assert await ids(worker) == [other, one]


async def test_a_run_that_waits_gets_a_priority_and_no_time(
    conn: Conn, relay: RelayByHand, worker: Hand, database_url: str
):
    (job,) = committed(conn, 1)
    await relay.rounds()
    async with sleepers(database_url, worker) as runs:
        run = await runs.take()
        await run.wait()
        await run.suspend()
        await relay.rounds()
        assert states(conn) == {job: "suspended"}

        assert change(conn, "reprioritize", job, priority=3) == "changed"
        assert change(conn, "reschedule", job) == "suspended"
        conn.execute("SELECT redisjobs.send_event('paid', '7')")
        conn.commit()
        await relay.rounds()

        again: list[Delivery] = await worker.take()
        assert [(UUID(bytes=each.job_id), each.band) for each in again] == [(job, 0)]


async def test_a_change_is_part_of_the_transaction_that_makes_it(conn: Conn, relay: RelayByHand, worker: Hand):
    one, other = committed(conn, 2)
    await relay.rounds()

    assert app.reprioritize(conn, str(other), 5) == "requested"
    conn.rollback()
    await relay.rounds()

    assert await ids(worker) == [one, other]


async def test_on_an_async_connection_the_answer_is_awaited(conn: Conn, database_url: str):
    (job,) = committed(conn, 1)
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        assert await app.reprioritize(connection, str(job), 5) == "changed"
        assert await app.reschedule(connection, str(job), delay=timedelta(minutes=1)) == "changed"
    assert column(conn, job, "priority") == 5


@pytest.mark.parametrize(
    ("how", "given", "told"),
    [
        ("reprioritize", {"priority": 101}, "priority (101)"),
        ("reschedule", {"run_at": datetime(2030, 1, 1)}, "has no time zone"),  # noqa: DTZ001 - that is the point
        ("reschedule", {"run_at": datetime(2030, 1, 1, tzinfo=UTC), "delay": 1}, "pass one of them"),
        ("reschedule", {"delay": -1}, "delay (-1)"),
    ],
)
def test_what_is_no_priority_or_time_is_refused_before_anything_is_sent(how: str, given: dict[str, Any], told: str):
    with pytest.raises(OptionError) as raised:
        getattr(app, how)(object(), "0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f", **given)
    assert told in str(raised.value)
