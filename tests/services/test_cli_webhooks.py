"""`redisjobs webhooks`, and what `redisjobs status` and a relay's metrics tell of endpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import UUID, uuid4

import psycopg
import pytest

from redisjobs import EncryptedCodec
from redisjobs.monitoring.relay_figures import _of_rows
from redisjobs.monitoring.stores import Stores
from redisjobs.settings import Settings
from redisjobs.webhooks import generate_secret
from tests.support.builders import Conn
from tests.support.cli import CommandLine
from tests.support.metrics import told

URL = "https://hooks.example/in?token=s3cret"


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


def bury(conn: Conn, endpoint: str, *, hours: float = 0) -> UUID:
    dead = uuid4()
    conn.execute(
        "INSERT INTO redisjobs.dead (id, job, queue, input, reason, died_at)"
        " VALUES (%s, 'webhook', 'webhooks', %s, 'why', now() - %s * interval '1 h')",
        [dead, json.dumps({"endpoint": endpoint, "type": "a"}), hours],
    )
    conn.commit()
    return dead


def test_an_endpoint_is_added_with_a_secret_that_is_shown_once(redisjobs: CommandLine, conn: Conn):
    said = redisjobs("webhooks", "endpoints", "add", "billing", URL, "--header", "Authorization: Bearer s3cret")

    secret = next(line for line in said.stdout.splitlines() if line.startswith("whsec_"))
    assert ("s3cret" in said.output) is False
    assert conn.execute("SELECT header, value FROM redisjobs.webhook_secrets ORDER BY id").fetchall() == [
        (None, secret), ("authorization", "Bearer s3cret"),
    ]  # fmt: skip
    for command in ("list", ("show", "billing")):
        words = ("webhooks", "endpoints", command) if isinstance(command, str) else ("webhooks", "endpoints", *command)
        told = redisjobs(*words).output + json.dumps(redisjobs.json(*words))
        assert "https://hooks.example/in?…" in told
        assert "s3cret" not in told
        assert secret not in told


def test_with_keys_secrets_and_headers_are_stored_encrypted(redisjobs: CommandLine, conn: Conn):
    key = EncryptedCodec.generate_key()

    redisjobs("webhooks", "endpoints", "add", "billing", URL, "--header", "x-a: marker", REDISJOBS_WEBHOOK_KEYS=key)

    values = [str(row[0]) for row in conn.execute("SELECT value FROM redisjobs.webhook_secrets").fetchall()]
    assert len(values) == 2
    assert all(value.startswith("sealed:") and "marker" not in value for value in values)


def test_of_a_key_pair_the_receiver_gets_the_public_half(redisjobs: CommandLine):
    said = redisjobs("webhooks", "endpoints", "add", "billing", URL, "--ed25519").stdout

    assert "whpk_" in said
    assert "whsk_" not in said


def test_a_secret_of_one_s_own_comes_from_stdin_and_is_checked_and_not_repeated(redisjobs: CommandLine, conn: Conn):
    secret = generate_secret()

    said = redisjobs("webhooks", "endpoints", "add", "billing", URL, "--secret-stdin", answer=f"{secret}\n")
    wrong = redisjobs("webhooks", "endpoints", "rotate", "billing", "--secret-stdin", answer=f"v1,{secret}\n", code=78)

    assert secret not in said.output + wrong.output
    assert "leave out what stands before whsec_" in wrong.stderr
    assert conn.execute("SELECT value FROM redisjobs.webhook_secrets").fetchall() == [(secret,)]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://x", "does not begin with https://"),
        ("https://a:b@c/", "user or password"),
        ("https://127.1/", "looks like"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_and_nothing_is_written(
    url: str, why: str, redisjobs: CommandLine, conn: Conn
):
    assert why in redisjobs("webhooks", "endpoints", "add", "billing", url, code=78).stderr
    assert conn.execute("SELECT count(*) FROM redisjobs.webhook_endpoints").fetchone() == (0,)


@pytest.mark.parametrize("header", ["Host: a", "x-a", "x a: 1", "webhook-id: 1", "x-a: é"])
def test_a_header_that_cannot_be_used_is_a_wrong_usage(header: str, redisjobs: CommandLine):
    redisjobs("webhooks", "endpoints", "add", "billing", URL, "--header", header, code=2)


def test_an_endpoint_is_added_once(redisjobs: CommandLine):
    redisjobs("webhooks", "endpoints", "add", "billing", URL)

    assert "is stored: delete it first" in redisjobs("webhooks", "endpoints", "add", "billing", URL, code=1).stderr


def test_rotating_keeps_the_old_secret_for_the_grace(redisjobs: CommandLine):
    redisjobs("webhooks", "endpoints", "add", "billing", URL)
    new = redisjobs.json("webhooks", "endpoints", "rotate", "billing", "--grace", "1h")

    assert new["secret"].startswith("whsec_")
    keys = redisjobs.json("webhooks", "endpoints", "show", "billing")["keys"]
    assert [each["expires_at"] is None for each in keys] == [True, False]


def test_disabling_says_why_and_enabling_forgets_the_failures(redisjobs: CommandLine, conn: Conn):
    redisjobs("webhooks", "endpoints", "add", "billing", URL)
    conn.execute("SELECT redisjobs.webhook_failed('billing', '500', true, false, 0, false)")
    conn.commit()

    redisjobs("webhooks", "endpoints", "disable", "billing", "--why", "they asked for it")
    (disabled,) = redisjobs.json("webhooks", "endpoints", "list")["endpoints"]
    said = redisjobs("webhooks", "endpoints", "enable", "billing").stdout
    (enabled,) = redisjobs.json("webhooks", "endpoints", "list")["endpoints"]

    assert (disabled["state"], disabled["disabled_why"], disabled["failures"]) == ("disabled", "they asked for it", 1)
    assert (enabled["state"], enabled["disabled_why"], enabled["failures"]) == ("ok", None, 0)
    assert "redisjobs webhooks redeliver --endpoint 'billing'" in said


def test_deleting_asks_first(redisjobs: CommandLine, conn: Conn):
    redisjobs("webhooks", "endpoints", "add", "billing", URL)

    redisjobs("webhooks", "endpoints", "delete", "billing", answer="n\n", code=1)
    assert conn.execute("SELECT count(*) FROM redisjobs.webhook_secrets").fetchone() == (1,)
    redisjobs("webhooks", "endpoints", "delete", "billing", "--yes")
    assert conn.execute("SELECT count(*) FROM redisjobs.webhook_secrets").fetchone() == (0,)


@pytest.mark.parametrize("command", ["show", "rotate", "enable", "disable", "delete"])
def test_an_endpoint_that_nobody_knows_is_named(command: str, redisjobs: CommandLine):
    assert "no endpoint 'nobody' is known" in redisjobs("webhooks", "endpoints", command, "nobody", code=1).stderr


def test_a_test_is_asked_for_once_and_says_where_it_hangs(redisjobs: CommandLine, conn: Conn):
    told = redisjobs("webhooks", "endpoints", "test", "billing", "--wait", "0.1", code=1)

    assert "redisjobs explain" in told.stderr
    row = conn.execute(
        "SELECT job, queue, max_attempts, input->>'type', headers->>'redisjobs-webhook' FROM redisjobs.outbox"
    )
    assert row.fetchall() == [("webhook", "webhooks", 1, "redisjobs.test", "test")]


def test_what_died_on_its_way_to_an_endpoint_is_redelivered_and_nothing_else(redisjobs: CommandLine, conn: Conn):
    redisjobs("webhooks", "endpoints", "add", "billing", URL)
    young, old, other = bury(conn, "billing"), bury(conn, "billing", hours=5), bury(conn, "shop")

    assert redisjobs.json("webhooks", "redeliver", "--endpoint", "billing", "--dry-run") == {"count": 2}
    assert redisjobs.json("webhooks", "redeliver", "--endpoint", "billing", "--since", "1h") == {"redelivered": 1}
    assert conn.execute("SELECT id FROM redisjobs.outbox").fetchall() == [(young,)]
    conn.rollback()
    redisjobs("webhooks", "redeliver", "--endpoint", "billing")
    redisjobs("webhooks", "redeliver", other)

    assert {row[0] for row in conn.execute("SELECT id FROM redisjobs.outbox").fetchall()} == {young, old, other}


def test_many_are_redelivered_in_pieces(redisjobs: CommandLine, conn: Conn):
    conn.execute(
        "INSERT INTO redisjobs.dead (id, job, queue, input, reason) SELECT gen_random_uuid(), 'webhook', 'webhooks',"
        """ '{"endpoint": "billing", "type": "a"}', 'why' FROM generate_series(1, 1234)"""
    )
    conn.commit()

    assert redisjobs.json("webhooks", "redeliver", "--endpoint", "billing", "--yes") == {"redelivered": 1234}


def test_redelivering_needs_ids_or_an_endpoint(redisjobs: CommandLine):
    for wrong in ((), (uuid4(), "--endpoint", "a"), (uuid4(), "--since", "1h")):
        redisjobs("webhooks", "redeliver", *wrong, code=2)
    assert "is no dead letter" in redisjobs("webhooks", "redeliver", uuid4(), code=1).stderr
    assert "no endpoint 'nobody'" in redisjobs("webhooks", "redeliver", "--endpoint", "nobody", code=1).stderr


def test_whoever_redelivers_to_a_disabled_endpoint_is_told(redisjobs: CommandLine, conn: Conn):
    redisjobs("webhooks", "endpoints", "add", "billing", URL)
    redisjobs("webhooks", "endpoints", "disable", "billing")
    bury(conn, "billing")

    assert "billing is disabled" in redisjobs("webhooks", "redeliver", "--endpoint", "billing").stderr


def test_status_shows_endpoints_ok_failing_and_disabled(redisjobs: CommandLine, conn: Conn):
    conn.execute("SELECT redisjobs.webhook_delivered('well', true)")
    conn.execute("SELECT redisjobs.webhook_failed('ill', '503', false, false, 20, true)")
    conn.execute("SELECT redisjobs.webhook_failed('gone', '410', true, true, 20, true)")
    conn.commit()

    states = {each["endpoint"]: each["state"] for each in redisjobs.json("status")["webhooks"]}
    told = redisjobs("status").stdout

    assert states == {"well": "ok", "ill": "failing", "gone": "disabled"}
    assert "endpoint gone is disabled: it answered 410" in told
    assert "redisjobs webhooks endpoints enable 'gone'" in told


def test_a_role_that_may_not_see_endpoints_still_gets_its_status(
    database_url: str, redis_url: str, role: Callable[[str], str], conn: Conn
):
    url = role("operator")
    with psycopg.connect(database_url, autocommit=True) as owner, psycopg.connect(url) as theirs:
        name = theirs.info.user
        owner.execute(f'REVOKE SELECT ON redisjobs.webhook_endpoints FROM "{name}"'.encode())
        owner.execute("SELECT redisjobs.webhook_delivered('well', true)")

    told = CommandLine({"REDISJOBS_DATABASE_URL": url, "REDISJOBS_REDIS_URL": redis_url}).json("status")

    assert told["webhooks"] == []
    assert told["postgres"]["reachable"]


def test_a_relay_tells_how_endpoints_behave(database_url: str, redis_url: str, conn: Conn):
    conn.execute("SELECT redisjobs.webhook_delivered('well', true)")
    conn.execute("SELECT redisjobs.webhook_failed('ill', '503', false, false, 20, true)")
    conn.execute("SELECT redisjobs.webhook_failed('gone', '410', true, true, 20, true)")
    conn.execute(
        "UPDATE redisjobs.webhook_endpoints SET failing_since = failing_since - interval '1 h' WHERE name = 'ill'"
    )
    conn.commit()
    looks = Stores(Settings(database_url, redis_url), dict)
    looks.look()
    assert looks.rows is not None

    scrape = told(_of_rows(looks.rows))

    enabled = {
        name: scrape.value("redisjobs_webhook_endpoint_enabled", endpoint=name) for name in ("well", "ill", "gone")
    }
    assert enabled == {"well": 1, "ill": 1, "gone": 0}
    assert scrape.value("redisjobs_webhook_endpoint_failing_seconds", endpoint="well") == 0
    assert 3600 <= scrape.value("redisjobs_webhook_endpoint_failing_seconds", endpoint="ill") < 3700
