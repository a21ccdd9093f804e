"""What comes late changes nothing: under a former token, in a former life of Redis, for a former life of a job."""

from __future__ import annotations

import asyncio
from uuid import UUID

import msgpack
import psycopg
import pytest
import redis as redis_py

from redisjobs.broker import Stale
from redisjobs.broker.values import Outcome
from redisjobs.relay import Relay
from redisjobs.settler import fold
from tests.support.builders import stage, states
from tests.support.eventually import always
from tests.support.proxy import Proxy
from tests.support.relays import Hand, RelayByHand, relay_by_hand

Conn = psycopg.Connection[tuple[object, ...]]

LAPSED = "UPDATE redisjobs.queues SET lease_until = '-infinity'"
TAKEN = "UPDATE redisjobs.queues SET token = token + 1, holder = 'other'"
REDIS_LOST = "UPDATE redisjobs.queues SET epoch = 'another'"
REDRIVEN = "UPDATE redisjobs.outbox SET redrives = redrives + 1"
REFUSALS = [LAPSED, TAKEN, REDIS_LOST]


async def published(conn: Conn, relay: RelayByHand) -> UUID:
    job = stage(conn)
    conn.commit()
    await relay.rounds()
    assert states(conn) == {job: "published"}
    return job


def happens(conn: Conn, meanwhile: str) -> None:
    conn.execute(meanwhile.encode())
    conn.commit()


def rows(conn: Conn) -> list[tuple[object, ...]]:
    found = conn.execute("SELECT id, state, attempts, redrives, run_at, last_error FROM redisjobs.outbox").fetchall()
    conn.commit()
    return found


# outcomes


@pytest.mark.parametrize("record", [b"", msgpack.packb({"why": "so"})])
@pytest.mark.parametrize("word", ["done", "dead", "cancelled", "expired", "retry", "snooze", "suspended", "parked"])
async def test_an_outcome_of_a_former_life_changes_no_row(conn: Conn, relay: RelayByHand, word: str, record: bytes):
    job = await published(conn, relay)
    happens(conn, REDRIVEN)
    before = rows(conn)

    late = Outcome(b"1-1", job.bytes, word, life=0, number=1, attempts=7, delay_s=60.0, envelope=b"", record=record)
    await relay.relay.settler._settle("default", fold([late]))

    assert rows(conn) == before
    assert conn.execute("SELECT count(*) FROM redisjobs.finished, redisjobs.dead").fetchone() == (0,)


# marks and cancels


@pytest.mark.parametrize("meanwhile", [*REFUSALS, REDRIVEN])
async def test_a_late_mark_marks_nothing(
    conn: Conn, redis_url: str, postgres_proxy: Proxy, meanwhile: str, worker: Hand
):
    job = stage(conn)
    conn.commit()
    async with relay_by_hand(postgres_proxy.url, redis_url) as relay:
        with postgres_proxy.hold_request("state = 'published', published_at") as held:
            passing = asyncio.create_task(relay.round())
            await held.happened()
            happens(conn, meanwhile)
            held.release()
            await passing

        assert states(conn) == {job: "staged"}
        if meanwhile is REDRIVEN:
            await relay.rounds()
            assert (await worker.one()).life == 1
        else:
            assert not relay.holds()


@pytest.mark.parametrize("meanwhile", REFUSALS)
async def test_a_late_cancel_ends_nothing(
    conn: Conn, redis_url: str, postgres_proxy: Proxy, meanwhile: str, monkeypatch: pytest.MonkeyPatch
):
    async def nothing(_: Relay) -> int:
        """Else it would take the queue anew behind its turns, and end the job under that token."""
        return 0

    monkeypatch.setattr(Relay, "_work_aside", nothing)
    job = stage(conn)
    conn.execute("SELECT redisjobs.cancel(%s)", [job])
    conn.commit()
    async with relay_by_hand(postgres_proxy.url, redis_url) as relay:
        with postgres_proxy.hold_request("o.cancel_requested AND o.ending IS NULL AND NOT o.undo") as held:
            passing = asyncio.create_task(relay.round())
            await held.happened()
            happens(conn, meanwhile)
            held.release()
            await passing

        assert states(conn) == {job: "staged"}


# audit and recovery


@pytest.mark.parametrize("meanwhile", [*REFUSALS, REDRIVEN])
async def test_a_late_audit_stages_nothing(conn: Conn, relay: RelayByHand, redis: redis_py.Redis, meanwhile: str):
    job = await published(conn, relay)
    redis.delete("rj:{default}:jobs", "rj:{default}:ready:1")
    happens(conn, meanwhile)

    assert await relay.relay.audit._missing(relay.hold(), [(job.bytes, 0, 0)]) == 0

    assert states(conn) == {job: "published"}


@pytest.mark.parametrize("meanwhile", [LAPSED, TAKEN])
async def test_a_late_recovery_stages_nothing_and_names_no_life(
    conn: Conn, redis_url: str, postgres_proxy: Proxy, redis: redis_py.Redis, meanwhile: str
):
    async with relay_by_hand(postgres_proxy.url, redis_url) as relay:
        job = await published(conn, relay)
        epoch = relay.hold().epoch
        redis.flushall()
        with postgres_proxy.hold_request("SET epoch") as held:
            recovering = asyncio.create_task(relay.relay.recovery.open(relay.hold()))
            await held.happened()
            conn.execute("UPDATE redisjobs.outbox SET state = 'published'")  # what the new holder has published since
            happens(conn, meanwhile)
            held.release()
            with pytest.raises(Stale):
                await recovering
        with pytest.raises(Stale):
            await relay.relay.recovery._take_back(relay.hold())

    assert states(conn) == {job: "published"}
    assert conn.execute("SELECT epoch FROM redisjobs.queues").fetchone() == (epoch,)


# turns


async def test_the_audit_of_a_queue_waits_for_the_pass_in_flight(conn: Conn, database_url: str, redis_proxy: Proxy):
    async with relay_by_hand(database_url, redis_proxy.url) as relay:
        await published(conn, relay)
        stage(conn)
        conn.commit()
        with redis_proxy.hold_request("publish") as held:
            passing = asyncio.create_task(relay.round())
            await held.happened()
            relay.relay.audit.begin(age_s=0)
            auditing = asyncio.create_task(relay.relay.audit.step(relay.relay.leases.held))
            await always(lambda: not auditing.done(), "the audit waits", lasting=0.3)
            held.release()
            await passing

        assert await auditing == 0
        assert set(states(conn).values()) == {"published"}
