"""Log lines: readable, or JSON with the event and its fields; never a payload."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from redisjobs.cli import logging as cli_logging
from redisjobs.cli.render import age, printable, short
from redisjobs.context import Context, running
from redisjobs.logs import event

log = logging.getLogger("redisjobs.publisher")


@pytest.fixture(autouse=True)
def _root() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_for_people_has_the_role_and_the_event(capsys: pytest.CaptureFixture[str]):
    cli_logging.set_up("info", "text")

    event(log, logging.WARNING, "outbox.publish_failed", job="mail", remaining=3)

    assert capsys.readouterr().err.endswith("WARNING relay   outbox.publish_failed job=mail remaining=3\n")


def test_a_line_for_machines_has_the_event_and_its_fields(capsys: pytest.CaptureFixture[str]):
    cli_logging.set_up("info", "json")

    event(log, logging.WARNING, "outbox.publish_failed", job="mail", remaining=3, error=None)

    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["job"], line["remaining"], line["level"]) == (
        "outbox.publish_failed",
        "mail",
        3,
        "warning",
    )
    assert "error" not in line


def test_an_error_brings_its_traceback(capsys: pytest.CaptureFixture[str]):
    cli_logging.set_up("info", "json")

    event(log, logging.ERROR, "relay.queue_failed", exc_info=ValueError("oh"))

    assert "ValueError: oh" in json.loads(capsys.readouterr().err)["exception"]


def test_lines_of_a_body_name_its_job_and_tenant(capsys: pytest.CaptureFixture[str]):
    cli_logging.set_up("info", "text")
    token = running.set(Context("0198", "mail", attempt=2, tenant_id="acme"))
    try:
        logging.getLogger("shop").info("sent")
    finally:
        running.reset(token)

    assert "app     sent job=mail job_id=0198 queue=default attempt=2 tenant_id=acme" in capsys.readouterr().err


def test_what_is_below_the_level_is_left_out(capsys: pytest.CaptureFixture[str]):
    cli_logging.set_up("warning", "text")

    event(log, logging.INFO, "relay.started")

    assert capsys.readouterr().err == ""


def test_control_characters_reach_no_terminal():
    assert printable("a\x1b[31mb\x07\n\tc") == "a\\x1b[31mb\\x07\n\tc"


def test_a_line_for_people_is_one_line_without_control_characters(capsys: pytest.CaptureFixture[str]):
    cli_logging.set_up("info", "text")

    event(log, logging.WARNING, "attempt.retrying", message="no\x1b[31m luck\n\tat all")

    assert capsys.readouterr().err.endswith('attempt.retrying message="no\\x1b[31m luck at all"\n')


def test_what_a_body_writes_keeps_its_lines(capsys: pytest.CaptureFixture[str]):
    cli_logging.set_up("info", "text")

    logging.getLogger("shop").info("two\nlines\x1b[2J")

    assert capsys.readouterr().err.endswith("two\nlines\\x1b[2J\n")


def test_ages_are_short():
    assert [age(each) for each in (None, 0.04, 59, 150, 9000, 400_000)] == [
        None,
        "0.0 s",
        "59 s",
        "2 min",
        "2 h",
        "5 d",
    ]
    assert short("first\nsecond") == "first"
    assert short("x" * 200, 10) == "xxxxxxxxx…"
