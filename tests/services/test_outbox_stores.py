"""Both stores of the outbox, Postgres and memory: the same calls make the same rows, errors and order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import errors

from redisjobs import App, Call, ConfigurationError, Debounce, EnqueueError, Throttle
from redisjobs.base import statements
from redisjobs.testing.outbox.checks import RULES
from redisjobs.testing.outbox.database import STATIONS
from redisjobs.testing.outbox.names import name_of
from tests.support.outboxes import AnyOutbox, in_memory, in_postgres

app = App("shop")
NEVER = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@app.job
async def mail(to: str, copies: int = 1) -> None:
    del to, copies


@app.job(queue="billing", priority=5)
async def charge(amount: Decimal) -> None:
    del amount


@pytest.fixture
def postgres(database_url: str) -> Iterator[AnyOutbox]:
    opened: list[Any] = []
    yield in_postgres(database_url, opened)
    for each in opened:
        each.close()


@pytest.fixture(params=["postgres", "memory"])
def outbox(request: pytest.FixtureRequest) -> AnyOutbox:
    """Each of them in turn."""
    if request.param == "memory":
        return in_memory()
    found: AnyOutbox = request.getfixturevalue("postgres")
    return found


@pytest.fixture
async def both(postgres: AnyOutbox) -> AsyncIterator[tuple[AnyOutbox, AnyOutbox]]:
    """Both at once, to be told the same."""
    await postgres.database.open()
    yield postgres, in_memory()
    await postgres.database.close()


CALLS = {
    "plain": lambda: mail.call("a", copies=2),
    "not json": lambda: charge.call(Decimal("1.10")),
    "every option": lambda: mail.using(
        queue="bulk.mail", run_at=NEVER, idempotency_key="order 7 ☃", window=timedelta(days=2, milliseconds=1),
        priority=-100, max_attempts=7, expires=NEVER + timedelta(hours=1), tenant="t-1",
        headers={"b": [1, 1.0, None], "a": "é", "big": 2**70}, enqueued_by="tests",
    ).call("é"),
    "throttled": lambda: mail.using(throttle=Throttle(period=60, key="to"), lane="a", share="b").call("x"),
    "debounced": lambda: mail.using(debounce=Debounce(wait=1.5, longest=timedelta(minutes=1))).call("x"),
    "single": lambda: mail.using(singleton="replace", idempotency_key="one").call("x"),
    "edges": lambda: mail.using(
        queue="_" * 128, tenant="é" * 200, enqueued_by="", idempotency_key="é" * 256, window=0, max_attempts=1000,
        run_at=datetime(2, 1, 1, tzinfo=UTC), expires=datetime(9998, 12, 31, tzinfo=UTC), headers={}, priority=100,
    ).call("\0"),
}  # fmt: skip


@pytest.mark.parametrize("many", [False, True], ids=["one by one", "in one statement"])
def test_the_same_calls_make_the_same_rows(both: tuple[AnyOutbox, AnyOutbox], many: bool):
    calls: list[Call[Any]] = [make() for make in CALLS.values()]
    for outbox in both:
        connection = outbox.connect()
        for piece in [calls] if many else [[call] for call in calls]:
            app.enqueue(connection, piece)
        connection.commit()

    first, second = (
        [{name: value for name, value in row.items() if name not in ("staged_at", "xact")} for row in outbox.rows()]
        for outbox in both
    )

    assert first == second
    assert len(first) == len(CALLS)


def test_a_distance_counts_from_the_time_of_the_store(outbox: AnyOutbox):
    connection = outbox.connect()

    mail.using(delay=90, expires=timedelta(minutes=5)).enqueue(connection, "a")
    mail.using(delay=timedelta(days=36_600)).enqueue(connection, "far")
    connection.commit()

    near, far = outbox.rows()
    assert timedelta(seconds=89) < near["run_at"] - near["staged_at"] < timedelta(seconds=91)
    assert timedelta(seconds=299) < near["expires_at"] - near["staged_at"] < timedelta(seconds=301)
    assert far["run_at"] > datetime(2120, 1, 1, tzinfo=UTC)


BROKEN: dict[str, dict[str, Any]] = {
    "codec_goes_with_payload": {"codec": None, "payload": b"x"},  # of no call: a row by hand
    "codec_is_a_name": {"codec": "A B", "payload": b"x"},
    "enqueued_by_at_most_200_characters": {"enqueued_by": "x" * 201},
    "expires_at_is_a_time": {"expires_at": datetime(9999, 1, 1, tzinfo=UTC)},
    "headers_are_an_object": {"headers": "[]"},
    "headers_at_most_16_kib": {"headers": '{"a":"' + "x" * 16_384 + '"}'},
    "idempotency_key_1_to_512_bytes": {"idempotency_key": "é" * 257},
    "input_at_most_1_mib": {"payload": b'{"a":"' + b"x" * 1_048_576 + b'"}'},
    "input_is_object_or_array": {"payload": b"7"},
    "input_or_payload": {},
    "job_is_a_name": {"job": " "},
    "key_longest_is_a_wait": {"key_longest": 1.0},
    "key_policy_goes_with_key": {"key_policy": "skip"},
    "key_policy_is_known": {"idempotency_key": "k", "key_policy": "first"},
    "key_wait_goes_with_debounce": {"idempotency_key": "k", "key_policy": "debounce"},
    "key_window_0_to_366_days": {"idempotency_key": "k", "key_window": 366 * 86_400.0 + 1},
    "key_window_fits_the_policy": {"idempotency_key": "k", "key_policy": "throttle"},
    "key_window_goes_with_key": {"key_window": 1.0},
    "lane_1_to_200_characters": {"lane": "x" * 201},
    "max_attempts_1_to_1000": {"max_attempts": 1001},
    "payload_at_most_1_mib": {"codec": "msgpack", "payload": b"x" * 1_048_577},
    "priority_within_100": {"priority": 101},
    "queue_is_a_name": {"queue": "a b"},
    "result_ttl_0_to_366_days": {"result_ttl": -1.0},
    "run_at_is_a_time": {"run_at": datetime(1, 12, 31, tzinfo=UTC)},
    "share_key_1_to_200_characters": {"share_key": ""},
    "tenant_id_1_to_200_characters": {"tenant_id": ""},
    "traceparent_is_w3c": {"traceparent": "00-x"},
    "version_1_to_100_characters": {},
}
BY_HAND = ("codec_goes_with_payload", "input_or_payload", "version_1_to_100_characters")
"""Rules that no call can break: they are for those who write rows themselves."""


def test_each_rule_of_the_table_refuses_the_same_row_in_the_same_words(outbox: AnyOutbox):
    connection = outbox.connect()

    for rule in BROKEN.keys() - BY_HAND:
        call = replace(mail.call("a"), **BROKEN[rule])
        with (
            pytest.raises(EnqueueError, match=f"^the outbox refuses the row by its rule {rule}$"),
            connection.transaction(),
        ):
            app.enqueue(connection, call)


def test_the_memory_has_every_rule_of_the_table(conn: psycopg.Connection[Any]):
    found = conn.execute(
        "SELECT conname FROM pg_constraint WHERE conrelid = 'redisjobs.outbox'::regclass AND contype = 'c'"
    ).fetchall()

    assert {name for (name,) in found} - {"state_is_known"} == set(RULES) == set(BROKEN)


def test_a_refused_row_fails_the_transaction_until_it_is_rolled_back(outbox: AnyOutbox):
    connection, bad = outbox.connect(), replace(mail.call("bad"), priority=101)
    mail.enqueue(connection, "before")
    with pytest.raises(EnqueueError), connection.transaction():
        app.enqueue(connection, bad)
    mail.enqueue(connection, "after a savepoint")
    with pytest.raises(EnqueueError):
        app.enqueue(connection, bad)

    with pytest.raises(errors.InFailedSqlTransaction):
        mail.enqueue(connection, "too late")
    with pytest.raises(errors.InFailedSqlTransaction), connection.transaction():
        mail.enqueue(connection, "no savepoint helps")
    with pytest.raises(errors.InFailedSqlTransaction):
        mail.enqueue(connection, "too late still")
    connection.rollback()
    mail.enqueue(connection, "anew")
    connection.commit()

    assert [row["input"] for row in outbox.rows()] == ['{"to":"anew"}']


def test_a_failed_transaction_that_is_committed_leaves_nothing(outbox: AnyOutbox):
    connection = outbox.connect()
    mail.enqueue(connection, "a")
    with pytest.raises(EnqueueError):
        app.enqueue(connection, replace(mail.call("bad"), priority=101))

    connection.commit()

    assert outbox.rows() == []


def test_the_same_call_twice_is_refused_in_the_same_words(outbox: AnyOutbox):
    connection, call = outbox.connect(), mail.call("a")
    app.enqueue(connection, call)

    with pytest.raises(EnqueueError, match=r"^this call was enqueued before"), connection.transaction():
        app.enqueue(connection, call)
    connection.commit()
    with pytest.raises(EnqueueError, match=r"^this call was enqueued before"), connection.transaction():
        app.enqueue(connection, [mail.call("b"), call])

    assert len(outbox.rows()) == 1


def test_what_ends_a_transaction_decides_about_its_rows(outbox: AnyOutbox):
    connection = outbox.connect()
    with connection.transaction():
        mail.enqueue(connection, "kept")
        with connection.transaction(force_rollback=True):
            mail.enqueue(connection, "forced back")
        with pytest.raises(LookupError), connection.transaction():
            mail.enqueue(connection, "failed")
            raise LookupError
        with connection.transaction():
            mail.enqueue(connection, "taken back without an error")
            give_up()
        with connection.transaction():
            mail.enqueue(connection, "kept as well")
    mail.enqueue(connection, "never committed")
    connection.rollback()

    assert [row["input"] for row in outbox.rows()] == ['{"to":"kept"}', '{"to":"kept as well"}']


def give_up() -> None:
    raise psycopg.Rollback


def test_a_connection_as_a_context_commits_or_rolls_back(outbox: AnyOutbox):
    with outbox.connect() as connection:
        mail.enqueue(connection, "kept")
    with pytest.raises(LookupError), outbox.connect() as connection:
        mail.enqueue(connection, "gone")
        raise LookupError
    closed = outbox.connect()
    closed.close()

    with pytest.raises(psycopg.OperationalError, match="closed"):
        mail.enqueue(closed, "a")
    assert [row["input"] for row in outbox.rows()] == ['{"to":"kept"}']


def test_autocommit_is_for_statements_outside_of_a_transaction(outbox: AnyOutbox):
    connection = outbox.connect(autocommit=True)
    mail.enqueue(connection, "kept")
    with pytest.raises(EnqueueError):
        app.enqueue(connection, replace(mail.call("bad"), priority=101))
    mail.enqueue(connection, "kept too")
    with connection.transaction(force_rollback=True):
        mail.enqueue(connection, "gone")

    assert [row["input"] for row in outbox.rows()] == ['{"to":"kept"}', '{"to":"kept too"}']


def test_inside_of_a_block_no_commit_is_taken(outbox: AnyOutbox):
    connection = outbox.connect()

    with connection.transaction():
        with pytest.raises(psycopg.ProgrammingError, match="forbidden within a Transaction"):
            connection.commit()
        mail.enqueue(connection, "a")

    assert len(outbox.rows()) == 1


def test_a_cancel_is_seen_with_the_commit(outbox: AnyOutbox):
    connection = outbox.connect()
    handle = mail.enqueue(connection, "a")
    connection.commit()

    assert app.cancel(connection, handle.id) == "requested"
    assert [row["cancel_requested"] for row in outbox.rows()] == [False]
    connection.commit()
    own = mail.enqueue(connection, "b")
    assert app.cancel(connection, own.id) == "requested"
    assert app.cancel(connection, "00000000-0000-7000-8000-000000000000") == "unknown"
    connection.commit()

    assert [row["cancel_requested"] for row in outbox.rows()] == [True, True]


async def test_the_order_of_publication_is_the_order_of_staging_among_what_is_committed(
    both: tuple[AnyOutbox, AnyOutbox],
):
    calls = [mail.call(f"{n}") for n in range(8)]
    read: list[list[bytes]] = []
    for outbox in both:
        first, second, lost = outbox.connect(), outbox.connect(), outbox.connect()
        app.enqueue(first, calls[0])
        app.enqueue(lost, calls[1])
        app.enqueue(second, calls[2], calls[3])
        app.enqueue(first, calls[4])
        second.commit()
        lost.rollback()
        batch = {"queue": "default", "floor": 0, "limit": 100}
        before = [row[1] for row in await outbox.ask("publisher", "batch", **batch)]
        first.commit()
        app.enqueue(second, calls[5])
        second.commit()
        read += [before, [row[1] for row in await outbox.ask("publisher", "batch", **batch)]]

    ids = [call.id.bytes for call in calls]
    assert read[:2] == read[2:] == [[ids[2], ids[3]], [ids[0], ids[2], ids[3], ids[4], ids[5]]]


async def test_an_open_transaction_is_named_in_the_snapshot_until_it_ends(both: tuple[AnyOutbox, AnyOutbox]):
    told: list[list[bool]] = []
    for outbox in both:
        connection, other = outbox.connect(), outbox.connect()
        mail.enqueue(connection, "a")
        mail.enqueue(other, "b")
        other.commit()
        text = (await outbox.ask("publisher", "batch", queue="default", floor=0, limit=1))[0][0]
        open_ones = [len(text.split(":")[2]) > 0 or text.split(":")[0] != text.split(":")[1]]
        connection.commit()
        text = (await outbox.ask("publisher", "batch", queue="default", floor=0, limit=1))[0][0]
        told.append([*open_ones, text.split(":")[2] == ""])

    assert told == [[True, True], [True, True]]


@pytest.mark.parametrize("station", STATIONS)
def test_the_memory_knows_every_statement_of_a_relay(station: str):
    sql = statements.load(station)

    assert set(STATIONS[station]) == set(sql), "a statement of the relay needs its twin in redisjobs/testing/outbox"
    assert [name_of(statements.load(station, "Other")[name], station) for name in sql] == list(sql)


def test_what_is_none_of_our_statements_is_refused():
    connection = in_memory().connect()

    with pytest.raises(ConfigurationError, match="takes calls and no other statement"):
        connection.execute("SELECT 1")
    with pytest.raises(ConfigurationError, match="cannot run this statement: SELECT 1"):
        connection.run_ours(b"SELECT 1", {})
