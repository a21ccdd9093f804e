"""Producers in other languages: each example goes through one conversation, and its jobs run (rules O1, O2; K01-K08).

They connect as a role that may do no more than a producer must. The tests look at what they were answered, what the
bodies were given and how the jobs ended.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import sql

from tests.stories.conversation import EVERYTHING, MANY, REFUSED, TEXTS, TRACE, VALUES
from tests.stories.talks import Talk, talk
from tests.support.languages import LANGUAGES
from tests.support.stores import Databases, Stores, emptied_redis

pytestmark = pytest.mark.timeout(300)  # the first run on a machine fetches languages
LIBRARIES = [name for name in LANGUAGES if name != "sql"]


@pytest.fixture(scope="module")
def talks(stores: Stores, databases: Databases) -> Iterator[dict[str, Talk]]:
    """What became of the conversation in every language."""
    url = databases.migrated()
    role = f"producer_{secrets.token_hex(4)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        connection.execute("SELECT redisjobs.grant_producer(%s::name)", [role])
        connection.execute("CREATE TABLE orders (language text, name text)")
        connection.execute(sql.SQL("GRANT INSERT ON orders TO {}").format(sql.Identifier(role)))
    with emptied_redis(stores.redis_url, stores.prefix):
        yield asyncio.run(talk(url, stores.redis_url, role))
    databases.drop(url)
    with psycopg.connect(stores.database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


@pytest.fixture(params=LANGUAGES)
def heard(request: pytest.FixtureRequest, talks: dict[str, Talk]) -> Talk:
    """The conversation in one language after the other."""
    return talks[request.param]


def test_values_of_every_language_arrive_equal(heard: Talk):
    for case, value in VALUES.items():
        assert heard.ran(case).value == value, case


def test_what_a_language_has_no_value_for_arrives_from_json_text(heard: Talk):
    for case, (_, value) in TEXTS.items():
        assert heard.ran(case).value == value, case


def test_null_is_an_argument_and_what_is_absent_takes_its_default(heard: Talk):
    assert heard.ran("null").value is None
    assert heard.ran("absent").value == "absent"
    assert heard.ran("nothing but a name").value == "absent"
    assert heard.ran("by position").value == 5


def test_nothing_but_a_name_goes_to_the_default_queue_with_the_jobs_own_options(heard: Talk):
    ctx = heard.ran("nothing but a name").ctx

    assert (ctx.queue, ctx.priority, ctx.max_attempts, ctx.headers) == ("default", 0, 1, {})
    assert (ctx.tenant_id, ctx.traceparent, ctx.enqueued_by, ctx.idempotency_key) == (None, None, None, None)
    assert ctx.run_at is None
    assert ctx.expires_at is None


def test_every_option_reaches_the_body_as_it_was_given(heard: Talk):
    ctx = heard.ran("everything").ctx

    assert (ctx.queue, ctx.priority, ctx.max_attempts) == ("other", 7, 3)
    assert (ctx.tenant_id, ctx.enqueued_by, ctx.traceparent) == ("akmé", "the shop", TRACE)
    assert ctx.idempotency_key == f"é'\"{ctx.job.partition('.')[2]}"
    assert ctx.headers == EVERYTHING["headers"]
    assert ctx.expires_at == datetime(3000, 1, 1, tzinfo=UTC)


def test_a_moment_of_any_time_zone_is_the_same_moment(heard: Talk, request: pytest.FixtureRequest):
    micros = 0 if "node" in request.node.name else 7  # a Date of JavaScript has milliseconds

    assert heard.ran("everything").ctx.run_at == datetime(2026, 8, 1, 6, 30, 0, micros, UTC)
    assert heard.row("later")["state"] == "deferred"
    assert heard.row("later")["run_at"] == datetime(2031, 8, 1, 6, 30, tzinfo=UTC)


def test_a_delay_is_counted_from_the_call_by_the_clock_of_postgres(heard: Talk):
    row = heard.row("in a while")

    assert timedelta(minutes=90) - timedelta(seconds=1) < row["run_at"] - row["staged_at"] <= timedelta(minutes=90)
    assert heard.ran("in a moment").at >= heard.row("in a moment")["staged_at"] + timedelta(seconds=0.25)


def test_what_is_too_late_never_starts(heard: Talk):
    assert heard.row("too late")["state"] == "expired"
    assert "too late" not in heard.seen


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_published_is_refused_by_a_name_that_a_program_can_read(heard: Talk, case: str):
    assert heard.answers[case].reason == REFUSED[case][1], heard.answers[case]
    assert case not in heard.seen


def test_a_job_is_there_if_its_transaction_commits_and_not_else(heard: Talk):
    assert heard.ran("kept")
    assert heard.answers["given up"].error is None
    assert heard.answers["given up"].value not in heard.rows
    assert "given up" not in heard.seen
    assert heard.orders & {"kept", "given up"} == {"kept"}


def test_a_savepoint_takes_back_what_is_behind_it_and_what_was_refused_there(heard: Talk):
    assert heard.answers["refused inside"].reason == "queue_is_a_name"
    assert heard.ran("before")
    assert heard.ran("after")
    assert heard.answers["taken back"].value not in heard.rows
    assert "taken back" not in heard.seen
    assert "half" in heard.orders


def test_a_refusal_of_the_database_ends_the_transaction_that_has_no_savepoint(heard: Talk):
    assert heard.answers["wrong"].reason == "priority_within_100"
    assert heard.answers["behind it"].sqlstate == "25P02"
    assert "broken" not in heard.orders


def test_many_jobs_are_one_statement_in_their_order_and_one_transaction(heard: Talk):
    assert heard.answers["some"].value == 3
    assert [heard.seen[f"some {n}"][0].value for n in (1, 2, 3)] == ["absent", {}, "absent"]
    assert heard.answers["many"].value == MANY
    assert heard.answers["many given up"].value == 1000
    assert heard.many == list(range(MANY))


def test_of_jobs_with_one_key_in_a_queue_the_first_runs(heard: Talk):
    first = heard.answers["first with a key"].value

    assert heard.ran("first with a key")
    for case in ("second with a key", "third with a key"):
        assert heard.row(case)["state"] == "deduplicated"
        assert heard.row(case)["duplicate_of"] == first
        assert case not in heard.seen
    assert heard.ran("its key elsewhere")


def test_a_name_that_no_worker_knows_is_parked(heard: Talk):
    assert heard.row("nobody")["state"] == "parked"


def test_a_codec_that_no_worker_knows_is_a_dead_letter(heard: Talk):
    dead = [row for row in heard.rows.values() if row["state"] == "dead"]

    assert heard.answers["a codec of its own"].error is None
    assert [row["reason"] for row in dead] == ["it cannot be read"]


def test_half_a_character_is_refused(talks: dict[str, Talk]):
    for name in LIBRARIES:
        refused = talks[name].answers["no text"]
        assert refused.error, name
        assert refused.sqlstate is None, f"{name} refuses it before it is sent"


def test_what_is_no_number_is_refused_and_not_made_something_else(talks: dict[str, Talk]):
    for name in LIBRARIES:
        assert talks[name].answers["NaN"].error, name


def test_what_a_library_refuses_leaves_the_transaction_as_it_was(talks: dict[str, Talk]):
    for name in LIBRARIES:
        heard = talks[name]
        assert "queu is no option" in str(heard.answers["an option that is none"].error), name
        assert heard.ran("goes on"), name
        assert "its own refusal" in heard.orders, name


def test_a_nul_character_in_a_text_is_refused_and_cuts_nothing_off(talks: dict[str, Talk]):
    for name in LIBRARIES:
        for case in ("NUL in a tenant", "NUL in a job"):
            assert talks[name].answers[case].error, (name, case)
        assert "NUL in a tenant" not in talks[name].seen
