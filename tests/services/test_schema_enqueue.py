"""`redisjobs.enqueue(…)`, the one-line door for psql, triggers and other languages."""

from __future__ import annotations

from uuid import UUID

import psycopg
import pytest

Conn = psycopg.Connection[tuple[object, ...]]


def test_one_line_is_enough(conn: Conn):
    row = conn.execute("SELECT redisjobs.enqueue('mail')").fetchone()
    found = conn.execute("SELECT id, job, queue, input::text, state FROM redisjobs.outbox").fetchone()

    assert row is not None
    assert found == (row[0], "mail", "default", "{}", "staged")


def test_every_column_of_producers_can_be_given_by_name(conn: Conn):
    conn.execute("""
        SELECT redisjobs.enqueue('mail', '{"to": "a@b.c"}', queue => 'mails', run_at => '2030-01-01 00:00Z',
            idempotency_key => 'k', key_window => '1 hour', priority => 7, max_attempts => 3,
            expires_at => '2031-01-01 00:00Z', tenant_id => 't', enqueued_by => 'psql', headers => '{"h": 1}',
            traceparent => '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
            id => '00000000-0000-7000-8000-000000000001')""")

    row = conn.execute("""
        SELECT id, job, queue, input::text, extract(year FROM run_at AT TIME ZONE 'UTC')::int, idempotency_key,
            key_window::text, priority, max_attempts, extract(year FROM expires_at AT TIME ZONE 'UTC')::int, tenant_id,
            enqueued_by, headers::text, left(traceparent, 3) FROM redisjobs.outbox""").fetchone()
    assert row == (
        UUID("00000000-0000-7000-8000-000000000001"), "mail", "mails", '{"to": "a@b.c"}', 2030, "k", "01:00:00",
        7, 3, 2031, "t", "psql", '{"h": 1}', "00-",
    )  # fmt: skip


def test_a_delay_is_counted_by_the_clock_of_postgres(conn: Conn):
    conn.execute("SELECT redisjobs.enqueue('mail', delay => '90 seconds')")

    row = conn.execute(
        "SELECT run_at BETWEEN now() + interval '90 s' AND clock_timestamp() + interval '90 s' FROM redisjobs.outbox"
    )
    assert row.fetchone() == (True,)


def test_a_time_and_a_delay_exclude_each_other(conn: Conn):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"enqueue\(mail\): give run_at or delay, not both"):
        conn.execute("SELECT redisjobs.enqueue('mail', run_at => now(), delay => '1 s')")


def test_it_runs_in_the_callers_transaction(conn: Conn):
    conn.execute("SELECT redisjobs.enqueue('kept')")
    with pytest.raises(ZeroDivisionError), conn.transaction():
        conn.execute("SELECT redisjobs.enqueue('rolled_back')")
        raise ZeroDivisionError
    conn.commit()

    assert conn.execute("SELECT job FROM redisjobs.outbox").fetchall() == [("kept",)]


def test_the_checks_of_the_table_hold_here_too(conn: Conn):
    with pytest.raises(psycopg.errors.CheckViolation, match="queue_is_a_name"):
        conn.execute("SELECT redisjobs.enqueue('mail', queue => 'no good')")


def test_a_null_input_is_refused(conn: Conn):
    with pytest.raises(psycopg.errors.CheckViolation, match="input_or_payload"):
        conn.execute("SELECT redisjobs.enqueue('mail', NULL)")


def test_a_trigger_of_the_users_own_can_ask_for_jobs(conn: Conn):
    conn.execute("""
        CREATE TABLE orders (id int);
        CREATE FUNCTION asked() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM redisjobs.enqueue('ship', json_build_object('order', NEW.id)); RETURN NEW; END $$;
        CREATE TRIGGER asked AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION asked();
        INSERT INTO orders SELECT generate_series(1, 3)""")

    rows = conn.execute("SELECT input->>'order' FROM redisjobs.outbox ORDER BY seq").fetchall()
    assert rows == [("1",), ("2",), ("3",)]


@pytest.mark.parametrize("size", [7_900, 8_100, 900_000])
@pytest.mark.parametrize("character", ["x", "ä"])
def test_no_payload_is_too_long_for_a_wake_up(conn: Conn, size: int, character: str):
    conn.execute('LISTEN "redisjobs.wake"')
    text = character * (size // len(character.encode()))
    conn.execute("SELECT redisjobs.enqueue('mail', json_build_object('t', %s::text), queue => %s)", [text, "q" * 128])
    conn.commit()

    assert [notice.payload for notice in conn.notifies(timeout=5, stop_after=1)] == ["q" * 128]
