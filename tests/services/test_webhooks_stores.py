"""States of endpoints: Postgres and memory answer alike; and what only Postgres does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from redisjobs import EncryptedCodec, StoreRefused
from redisjobs.base.postgres import Database
from redisjobs.webhooks import generate_secret
from redisjobs.webhooks.memory import MemoryEndpoints
from redisjobs.webhooks.postgres import PostgresEndpoints
from redisjobs.webhooks.sealing import Seal
from redisjobs.webhooks.state import Failure, State
from redisjobs.webhooks.store import EndpointStore, EndpointUnreadable

Conn = psycopg.Connection[tuple[object, ...]]
SECRET, NEXT = generate_secret(), generate_secret()
URL = "https://hooks.example/"
LATER, LAST, GONE = Failure("503", final=False), Failure("500", final=True), Failure("410", final=True, gone=True)


@pytest.fixture
async def postgres(database_url: str) -> AsyncIterator[PostgresEndpoints]:
    database = Database(database_url)
    await database.open()
    store = PostgresEndpoints(database, Seal())
    yield store
    await store.close()


@pytest.fixture(params=["postgres", "memory"])
def store(request: pytest.FixtureRequest) -> EndpointStore:
    return request.getfixturevalue("postgres") if request.param == "postgres" else MemoryEndpoints()


async def state(store: EndpointStore) -> State:
    found = await store.find("shop")
    assert found is not None
    assert found.endpoint is None
    return found.state


def timeless(given: State) -> tuple[Any, ...]:
    moments = (given.failing_since, given.last_delivered_at, given.disabled_at)
    return (given.failures, given.last_error, given.disabled_why, *(each is not None for each in moments))


async def test_nothing_is_known_of_an_endpoint_that_nobody_noted_anything_of(store: EndpointStore):
    assert await store.find("shop") is None
    assert await store.failed("shop", LAST, 20, declared=False) is None
    await store.delivered("shop", declared=False)
    assert await store.find("shop") is None


async def test_a_failure_that_is_followed_by_a_retry_counts_nothing_and_tells_since_when(store: EndpointStore):
    noted = await store.failed("shop", LATER, 1, declared=True)
    first = await state(store)
    await store.failed("shop", replace(LATER, error="timeout"), 1, declared=True)

    assert noted is not None
    assert (noted.failures, noted.disabled_why) == (0, None)
    assert timeless(await state(store)) == (0, "timeout", None, True, False, False)
    assert (await state(store)).failing_since == first.failing_since
    assert (first.word, first.is_enabled) == ("failing", True)


async def test_so_many_failed_deliveries_in_a_row_disable(store: EndpointStore):
    """H4."""
    for failures in (1, 2):
        noted = await store.failed("shop", LAST, 3, declared=True)
        assert noted is not None
        assert (noted.failures, noted.disabled_why) == (failures, None)
    noted = await store.failed("shop", LAST, 3, declared=True)

    why = "3 deliveries in a row were not accepted, the last one because: 500"
    assert noted is not None
    assert (noted.failures, noted.disabled_why) == (3, why)
    assert timeless(await state(store)) == (3, "500", why, True, False, True)
    assert (await state(store)).word == "disabled"


async def test_a_success_sets_the_count_to_0(store: EndpointStore):
    for _ in range(2):
        await store.failed("shop", LAST, 3, declared=True)
    await store.delivered("shop", declared=True)
    assert timeless(await state(store)) == (0, None, None, False, True, False)
    for _ in range(2):
        await store.failed("shop", LAST, 3, declared=True)

    assert (await state(store)).is_enabled


async def test_an_endpoint_that_is_gone_is_disabled_at_once_and_keeps_the_first_reason(store: EndpointStore):
    await store.failed("shop", GONE, 0, declared=True)
    await store.failed("shop", LAST, 1, declared=True)

    assert timeless(await state(store)) == (2, "500", "it answered 410: gone for good", True, False, True)


async def test_with_0_no_number_of_failures_disables(store: EndpointStore):
    for _ in range(30):
        await store.failed("shop", LAST, 0, declared=True)

    assert timeless(await state(store)) == (30, "500", None, True, False, False)


async def test_a_success_does_not_enable_what_was_disabled(store: EndpointStore):
    await store.failed("shop", GONE, 0, declared=True)
    await store.delivered("shop", declared=True)

    assert not (await state(store)).is_enabled


async def test_errors_are_kept_cut(store: EndpointStore):
    await store.failed("shop", Failure("é" * 10_000, final=True), 1, declared=True)

    found = await state(store)
    assert found.last_error == "é" * 500
    assert found.disabled_why is not None
    assert found.disabled_why.count("é") == 300


# -- Postgres alone
def add(conn: Conn, secret: str = SECRET, headers: str = "{}") -> None:
    assert conn.execute("SELECT redisjobs.webhook_add('shop', %s, %s, %s)", [URL, secret, headers]).fetchone() == (
        True,
    )
    conn.commit()


async def test_a_healthy_endpoint_costs_a_write_a_minute(postgres: PostgresEndpoints, conn: Conn):
    await postgres.delivered("shop", declared=True)
    before = conn.execute("SELECT xmin::text, last_delivered_at FROM redisjobs.webhook_endpoints").fetchone()
    for _ in range(5):
        await postgres.delivered("shop", declared=False)
    assert conn.execute("SELECT xmin::text, last_delivered_at FROM redisjobs.webhook_endpoints").fetchone() == before

    conn.execute("UPDATE redisjobs.webhook_endpoints SET last_delivered_at = now() - interval '61 s'")
    conn.commit()
    await postgres.delivered("shop", declared=False)
    assert conn.execute(
        "SELECT last_delivered_at > now() - interval '50 s' FROM redisjobs.webhook_endpoints"
    ).fetchone() == (True,)


async def test_a_stored_endpoint_is_found_with_its_secrets_the_youngest_first(postgres: PostgresEndpoints, conn: Conn):
    add(conn, headers='{"authorization": "Bearer abc"}')
    conn.execute("SELECT redisjobs.webhook_rotate('shop', %s, '1 hour')", [NEXT])
    conn.commit()

    found = await postgres.find("shop")

    assert found is not None
    assert found.endpoint is not None
    assert found.endpoint.secrets == [NEXT, SECRET]
    assert found.endpoint.url == URL
    assert found.endpoint.headers == {"authorization": "Bearer abc"}


async def test_a_secret_that_was_rotated_away_signs_no_more_after_its_grace(postgres: PostgresEndpoints, conn: Conn):
    add(conn)
    conn.execute("SELECT redisjobs.webhook_rotate('shop', %s, '0')", [NEXT])
    conn.commit()

    found = await postgres.find("shop")

    assert found is not None
    assert found.endpoint is not None
    assert found.endpoint.secrets == [NEXT]
    assert conn.execute("SELECT count(*) FROM redisjobs.webhook_secrets").fetchone() == (1,)


async def test_what_is_sealed_with_another_key_cannot_be_used_and_says_so(postgres: PostgresEndpoints, conn: Conn):
    add(conn, Seal([EncryptedCodec.generate_key()]).close(SECRET))

    with pytest.raises(EndpointUnreadable, match="REDISJOBS_WEBHOOK_KEYS has no key here"):
        await postgres.find("shop")


async def test_a_secret_written_by_hand_that_is_none_says_so_and_is_not_shown(postgres: PostgresEndpoints, conn: Conn):
    add(conn, "v1,whsec_marker")

    with pytest.raises(EndpointUnreadable, match="leave out what stands before") as told:
        await postgres.find("shop")
    assert "marker" not in str(told.value)


def test_an_endpoint_that_is_stored_is_not_stored_again_and_a_declared_one_can_be(conn: Conn):
    conn.execute("SELECT redisjobs.webhook_delivered('shop', true)")
    add(conn)

    again = conn.execute("SELECT redisjobs.webhook_add('shop', %s, %s, '{}')", [URL, NEXT]).fetchone()

    assert again == (False,)
    assert conn.execute("SELECT value FROM redisjobs.webhook_secrets").fetchall() == [(SECRET,)]


def test_an_endpoint_goes_with_its_secrets(conn: Conn):
    add(conn, headers='{"x-a": "1"}')

    assert conn.execute("SELECT redisjobs.webhook_delete('shop')").fetchone() == (True,)
    assert conn.execute("SELECT redisjobs.webhook_delete('shop')").fetchone() == (False,)
    assert conn.execute("SELECT count(*) FROM redisjobs.webhook_secrets").fetchone() == (0,)


async def test_who_delivers_needs_one_grant_and_reads_no_table(
    database_url: str, role: Callable[[str], str], conn: Conn
):
    add(conn)
    url = role("webhooks")
    database = Database(url)
    await database.open()
    store = PostgresEndpoints(database, Seal())

    found = await store.find("shop")
    await store.failed("shop", LAST, 20, declared=False)
    await store.delivered("shop", declared=True)
    await store.close()

    assert found is not None
    with psycopg.connect(url) as theirs, pytest.raises(psycopg.errors.InsufficientPrivilege):
        theirs.execute("SELECT * FROM redisjobs.webhook_secrets")


def test_an_operator_reads_endpoints_and_no_secret(role: Callable[[str], str], conn: Conn):
    add(conn, headers='{"authorization": "Bearer abc"}')

    with psycopg.connect(role("operator")) as theirs:
        assert theirs.execute("SELECT name FROM redisjobs.webhook_endpoints").fetchall() == [("shop",)]
        assert theirs.execute("SELECT * FROM redisjobs.webhook_secrets").fetchall() == []
    with psycopg.connect(role("operator")) as theirs, pytest.raises(psycopg.errors.InsufficientPrivilege):
        theirs.execute("SELECT * FROM redisjobs.webhook_target('shop')")


def test_who_manages_endpoints_writes_secrets_and_reads_none(role: Callable[[str], str], conn: Conn):
    with psycopg.connect(role("webhook_admin")) as theirs:
        theirs.execute("SELECT redisjobs.webhook_add('shop', %s, %s, '{}')", [URL, SECRET])
        theirs.execute("SELECT redisjobs.webhook_rotate('shop', %s, '1 day')", [NEXT])
        theirs.execute("SELECT redisjobs.webhook_switch('shop', 'for now')")
        keys = theirs.execute("SELECT header, expires_at IS NULL FROM redisjobs.webhook_keys('shop')").fetchall()
        assert keys == [(None, True), (None, False)]
        assert theirs.execute("SELECT disabled_why FROM redisjobs.webhook_endpoints").fetchone() == ("for now",)
        theirs.commit()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            theirs.execute("SELECT * FROM redisjobs.webhook_target('shop')")


async def test_without_the_right_a_delivery_is_told_which_one(database_url: str, role: Callable[[str], str]):
    database = Database(role("producer"))
    await database.open()
    store = PostgresEndpoints(database, Seal())

    with pytest.raises(StoreRefused, match=r"find a webhook's endpoint: permission denied .*grant_webhooks\('role'\)"):
        await store.find("shop")
    await store.close()
