"""An event is heard of at once, busy senders pay no NOTIFY, and no order of commits and looks loses one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from redisjobs.deliverer import EVENTS_AT_ONCE, Deliverer
from redisjobs.dozing import BUSY_WAKES
from redisjobs.errors import StoreUnavailable
from tests.support.builders import stage, states
from tests.support.eventually import eventually
from tests.support.listening import Listener, heard
from tests.support.proxy import Proxy
from tests.support.relays import Hand, RelayByHand, relay_by_hand
from tests.support.sleepers import sleepers

Conn = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
async def relay(database_url: str, redis_url: str) -> AsyncIterator[RelayByHand]:
    """It never looks by itself within a test: what it finds, it has heard of."""
    async with relay_by_hand(database_url, redis_url, interval=60) as made:
        yield made


def send(conn: Conn, *, commit: bool = True) -> None:
    conn.execute("SELECT redisjobs.send_event('paid', '7')")
    if commit:
        conn.commit()


def polls(deliverer: Deliverer) -> bool:
    return deliverer.polled


async def get_busy(deliverer: Deliverer) -> None:
    for _ in range(BUSY_WAKES):
        deliverer.call()
    await deliverer.deliver()
    assert deliverer.hurries


async def get_quiet(deliverer: Deliverer) -> None:
    deliverer._last_work = 0.0
    await deliverer.deliver()


async def sleeps(deliverer: Deliverer) -> bool:
    """Or gets quiet once more, for its flag may be younger than a transaction of Postgres' own."""
    if deliverer.polled:
        await get_quiet(deliverer)
    return not deliverer.polled


async def test_an_event_wakes_its_run_at_once(conn: Conn, relay: RelayByHand, worker: Hand, database_url: str):
    async with sleepers(database_url, worker) as runs:
        stage(conn)
        conn.commit()
        await relay.rounds()
        run = await runs.take()
        await run.wait()
        await run.suspend()
        await relay.rounds()
        await relay.relay.start()
        await eventually(lambda: relay.relay.ear.hears, "the relay hears itself")
        assert states(conn) == {run.id: "suspended"}

        send(conn)

        await eventually(lambda: states(conn) == {run.id: "published"}, "it goes on", within=20)


async def test_senders_notify_until_a_relay_polls(conn: Conn, relay: RelayByHand, listener: Listener):
    send(conn)
    assert heard(listener) == ["*"]
    await get_busy(relay.relay.deliverer)

    send(conn)

    assert heard(listener) == []
    assert await relay.relay.deliverer.deliver() == 1


async def test_a_full_pass_goes_on_at_once_and_polls(conn: Conn, relay: RelayByHand):
    conn.execute("INSERT INTO redisjobs.events (name) SELECT 'a' FROM generate_series(1, %s)", [EVENTS_AT_ONCE + 1])
    conn.commit()

    assert await relay.relay.deliverer.deliver() == EVENTS_AT_ONCE
    assert relay.relay.deliverer.asks
    assert await relay.relay.deliverer.deliver() == 1
    assert relay.relay.deliverer.polled


async def test_a_relay_that_polls_asks_for_notice_again_when_it_is_quiet(
    conn: Conn, relay: RelayByHand, listener: Listener
):
    await get_busy(relay.relay.deliverer)
    await eventually(lambda: sleeps(relay.relay.deliverer), "it sleeps")

    send(conn)

    assert heard(listener) == ["*"]


async def test_rule_17_it_polls_on_until_every_transaction_older_than_its_flag_has_ended(
    conn: Conn, relay: RelayByHand, listener: Listener
):
    deliverer = relay.relay.deliverer
    await get_busy(deliverer)
    send(conn, commit=False)  # its trigger has seen that nobody sleeps
    for _ in range(3):
        await get_quiet(deliverer)
    assert polls(deliverer)

    conn.commit()
    assert heard(listener) == []
    assert await deliverer.deliver() == 1
    await eventually(lambda: sleeps(deliverer), "it sleeps")
    assert deliverer.asks, "it looks once more"


async def test_a_relay_that_finds_senders_silent_polls_in_the_place_of_one_that_is_gone(
    conn: Conn, database_url: str, redis_url: str, relay: RelayByHand
):
    await get_busy(relay.relay.deliverer)  # and is killed
    send(conn)
    async with relay_by_hand(database_url, redis_url) as second:
        assert await second.relay.deliverer.deliver() == 1
        assert second.relay.deliverer.hurries


async def test_a_busy_relay_has_senders_be_silent_again_where_another_one_fell_asleep(
    conn: Conn, database_url: str, redis_url: str, relay: RelayByHand, listener: Listener
):
    await get_busy(relay.relay.deliverer)
    async with relay_by_hand(database_url, redis_url) as second:
        await second.relay.deliverer.deliver()
        await get_quiet(second.relay.deliverer)
    send(conn)
    assert heard(listener) == ["*"]

    await get_busy(relay.relay.deliverer)
    send(conn)

    assert heard(listener) == []


async def test_two_relays_hand_out_no_event_twice(conn: Conn, database_url: str, redis_url: str, relay: RelayByHand):
    with psycopg.connect(database_url) as passing:
        send(conn)
        assert passing.execute("SELECT looked FROM redisjobs.deliver_events(10)").fetchone() == (1,)
        assert await relay.relay.deliverer.deliver() == 0
        passing.commit()
    assert await relay.relay.deliverer.deliver() == 0


async def test_a_pass_that_fails_is_made_again(conn: Conn, postgres_proxy: Proxy, redis_url: str):
    send(conn)
    async with relay_by_hand(postgres_proxy.url, redis_url, interval=60) as relay:
        deliverer = relay.relay.deliverer
        deliverer.call()
        with postgres_proxy.lose_request("deliver_events"), pytest.raises(StoreUnavailable):
            await deliverer.deliver()

        assert deliverer.asks
        assert await deliverer.deliver() == 1
