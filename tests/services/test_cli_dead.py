"""`redisjobs dead` and `redisjobs outbox`: what went wrong, and putting it right."""

from __future__ import annotations

import json
import time
from datetime import datetime
from uuid import UUID, uuid4

import msgpack
import pytest

from redisjobs.base.ids import new_id
from tests.support.builders import Conn, stage, states
from tests.support.cli import CommandLine


@pytest.fixture
def redisjobs(database_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url})


def bury(conn: Conn, job: str = "mail", /, queue: str = "q", error: str = "TimeoutError", **columns: object) -> UUID:
    """A dead letter that failed twice."""
    failures = [
        {
            "attempt": each,
            "at": f"2026-01-02T03:04:0{each}",
            "type": error,
            "message": "oh",
            "traceback": f"  line {each}",
        }
        for each in (1, 2)
    ]
    dead = uuid4()
    if "payload" not in columns:
        columns["input"] = json.dumps({"to": "marker@example.com"})
    names, values = list(columns), list(columns.values())
    conn.execute(
        f"INSERT INTO redisjobs.dead (id, job, queue, attempts, reason, failures, {', '.join(names)})"
        f" VALUES (%s, %s, %s, 2, 'attempt 2 of 2 failed', %s, {', '.join(['%s'] * len(names))})".encode(),
        [dead, job, queue, json.dumps(failures), *values],
    )
    conn.commit()
    return dead


def test_a_list_can_be_narrowed_by_job_queue_and_error(redisjobs: CommandLine, conn: Conn):
    mail = bury(conn)
    bill = bury(conn, "bill", queue="bills", error="KeyError")

    def ids(*options: str) -> set[str]:
        return {each["id"] for each in redisjobs.json("dead", "list", *options)["dead"]}

    assert ids() == {str(mail), str(bill)}
    assert ids("--job", "mail") == ids("--queue", "q") == ids("--error", "timeouterror: o") == {str(mail)}
    assert ids("--error", "100%") == set()
    assert "TimeoutError: oh" in redisjobs("dead", "list").stdout


def test_show_has_every_attempt_and_no_argument(redisjobs: CommandLine, conn: Conn):
    dead = bury(conn)

    told = redisjobs("dead", "show", dead).output

    assert "attempt 2 of 2 failed" in told
    assert all(f"attempt {each} at 2026-01-02T03:04:0{each}: TimeoutError\n  line {each}" in told for each in (1, 2))
    assert "marker@example.com" not in told
    assert "marker@example.com" not in json.dumps(redisjobs.json("dead", "show", dead))


def test_arguments_are_shown_when_asked_for_in_any_codec(redisjobs: CommandLine, conn: Conn):
    plain = bury(conn)
    packed = bury(conn, payload=msgpack.packb({"n": 7}), codec="msgpack")
    sealed = bury(conn, payload=b"sealed", codec="encrypted")

    assert redisjobs.json("dead", "show", plain, "--arguments")["arguments"] == {"to": "marker@example.com"}
    assert redisjobs.json("dead", "show", packed, "--arguments")["arguments"] == {"n": 7}
    assert "(6 bytes of codec encrypted)" in redisjobs("dead", "show", sealed, "--arguments").stdout


def test_pages_go_on_behind_a_dead_letter_and_not_behind_one_that_is_gone(redisjobs: CommandLine, conn: Conn):
    oldest, middle, youngest = bury(conn), bury(conn), bury(conn)

    first = redisjobs.json("dead", "list", "--limit", "1")
    rest = redisjobs("dead", "list", "--jsonl", "--after", first["next"]).stdout.splitlines()
    assert [first["dead"][0]["id"], *(json.loads(line)["id"] for line in rest)] == [
        str(each) for each in (youngest, middle, oldest)
    ]
    assert redisjobs("dead", "list", "--count").stdout == "3\n"

    redisjobs("dead", "redrive", youngest)
    assert "Leave --after out" in redisjobs("dead", "list", "--after", youngest, code=1).stderr


def test_redrive_gives_the_named_ones_a_new_life(redisjobs: CommandLine, conn: Conn):
    again, stays = bury(conn), bury(conn)

    assert "1 dead letter redriven" in redisjobs("dead", "redrive", again).stdout
    assert states(conn) == {again: "staged", stays: "dead"}


def test_a_redriven_job_shows_when_it_was_made_and_when_it_was_redriven(redisjobs: CommandLine, conn: Conn):
    three_days_ago = int((time.time() - 3 * 86_400) * 1000)
    job = UUID(int=new_id().int & ((1 << 80) - 1) | three_days_ago << 80)
    conn.execute("UPDATE redisjobs.dead SET id = %s WHERE id = %s", [job, bury(conn)])
    conn.commit()

    redisjobs("dead", "redrive", job)

    shown = redisjobs.json("jobs", "show", job)["job"]
    made, staged = (datetime.fromisoformat(shown[name]) for name in ("made_at", "staged_at"))
    assert round((staged - made).total_seconds() / 86_400) == 3
    assert f"made at {made.astimezone():%Y-%m-%d %H:%M:%S}" in " ".join(redisjobs("jobs", "show", job).stdout.split())


def test_redrive_by_error_can_be_tried_first(redisjobs: CommandLine, conn: Conn):
    again, stays = bury(conn), bury(conn, error="KeyError")

    tried = redisjobs("dead", "redrive", "--error", "timeout", "--dry-run")
    assert tried.stdout == f"1 dead letter would be redriven; nothing was changed\n{again}\n"
    assert states(conn) == {again: "dead", stays: "dead"}

    redisjobs("dead", "redrive", "--error", "timeout")
    assert states(conn) == {again: "staged", stays: "dead"}


def test_redrive_of_many_goes_in_pieces(redisjobs: CommandLine, conn: Conn):
    conn.execute(
        "INSERT INTO redisjobs.dead (id, job, queue, input, reason)"
        " SELECT redisjobs.new_id(), 'mail', 'q', '{}', 'why' FROM generate_series(1, 1100)"
    )
    conn.commit()

    assert "1100 dead letters redriven" in redisjobs("dead", "redrive", "--all").stdout
    assert set(states(conn).values()) == {"staged"}


def test_one_unknown_id_stops_all(redisjobs: CommandLine, conn: Conn):
    dead, unknown = bury(conn), uuid4()

    told = redisjobs("dead", "redrive", dead, unknown, code=1).stderr

    assert f"nothing was changed: no dead letter {unknown}: it was redriven" in told
    assert states(conn) == {dead: "dead"}
    redisjobs("dead", "show", unknown, code=1)


def test_which_ones_must_be_said(redisjobs: CommandLine, conn: Conn):
    bury(conn)

    assert "Say which" in redisjobs("dead", "redrive", code=2).stderr
    assert "--all takes all of them" in redisjobs("dead", "purge", "--all", "--job", "mail", code=2).stderr


def test_purge_asks_unless_it_is_told_yes(redisjobs: CommandLine, conn: Conn):
    gone, stays = bury(conn), bury(conn, "bill")

    redisjobs("dead", "purge", "--job", "mail", answer="n\n", code=1)
    assert states(conn) == {gone: "dead", stays: "dead"}
    redisjobs("dead", "purge", "--job", "mail", "--dry-run")
    assert states(conn) == {gone: "dead", stays: "dead"}
    assert "1 dead letter purged" in redisjobs("dead", "purge", "--job", "mail", "--yes").stdout
    assert states(conn) == {stays: "dead"}


def test_the_outbox_shows_what_is_pending_and_how_old_it_is(redisjobs: CommandLine, conn: Conn):
    stage(conn, queue="mails")
    conn.execute("UPDATE redisjobs.outbox SET staged_at = now() - interval '3 hours'")
    conn.commit()

    (line,) = redisjobs.json("outbox")["queues"]

    assert (line["queue"], line["pending"], line["holder"]) == ("mails", 1, None)
    assert 10_800 <= line["oldest_s"] < 10_900
    assert "3 h" in redisjobs("outbox").stdout


def test_a_row_is_set_aside_and_put_back(redisjobs: CommandLine, conn: Conn):
    row = stage(conn)
    conn.commit()

    assert "1 row set aside" in redisjobs("outbox", "set-aside", row).stdout
    assert [each["id"] for each in redisjobs.json("outbox")["set_aside"]] == [str(row)]
    assert str(row) in redisjobs("outbox").stdout
    assert "1 row put back" in redisjobs("outbox", "put-back", row).stdout
    assert states(conn) == {row: "staged"}


def test_what_cannot_be_set_aside_is_named(redisjobs: CommandLine, conn: Conn):
    row, unknown = stage(conn), uuid4()
    conn.execute("UPDATE redisjobs.outbox SET state = 'published'")
    conn.commit()

    told = redisjobs("outbox", "set-aside", row, unknown, code=1).stderr

    assert f"row {row} is published, and only what is staged can be set aside" in told
    assert f"job {unknown} is not known" in told


def test_a_role_without_the_right_is_told_so(redisjobs: CommandLine, conn: Conn, database_url: str):
    role = f"viewer_{uuid4().hex[:8]}"
    conn.execute(f"CREATE ROLE {role} LOGIN".encode())
    conn.commit()
    url = database_url.replace("//postgres@", f"//{role}@")
    try:
        assert "permission denied" in redisjobs("dead", "list", "--database-url", url, code=1).stderr
        conn.execute("SELECT redisjobs.grant_operator(%s)", [role])
        conn.commit()
        dead = bury(conn)
        redisjobs("dead", "redrive", dead, "--database-url", url)
        redisjobs("outbox", "set-aside", dead, "--database-url", url)
        redisjobs("jobs", "list", "--state", "set_aside", "--database-url", url)
        redisjobs("jobs", "cancel", "--all", "--database-url", url)
        bury(conn)
        redisjobs("dead", "replay", "--all", "--rate", "1000/s", "--database-url", url)
        bury(conn)
        redisjobs("dead", "purge", "--all", "--yes", "--database-url", url)
        redisjobs("migrate", "--check", "--database-url", url)
    finally:
        conn.rollback()
        conn.execute(f"DROP OWNED BY {role}".encode())
        conn.execute(f"DROP ROLE {role}".encode())
        conn.commit()
