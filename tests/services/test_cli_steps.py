"""`redisjobs steps`, `redisjobs fork` and the tree of `jobs show`: what a durable run has done, for an operator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from redisjobs.steps import JobDone, StepRecord, Token
from tests.support.builders import Conn
from tests.support.cli import CommandLine
from tests.support.runs import AnyRuns, child_of, done

UNKNOWN = "0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f"


@pytest.fixture
def redisjobs(database_url: str, redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url})


async def a_run(runs: AnyRuns) -> Token:
    """A run with one record of each kind."""
    token = await runs.begin()
    put = runs.store.put
    await put(token, done(token, "charge", b'{"card": "4111-marker"}', undo=True))
    await put(token, StepRecord(token.run, "nap", "sleep", "waiting", due_in=300.0, awaited=True))
    await runs.store.wait(
        token, StepRecord(token.run, "approved 7", "event", event="approved", key="7", due_in=86_400.0)
    )
    await put(token, StepRecord(token.run, "kid", "child", "waiting", awaited=True), child_of())
    broken = {"type": "ValueError", "message": "no \x1b[31mmoney"}
    await put(token, StepRecord(token.run, "mail", state="failed", tries=3, detail=broken))
    await put(token, StepRecord(token.run, "call", state="retrying", tries=2, due_in=60.0, detail=broken))
    return token


NAMES = ["charge", "nap", "approved 7", "kid", "mail", "call"]


async def test_steps_are_listed_in_the_order_of_their_beginning(redisjobs: CommandLine, runs: AnyRuns):
    token = await a_run(runs)

    told = redisjobs("steps", token.run).stdout
    document = redisjobs.json("steps", token.run)

    assert f"run {token.run} (onboard): staged" in told
    said = ("has an undo", "wakes in", "event approved (7), its time is over in", "greet", "ValueError", "next try in")
    for name, words in zip(NAMES, said, strict=True):
        (line,) = [each for each in told.splitlines() if each.startswith(name + " ")]
        assert words in line
    assert "\x1b" not in told
    assert [each["name"] for each in document["steps"]] == NAMES
    assert document["job"] == {"job": "onboard", "state": "staged"}
    assert document["steps"][3]["child_job"] == {"job": "greet", "state": "staged"}
    assert (document["steps"][4]["tries"], document["steps"][4]["detail"]["type"]) == (3, "ValueError")


async def test_values_are_shown_only_where_they_are_asked_for(redisjobs: CommandLine, runs: AnyRuns):
    token = await a_run(runs)
    await runs.store.put(token, StepRecord(token.run, "packed", codec="msgpack", value=b"\x93\x01\x02\x03"))
    await runs.store.put(token, StepRecord(token.run, "odd", codec="secret", value=b"12345"))

    silent = [
        redisjobs("steps", token.run),
        redisjobs("steps", token.run, "--json"),
        redisjobs("jobs", "show", token.run),
    ]
    shown = redisjobs("steps", token.run, "--values").stdout
    values = {each["name"]: each["value"] for each in redisjobs.json("steps", "--values", token.run)["steps"]}

    assert not any("4111-marker" in each.output for each in silent)
    assert "4111-marker" in shown
    assert values["charge"] == {"card": "4111-marker"}
    assert (values["packed"], values["odd"], values["nap"]) == ([1, 2, 3], "(5 bytes of codec secret)", None)


async def test_a_run_without_steps_and_a_run_that_is_not_known_are_told_apart(redisjobs: CommandLine, runs: AnyRuns):
    run = runs.stage()

    assert "no steps" in redisjobs("steps", run).stdout
    assert redisjobs.json("steps", run)["steps"] == []
    for command in (["steps", UNKNOWN], ["steps", "delete", UNKNOWN, "a"], ["steps", "clear", UNKNOWN, "--yes"],
                    ["fork", UNKNOWN, "--from", "a"]):  # fmt: skip
        assert "is not known in this database" in redisjobs(*command, code=1).stderr


async def test_deleted_steps_are_done_again_and_a_suspended_run_comes_back(redisjobs: CommandLine, runs: AnyRuns):
    token = await a_run(runs)
    runs.change(token.run, state="suspended")

    lacking = redisjobs("steps", "delete", token.run, "charge", "nope", code=1).stderr
    assert "nothing was changed" in lacking
    assert "has no step 'nope'. It has 'approved 7', 'call', 'charge'" in lacking
    assert len(await runs.store.list(token.run)) == len(NAMES)
    assert "2 steps deleted" in redisjobs("steps", "delete", token.run, "charge", "call").stdout

    assert [each.name for each in await runs.store.list(token.run)] == NAMES[1:-1]
    row = runs.row(token.run)
    assert row is not None
    assert row["state"] == "staged"


async def test_all_steps_are_deleted_after_a_question(redisjobs: CommandLine, runs: AnyRuns):
    token = await a_run(runs)

    redisjobs("steps", "clear", token.run, answer="n\n", code=1)
    assert len(await runs.store.list(token.run)) == len(NAMES)
    assert redisjobs.json("steps", "clear", token.run, "--yes") == {"run": str(token.run), "deleted": len(NAMES)}

    assert await runs.store.list(token.run) == []


async def test_a_fork_is_a_new_run_that_keeps_what_was_done_before(redisjobs: CommandLine, runs: AnyRuns, conn: Conn):
    token = await a_run(runs)
    runs.change(token.run, tenant_id="acme", version="2", idempotency_key="once")

    made = redisjobs.json("fork", token.run, "--from", "mail")

    assert (made["forked_from"], made["step"], made["kept"]) == (str(token.run), "mail", 3)
    fork = UUID(made["run"])
    old, row = runs.row(token.run), runs.row(fork)
    assert old is not None
    assert row is not None
    same = ("job", "queue", "input", "payload", "codec", "priority", "tenant_id", "version", "headers")
    assert [row[name] for name in same] == [old[name] for name in same]
    assert (row["state"], row["idempotency_key"], row["parent"], row["undo"]) == ("staged", None, None, True)
    assert len(await runs.store.list(token.run)) == len(NAMES)

    heir = runs.token(fork)
    claim = await runs.claim(heir)

    # the wait for an event is begun anew: an event is taken once
    assert [(each.name, each.state) for each in claim.records] == [
        ("charge", "done"), ("nap", "waiting"), ("kid", "waiting"),
    ]  # fmt: skip
    assert claim.records[0].value == b'{"card": "4111-marker"}'
    assert claim.records[1].due_in is not None
    assert 200 < claim.records[1].due_in <= 300


async def test_a_fork_of_a_dead_run_begins_where_it_is_told(redisjobs: CommandLine, runs: AnyRuns, conn: Conn):
    token = await a_run(runs)
    conn.execute(
        "WITH gone AS (DELETE FROM redisjobs.outbox WHERE id = %s RETURNING *)"
        " INSERT INTO redisjobs.dead (id, job, queue, input, reason, fence)"
        " SELECT id, job, queue, input, 'why', fence FROM gone",
        [token.run],
    )
    conn.commit()

    told = redisjobs("fork", token.run, "--from", "charge").stdout

    fork = UUID(told.split()[0])
    assert f"{fork} begins at 'charge', with 0 steps of {token.run}" in told
    assert runs.row(fork) is not None
    assert await runs.store.list(fork) == []
    assert len(await runs.store.list(token.run)) == len(NAMES)


async def test_what_cannot_be_forked_is_refused_with_the_reason(redisjobs: CommandLine, runs: AnyRuns, conn: Conn):
    token, empty, ended = await a_run(runs), runs.stage(), runs.stage()
    runs.end(ended)
    conn.execute(
        "INSERT INTO redisjobs.finished (id, job, queue, state, keep_until)"
        " VALUES (%s, 'a', 'q', 'done', now() + interval '1 h')",
        [ended],
    )
    conn.commit()

    assert "has no step 'nope'. It has" in redisjobs("fork", token.run, "--from", "nope", code=1).stderr
    assert "has no steps" in redisjobs("fork", empty, "--from", "a", code=1).stderr
    assert "has ended done, and its steps went with it" in redisjobs("fork", ended, "--from", "a", code=1).stderr
    redisjobs("fork", token.run, code=2)
    assert conn.execute("SELECT count(*) FROM redisjobs.outbox").fetchall() == [(3,)]


async def test_two_runs_that_share_a_child_are_both_told_of_its_end(redisjobs: CommandLine, runs: AnyRuns):
    token = await a_run(runs)
    fork = UUID(redisjobs.json("fork", token.run, "--from", "mail")["run"])
    kid = await runs.store.get(token.run, "kid")
    assert kid is not None
    assert kid.child is not None

    async with runs.store.transaction(await runs.begin(kid.child), JobDone(1, codec="json", value=b"7")):
        pass

    for run in (token.run, fork):
        told = await runs.store.get(run, "kid")
        assert told is not None
        assert (told.state, told.value) == ("done", b"7")


async def test_show_has_steps_sleeps_waits_and_children_as_a_tree(redisjobs: CommandLine, runs: AnyRuns):
    token = await a_run(runs)
    kid = await runs.store.get(token.run, "kid")
    assert kid is not None
    assert kid.child is not None
    inner = await runs.begin(kid.child)
    await runs.store.put(inner, done(inner, "inner step"))

    told = redisjobs("jobs", "show", token.run).stdout
    document = redisjobs.json("jobs", "show", token.run)

    lines = told[told.index("\nsteps") :].splitlines()
    place = next(at for at, line in enumerate(lines) if "kid  child waiting: greet" in line)
    assert "inner step  step done" in lines[place + 1]
    assert lines[place + 1].index("inner") > lines[place].index("kid")
    assert "nap  sleep waiting: wakes in" in told
    assert "mail  step failed, 3 tries: ValueError" in told
    assert [each["name"] for each in document["steps"]] == NAMES


async def test_a_plain_job_has_no_tree(redisjobs: CommandLine, runs: AnyRuns):
    assert "steps" not in redisjobs("jobs", "show", runs.stage()).stdout


async def test_the_grant_of_an_operator_suffices(
    redisjobs: CommandLine, runs: AnyRuns, role: Callable[[str], str], redis_url: str
):
    token = await a_run(runs)
    operator = CommandLine({"REDISJOBS_DATABASE_URL": role("operator"), "REDISJOBS_REDIS_URL": redis_url})

    assert len(operator.json("steps", token.run)["steps"]) == len(NAMES)
    fork = await asyncio.to_thread(operator.json, "fork", token.run, "--from", "mail")
    assert operator.json("steps", "delete", fork["run"], "charge")["deleted"] == 1
    assert operator.json("steps", "clear", fork["run"], "--yes")["deleted"] == 2
    assert operator.json("jobs", "show", token.run)["steps"]


def test_help_and_wrong_usage_are_told_as_everywhere(redisjobs: CommandLine):
    assert "redisjobs steps ID" in redisjobs("steps", "--help").stdout
    assert "is no job id" in redisjobs("steps", "nope", code=2).stderr
    redisjobs("steps", "delete", UNKNOWN, code=2)
