"""`redisjobs doctor` on endpoints of webhooks that nothing reaches (P3, H4)."""

from __future__ import annotations

import pytest

from tests.support.builders import Conn
from tests.support.cli import CommandLine
from tests.support.examined import examine

SHOWN = "redisjobs webhooks endpoints show billing"


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    made = CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})
    for name in ("billing", "well"):
        made("webhooks", "endpoints", "add", name, "https://hooks.example/in?token=s3cret")
    return made


def failing(conn: Conn, minutes: int) -> None:
    conn.execute(
        "UPDATE redisjobs.webhook_endpoints SET failures = 3, last_error = '503 Service Unavailable',"
        " failing_since = now() - %s * interval '1 min' WHERE name = 'billing'",
        [minutes],
    )
    conn.commit()


def test_endpoints_that_are_reached_or_failed_just_now_are_sound(redisjobs: CommandLine, conn: Conn):
    failing(conn, 10)
    found = examine(redisjobs).of("webhooks.endpoints")
    assert (found["level"], found["value"]) == ("ok", "2 endpoints")


def test_one_that_has_failed_for_long_is_named(redisjobs: CommandLine, conn: Conn):
    failing(conn, 90)
    found = examine(redisjobs).of("webhooks.endpoints")
    assert (found["level"], found["remedy"]) == ("warn", SHOWN)
    assert found["value"] == "endpoint billing has failed for 90 min: 503 Service Unavailable"


def test_one_that_is_disabled_is_named_with_its_why(redisjobs: CommandLine, conn: Conn):
    redisjobs("webhooks", "endpoints", "disable", "billing", "--why", "they have moved")
    found = examine(redisjobs).of("webhooks.endpoints")
    assert (found["level"], found["value"]) == ("warn", "endpoint billing is disabled: they have moved")
    assert "redisjobs webhooks endpoints enable billing" in found["remedy"]
    assert "s3cret" not in str(found)
