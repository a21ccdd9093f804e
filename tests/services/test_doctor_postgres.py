"""`redisjobs doctor` on a Postgres with something wrong about it: each misconfiguration is found (P3)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from redisjobs.doctor import limits
from tests.support.builders import Conn
from tests.support.cli import CommandLine
from tests.support.examined import examine
from tests.support.pgbouncer import PgBouncer
from tests.support.servers import PostgresServer


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


def is_told(found: dict[str, str], level: str, *parts: str) -> None:
    """This finding has the level, and these parts in its texts; and says why, and what to do."""
    text = f"{found['value']} {found['why']} {found['remedy']}"
    assert found["level"] == level, text
    assert all(part in text for part in parts), text
    assert found["why"]
    assert found["remedy"]


@pytest.mark.parametrize(
    ("setting", "value", "check", "level", "told"),
    [
        ("default_transaction_read_only", "on", "postgres.read_only", "fail", "no row can be written"),
        ("default_transaction_isolation", "serializable", "postgres.isolation", "warn", "is serializable"),
        ("statement_timeout", "2s", "postgres.timeouts", "fail", "statement_timeout is 2.0 s for this login"),
        ("statement_timeout", "20s", "postgres.timeouts", "warn", "statement_timeout is 20 s"),
        ("idle_session_timeout", "5min", "postgres.timeouts", "warn", "idle_session_timeout is 5 min"),
    ],
)
def test_a_setting_that_does_harm(  # noqa: PLR0917 - a table of cases
    redisjobs: CommandLine, conn: Conn, setting: str, value: str, check: str, level: str, told: str
):
    name = sql.Identifier(conn.info.dbname)
    conn.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(name, sql.Identifier(setting), sql.Literal(value)))
    conn.commit()

    is_told(examine(redisjobs).of(check), level, told, f"SET {setting} = ")


@pytest.mark.parametrize(
    ("statement", "check", "level", "told"),
    [
        (
            "ALTER TABLE redisjobs.outbox SET (autovacuum_enabled = off)",
            "postgres.autovacuum",
            "fail",
            "is off for the",
        ),
        ("ALTER TABLE redisjobs.outbox DISABLE TRIGGER wake", "postgres.trigger", "warn", "`wake` of the outbox"),
        ("ALTER TABLE redisjobs.outbox SET UNLOGGED", "postgres.durability", "fail", "SET LOGGED"),
        ("DELETE FROM redisjobs.migrations WHERE version = 2", "postgres.schema", "fail", "redisjobs migrate"),
        ("INSERT INTO redisjobs.migrations VALUES (9999, 'later', 'x')", "postgres.schema", "fail", "migration 9999"),
        ("DROP SCHEMA redisjobs CASCADE", "postgres.schema", "fail", "lacks 0001 outbox"),
    ],
)
def test_tables_that_are_not_as_they_should_be(  # noqa: PLR0917 - a table of cases
    redisjobs: CommandLine, conn: Conn, statement: str, check: str, level: str, told: str,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    if check == "postgres.durability":  # the shared server spares its disk, which would be told first
        monkeypatch.setattr("redisjobs.doctor.of_postgres.FLUSHES", ())
    conn.execute(statement.encode())
    conn.commit()

    is_told(examine(redisjobs).of(check), level, told)


def test_a_server_that_spares_its_disk(redisjobs: CommandLine):
    found = examine(redisjobs)

    is_told(found.of("postgres.durability"), "fail", "fsync is off", "ALTER SYSTEM SET fsync = on")
    assert found.code == 1


def test_a_login_that_lacks_rights(redisjobs: CommandLine, conn: Conn, role: Callable[[str], str]):
    relay = role("relay")
    login = sql.Identifier(str(conninfo_to_dict(relay)["user"]))
    whole = examine(redisjobs, "--for", "relay", REDISJOBS_DATABASE_URL=relay)
    conn.execute(sql.SQL("REVOKE UPDATE ON redisjobs.dead FROM {}").format(login))
    conn.execute(sql.SQL("REVOKE EXECUTE ON FUNCTION redisjobs.make_room FROM {}").format(login))
    conn.commit()
    torn = examine(redisjobs, REDISJOBS_DATABASE_URL=relay)

    assert whole.of("postgres.rights")["level"] == "ok"
    is_told(
        torn.of("postgres.rights"), "fail", "as relay: EXECUTE on make_room, UPDATE on dead", "grant_relay('rj_relay"
    )


def test_a_login_may_be_meant_for_other_work(redisjobs: CommandLine, role: Callable[[str], str]):
    operator = role("operator")

    assert examine(redisjobs, REDISJOBS_DATABASE_URL=operator).of("postgres.rights")["level"] == "ok"
    told = examine(redisjobs, "--for", "relay", REDISJOBS_DATABASE_URL=operator).of("postgres.rights")
    is_told(told, "fail", "UPDATE on outbox", "grant_relay")


def test_rows_that_row_security_hides(redisjobs: CommandLine, conn: Conn, role: Callable[[str], str]):
    conn.execute("ALTER TABLE redisjobs.outbox ENABLE ROW LEVEL SECURITY")
    conn.commit()

    found = examine(redisjobs, REDISJOBS_DATABASE_URL=role("relay"))

    is_told(found.of("postgres.row_security"), "fail", "never published")


def test_a_login_with_too_few_connections(redisjobs: CommandLine, conn: Conn, role: Callable[[str], str]):
    relay = role("relay")
    login = sql.Identifier(str(conninfo_to_dict(relay)["user"]))
    conn.execute(sql.SQL("ALTER ROLE {} CONNECTION LIMIT 3").format(login))
    conn.commit()

    is_told(
        examine(redisjobs, REDISJOBS_DATABASE_URL=relay).of("postgres.connections"), "fail", "may have 3 connections"
    )


def test_a_pooler_that_swallows_notifications(redisjobs: CommandLine, pgbouncer: PgBouncer):
    found = examine(redisjobs, REDISJOBS_DATABASE_URL=pgbouncer.url)

    is_told(found.of("postgres.listen"), "warn", "a pooler in transaction mode stands between", "session mode")


def test_an_old_transaction(redisjobs: CommandLine, conn: Conn, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "OLD_TRANSACTION_S", 0.0)
    conn.execute("SET application_name = 'report'")
    conn.commit()
    conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    conn.execute("SELECT FROM redisjobs.outbox")

    found = examine(redisjobs).of("postgres.snapshots")

    is_told(found, "warn", "(report, idle in transaction) has a transaction open for", "pg_terminate_backend(")


def test_rows_that_vacuum_did_not_take_away(redisjobs: CommandLine, conn: Conn, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "DEAD_ROWS", 100)
    conn.execute("ALTER TABLE redisjobs.outbox SET (autovacuum_enabled = off)")
    conn.execute("INSERT INTO redisjobs.outbox (job, input) SELECT 'mail', '{}' FROM generate_series(1, 300)")
    conn.execute("DELETE FROM redisjobs.outbox")
    conn.commit()
    conn.execute("SELECT pg_stat_force_next_flush()")
    conn.commit()

    is_told(examine(redisjobs).of("postgres.bloat"), "warn", "rows: 0 live and 300 dead", "VACUUM (ANALYZE)")


def test_a_server_with_much_that_is_wrong(
    redisjobs: CommandLine, start_postgres: Callable[..., PostgresServer], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(limits, "OLD_TRANSACTION_S", 0.0)
    server = start_postgres(
        max_prepared_transactions="2", wal_level="logical", autovacuum="off", max_connections="8", fsync="on",
        superuser_reserved_connections="1", synchronous_commit="off",
    )  # fmt: skip
    redisjobs("migrate", "--database-url", server.url)
    with contextlib.ExitStack() as stack:
        first, second, _ = (stack.enter_context(psycopg.connect(server.url)) for _ in range(3))
        first.execute("INSERT INTO redisjobs.queues (queue) VALUES ('q')")
        first.execute("PREPARE TRANSACTION 'forgotten'")
        second.execute("SELECT pg_create_physical_replication_slot('unread', true)")
        second.commit()

        found = examine(redisjobs, REDISJOBS_DATABASE_URL=server.url)

    is_told(
        found.of("postgres.prepared"), "warn", "transaction 'forgotten' was prepared", "ROLLBACK PREPARED 'forgotten'"
    )
    is_told(found.of("postgres.slots"), "warn", "slot unread (physical) has no reader", "pg_drop_replication_slot")
    is_told(found.of("postgres.autovacuum"), "fail", "autovacuum, or track_counts, is off")
    is_told(found.of("postgres.connections"), "fail", "of 7")
    is_told(found.of("postgres.durability"), "warn", "synchronous_commit is off")


def test_a_postgres_that_is_not_there(redisjobs: CommandLine):
    found = examine(redisjobs, REDISJOBS_DATABASE_URL="postgresql://me:hush@127.0.0.1:1/none")

    is_told(found.of("postgres.reached"), "fail", "Postgres does not answer", "REDISJOBS_DATABASE_URL")
    assert found.of("redis.reached")["level"] == "ok"
    assert "hush" not in json.dumps(found.findings)


def test_without_a_url_the_setting_is_named():
    assert "set REDISJOBS_DATABASE_URL" in CommandLine({})("doctor", code=78).stderr
