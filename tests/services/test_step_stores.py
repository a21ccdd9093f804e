"""Both step stores, Postgres and memory: the same records, refusals and order (rules T1 to T3, T5, T7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from redisjobs.errors import EncodeError, EnqueueError, OptionError, StepRefused, StoreRefused
from redisjobs.steps import Ending, JobDone, StepRecord, Token
from tests.support.eventually import eventually
from tests.support.runs import AnyRuns, app, child_of, done, in_memory, in_postgres


@pytest.fixture
def postgres(database_url: str) -> Iterator[AnyRuns]:
    opened: list[Any] = []
    yield in_postgres(database_url, opened)
    for each in opened:
        each.close()


@pytest.fixture(params=["postgres", "memory"])
async def runs(request: pytest.FixtureRequest) -> AsyncIterator[AnyRuns]:
    """Each of them in turn."""
    found: AnyRuns = in_memory() if request.param == "memory" else request.getfixturevalue("postgres")
    yield found
    await found.store.close()


def known(record: StepRecord | None) -> dict[str, Any]:
    """A record without what a store adds to it."""
    assert record is not None
    added = ("seq", "started_at", "ended_at", "due_in", "took", "due")
    return {name: getattr(record, name) for name in StepRecord.__slots__ if name not in added}


# -- records: rule T1
async def test_a_record_comes_back_as_it_was_written(runs: AnyRuns):
    token = await runs.begin()
    record = StepRecord(
        token.run, "charge", tries=3, codec="msgpack", value=b"\0\xff", undo=True, awaited=True,
        detail={"type": "ValueError", "message": "no ☃"}, took=5.0,
    )  # fmt: skip

    await runs.store.put(token, record)

    found = await runs.store.get(token.run, "charge")
    assert known(found) == known(record)
    assert found is not None
    assert found.started_at is not None
    assert found.ended_at is not None
    assert timedelta(seconds=4) < found.ended_at - found.started_at < timedelta(seconds=60)
    assert await runs.store.get(token.run, "other") is None
    assert await runs.store.get(uuid4(), "charge") is None


async def test_records_are_listed_in_the_order_of_their_beginning(runs: AnyRuns):
    token, other = await runs.begin(), await runs.begin()
    for name in ("b", "a", "c"):
        await runs.store.put(token, StepRecord(token.run, name, state="retrying", due_in=1.0))
    await runs.store.put(other, done(other, "x"))
    await runs.store.put(token, done(token, "b"))

    assert [each.name for each in await runs.store.list(token.run)] == ["b", "a", "c"]
    assert [each.name for each in (await runs.claim(token)).records] == ["b", "a", "c"]
    assert await runs.store.list(uuid4()) == []


async def test_a_record_and_all_records_can_be_deleted(runs: AnyRuns):
    token, other = await runs.begin(), await runs.begin()
    for each in (token, other):
        for name in ("a", "b", "c"):
            await runs.store.put(each, done(each, name))

    assert await runs.store.delete(token.run, "b") is True
    assert await runs.store.delete(token.run, "b") is False
    assert [each.name for each in await runs.store.list(token.run)] == ["a", "c"]
    assert await runs.store.clear(token.run) == 2
    assert await runs.store.clear(token.run) == 0
    assert len(await runs.store.list(other.run)) == 3


async def test_a_later_write_keeps_the_place_and_the_beginning_of_a_record(runs: AnyRuns):
    token = await runs.begin()
    await runs.store.put(token, StepRecord(token.run, "charge", state="retrying", tries=1, due_in=5.0, detail={"a": 1}))
    first = await runs.store.get(token.run, "charge")

    await runs.store.put(token, done(token, value=b"2"))

    last = await runs.store.get(token.run, "charge")
    assert first is not None
    assert last is not None
    assert (last.seq, last.started_at) == (first.seq, first.started_at)
    assert (first.state, first.ended_at, first.due_in is not None) == ("retrying", None, True)
    assert (last.state, last.value, last.detail, last.due_in) == ("done", b"2", None, None)


async def test_what_is_done_is_never_changed(runs: AnyRuns):
    """Rule T2."""
    token = await runs.begin()
    await runs.store.put(token, done(token, value=b"first"))

    await runs.store.put(token, done(token, value=b"second"))
    await runs.store.put(token, StepRecord(token.run, "charge", state="failed", detail={"message": "no"}))
    await runs.store.put(token, StepRecord(token.run, "charge", "child", "waiting", child=uuid4()), child_of())

    found = await runs.store.get(token.run, "charge")
    assert found is not None
    assert (found.kind, found.state, found.value) == ("step", "done", b"first")


async def test_a_failed_record_can_be_opened_again(runs: AnyRuns):
    """Rule T3."""
    token = await runs.begin()
    await runs.store.put(token, StepRecord(token.run, "charge", state="failed", tries=2, detail={"message": "no"}))

    await runs.store.put(token, StepRecord(token.run, "charge", state="retrying", tries=2, due_in=0.0))

    found = await runs.store.get(token.run, "charge")
    assert found is not None
    assert (found.state, found.tries, found.ended_at) == ("retrying", 2, None)
    assert found.due_in is not None
    assert found.due_in <= 0


async def test_a_sleep_counts_from_its_first_start(runs: AnyRuns):
    """Rule T7."""
    token = await runs.begin()
    sleep = StepRecord(token.run, "nap", "sleep", "waiting", due_in=100.0)
    await runs.store.put(token, sleep)
    await runs.store.put(token, replace(sleep, due_in=1000.0))

    found = await runs.store.get(token.run, "nap")

    assert found is not None
    assert found.due_in is not None
    assert 90 < found.due_in <= 100


async def test_a_sleep_until_a_moment_is_measured_by_the_store(runs: AnyRuns):
    token = await runs.begin()
    moment = datetime.now(UTC) + timedelta(seconds=100)

    await runs.store.put(token, StepRecord(token.run, "nap", "sleep", "waiting", due=moment))

    found = await runs.store.get(token.run, "nap")
    assert found is not None
    assert found.due_in is not None
    assert 90 < found.due_in <= 101


NAMES = [
    "x" * 200,
    "é☃𐍈",
    "a'b\"c\\d",
    "{a,b}",
    "NULL",
    "null",
    " ",
    "%s %(x)s",
    "-- name: x",
    "undo:a",
    "a,b",
    "€" * 200,
]


@pytest.mark.parametrize("name", NAMES)
async def test_odd_names_are_names(runs: AnyRuns, name: str):
    token = await runs.begin()

    await runs.store.put(token, done(token, name))

    assert known(await runs.store.get(token.run, name)) == known(done(token, name))
    assert await runs.store.delete(token.run, name) is True


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\0b", "\x7f", "\u2028", "\ud800", None, 7])
async def test_what_is_no_name_is_refused_before_anything_is_written(runs: AnyRuns, name: Any):
    token = await runs.begin()

    with pytest.raises(OptionError, match="name"):
        await runs.store.put(token, done(token, name))
    with pytest.raises(OptionError, match="name"):
        await runs.store.wait(token, StepRecord(token.run, name, "event", event="paid", key=""))

    assert await runs.store.list(token.run) == []


VALUES: list[tuple[str | None, bytes | None]] = [
    (None, None), ("json", b"null"), ("json", b""), ("msgpack", bytes(range(256))), ("msgpack", b"\\x00"),
    ("json", b"{,}"), ("msgpack", b"x" * 1_048_576),
]  # fmt: skip


@pytest.mark.parametrize(("codec", "value"), VALUES, ids=str)
async def test_odd_values_come_back_byte_for_byte(runs: AnyRuns, codec: str | None, value: bytes | None):
    token = await runs.begin()

    await runs.store.put(token, StepRecord(token.run, "charge", codec=codec, value=value))

    found = (await runs.claim(token)).records[0]
    assert (found.codec, found.value) == (codec, value)


async def test_a_value_of_more_than_a_mebibyte_is_refused_with_the_name_of_its_step(runs: AnyRuns):
    token = await runs.begin()

    with pytest.raises(EncodeError, match=r"step 'charge': has 1048577 bytes when encoded, and 1048576 \(1 MiB\)"):
        await runs.store.put(token, done(token, value=b"x" * 1_048_577))

    assert await runs.store.list(token.run) == []


async def test_details_hold_whatever_an_error_says(runs: AnyRuns):
    token = await runs.begin()
    odd = {"message": "a\0b \ud800", "n": float("nan"), "way": ["é", 1, None, True, {"x\0": 1.5}]}

    await runs.store.put(token, StepRecord(token.run, "charge", state="failed", detail=odd))

    found = await runs.store.get(token.run, "charge")
    assert found is not None
    assert found.detail == {"message": "a\ufffdb ?", "n": "nan", "way": ["é", 1, None, True, {"x\ufffd": 1.5}]}


# -- claims and the fence (T5)
async def test_a_claim_answers_all_records_with_the_row_s_version_and_ending(runs: AnyRuns):
    token = await runs.begin()
    await runs.store.put(token, done(token, "a"))
    await runs.store.put(token, StepRecord(token.run, "nap", "sleep", "waiting", due_in=50.0, awaited=True))
    runs.change(token.run, version="2")

    claim = await runs.claim(replace(token, start=2))

    assert (claim.word, claim.fence, claim.version, claim.ending) == ("ok", (1, 2), "2", None)
    assert claim.staged_at is not None
    assert abs(claim.staged_at - datetime.now(UTC)) < timedelta(minutes=2)
    nap = claim.records[1]
    assert known(claim.records[0]) == known(done(token, "a"))
    assert (nap.kind, nap.state, nap.awaited, nap.ended_at) == ("sleep", "waiting", True, None)
    assert nap.due_in is not None
    assert 40 < nap.due_in <= 50


async def test_a_claim_clears_the_call_to_look_at_the_run(runs: AnyRuns):
    token = runs.token()
    runs.change(token.run, wake_at=datetime.now(UTC))

    await runs.claim(token)

    row = runs.row(token.run)
    assert row is not None
    assert (list(row["fence"]), row["holder"], row["wake_at"]) == ([1, 1], "w1", None)


async def test_the_same_claim_again_is_answered_the_same(runs: AnyRuns):
    token = await runs.begin()
    await runs.store.put(token, done(token))

    again = await runs.claim(token)

    assert (again.word, len(again.records)) == ("ok", 1)


@pytest.mark.parametrize(
    ("later", "word"),
    [
        ({"start": 3}, "ok"),
        ({"number": 3}, "ok"),
        ({"number": 3, "start": 1}, "ok"),
        ({"start": 1}, "behind"),
        ({"number": 1, "start": 9}, "behind"),
        ({"holder": "w2"}, "behind"),
        ({"life": 1}, "gone"),
    ],
)
async def test_only_a_higher_token_takes_a_run_over(runs: AnyRuns, later: dict[str, Any], word: str):
    first = await runs.begin(number=2, start=2)
    await runs.store.put(first, done(first, "a"))
    second = replace(first, **{"holder": "w2"} | later)

    claim = await runs.claim(second)

    assert claim.word == word
    assert len(claim.records) == (1 if word == "ok" else 0)
    if word == "behind":
        assert claim.fence == (2, 2)
    winner, loser = (second, first) if word == "ok" else (first, second)
    await runs.store.put(winner, done(winner, "b"))
    with pytest.raises(StepRefused, match="another attempt has claimed the run"):
        await runs.store.put(loser, done(loser, "c"))
    assert [each.name for each in await runs.store.list(first.run)] == ["a", "b"]


async def test_a_redriven_row_is_claimed_by_its_own_life_only(runs: AnyRuns):
    run = runs.stage()
    runs.change(run, redrives=2, fence=[5, 0])

    assert (await runs.claim(Token(run, 1, 9, 9, "w1"))).word == "gone"
    assert (await runs.claim(Token(run, 2, 4, 9, "w1"))).word == "behind"
    assert (await runs.claim(Token(run, 2, 5, 1, "w1"))).word == "ok"


async def test_a_token_without_a_holder_is_anybody_s(runs: AnyRuns):
    run = runs.stage()
    runs.change(run, fence=[1, 1])

    assert (await runs.claim(runs.token(run, holder="w7"))).word == "ok"
    assert (await runs.claim(runs.token(run, holder="w8"))).word == "behind"


async def test_a_run_without_a_row_is_gone_and_refused(runs: AnyRuns):
    token = await runs.begin()
    runs.end(token.run)

    assert (await runs.claim(token)).word == "gone"
    for write in (
        runs.store.put(token, done(token)),
        runs.store.put(token, StepRecord(token.run, "kid", "child", "waiting"), child_of()),
        runs.store.wait(token, StepRecord(token.run, "paid", "event", event="paid", key="")),
        runs.store.begin_ending(token, Ending("dead")),
        runs.store.undone(token, done(token, "undo:a"), "a"),
    ):
        with pytest.raises(StepRefused):
            await write
    assert await runs.store.list(token.run) == []


async def test_a_refusal_names_the_job_and_the_step(runs: AnyRuns):
    token = runs.token()

    with pytest.raises(StepRefused, match="job 'onboard', step 'charge': another attempt") as refusal:
        await runs.store.put(token, done(token))

    assert (refusal.value.job, refusal.value.step) == ("onboard", "charge")


async def test_without_a_claim_nothing_is_written(runs: AnyRuns):
    token = runs.token()

    for write in (runs.store.put(token, done(token)), runs.store.begin_ending(token, Ending("dead"))):
        with pytest.raises(StepRefused):
            await write

    assert await runs.store.list(token.run) == []


# -- children: rule T8
async def test_a_child_is_staged_with_its_record(runs: AnyRuns):
    token, child = await runs.begin(), child_of("eve")

    await runs.store.put(token, StepRecord(token.run, "kid", "child", "waiting", awaited=True, tries=1), child)

    found, row = await runs.store.get(token.run, "kid"), runs.row(child.id)
    assert found is not None
    assert row is not None
    assert (found.kind, found.state, found.child, found.awaited, found.tries) == ("child", "waiting", child.id, True, 1)
    assert (row["job"], row["parent"], row["state"]) == (child.job, token.run, "staged")


async def test_a_repeated_call_stages_no_second_child_even_when_the_first_has_ended(runs: AnyRuns):
    token, child = await runs.begin(), child_of()
    record = StepRecord(token.run, "kid", "child", "waiting")
    await runs.store.put(token, record, child)
    await runs.store.put(token, record, child)
    runs.end(child.id)

    await runs.store.put(token, record, child)

    assert runs.row(child.id) is None


async def test_a_child_that_failed_can_be_called_again_as_a_new_job(runs: AnyRuns):
    token, first, second = await runs.begin(), child_of(), child_of()
    await runs.store.put(token, StepRecord(token.run, "kid", "child", "waiting"), first)
    failed = StepRecord(token.run, "kid", "child", "failed", child=first.id, detail={"word": "dead"})
    await runs.store.put(token, failed)
    await runs.store.put(token, replace(failed, state="retrying"))

    await runs.store.put(token, StepRecord(token.run, "kid", "child", "waiting"), second)

    found = await runs.store.get(token.run, "kid")
    assert found is not None
    assert (found.state, found.child, found.detail) == ("waiting", second.id, None)
    assert runs.row(second.id) is not None


async def test_who_comes_to_wait_for_a_child_does_not_undo_its_end(runs: AnyRuns):
    """The end came between the claim and this write: nobody would ever tell it again."""
    token, child = await runs.begin(), child_of()
    await runs.store.put(token, StepRecord(token.run, "kid", "child", "waiting"), child)
    await runs.store.put(
        token, StepRecord(token.run, "kid", "child", "failed", child=child.id, detail={"word": "dead"})
    )

    await runs.store.put(token, StepRecord(token.run, "kid", "child", "waiting", child=child.id, awaited=True))

    found = await runs.store.get(token.run, "kid")
    assert found is not None
    assert (found.state, found.detail) == ("failed", {"word": "dead"})


async def test_a_refused_call_stages_no_child(runs: AnyRuns):
    token, child = runs.token(), child_of()

    with pytest.raises(StepRefused):
        await runs.store.put(token, StepRecord(token.run, "kid", "child", "waiting"), child)

    assert runs.row(child.id) is None


# -- events: rule T7
def waiting(token: Token, name: str = "paid", key: str = "o1", timeout: float | None = None) -> StepRecord:
    return StepRecord(token.run, f"{name} {key}", "event", event=name, key=key, due_in=timeout)


async def test_an_event_sent_before_the_wait_is_taken_at_once(runs: AnyRuns):
    token = await runs.begin()
    runs.send("paid", "o1", '{"by": "ada"}')

    found = await runs.store.wait(token, waiting(token))

    assert (found.state, found.codec, found.value) == ("done", "json", b'{"by": "ada"}')
    assert found.detail is not None
    assert datetime.fromisoformat(found.detail["sent_at"]).utcoffset() is not None
    assert isinstance(found.detail["id"], int)
    assert known((await runs.claim(token)).records[0]) == known(found)


async def test_an_event_is_taken_once_and_the_same_wait_is_answered_the_same(runs: AnyRuns):
    first, second = await runs.begin(), await runs.begin()
    runs.send("paid", "o1", "1")

    taken = await runs.store.wait(first, waiting(first))
    again = await runs.store.wait(first, waiting(first))
    other = await runs.store.wait(second, waiting(second))

    assert (taken.value, again.value) == (b"1", b"1")
    assert (other.state, other.value, other.awaited) == ("waiting", None, True)


async def test_of_two_waiters_each_takes_one_event_the_older_event_first(runs: AnyRuns):
    first, second = await runs.begin(), await runs.begin()
    runs.send("paid", "o1", "1")
    runs.send("paid", "o1", "2")

    taken = [(await runs.store.wait(each, waiting(each))).value for each in (first, second)]

    assert taken == [b"1", b"2"]


async def test_a_wait_takes_only_its_own_name_and_key_and_nothing_that_expired(runs: AnyRuns):
    token = await runs.begin()
    runs.send("paid", "o2")
    runs.send("sent", "o1")
    runs.send("paid", "")
    runs.send("paid", "o1", expired=True)

    assert (await runs.store.wait(token, waiting(token))).state == "waiting"


async def test_an_event_may_carry_nothing(runs: AnyRuns):
    token = await runs.begin()
    runs.send("paid", "o1")

    found = await runs.store.wait(token, waiting(token))

    assert (found.state, found.codec, found.value) == ("done", None, None)


async def test_a_wait_that_comes_back_finds_what_was_sent_meanwhile(runs: AnyRuns):
    token = await runs.begin()
    assert (await runs.store.wait(token, waiting(token, timeout=60.0))).state == "waiting"
    runs.send("paid", "o1", "7")

    found = await runs.store.wait(token, waiting(token, timeout=60.0))

    assert (found.state, found.value) == ("done", b"7")


async def test_the_time_of_a_wait_counts_from_its_first_look(runs: AnyRuns):
    token = await runs.begin()
    await runs.store.wait(token, waiting(token, timeout=60.0))

    found = await runs.store.wait(token, waiting(token, timeout=6000.0))

    assert found.due_in is not None
    assert 50 < found.due_in <= 60


async def test_a_wait_is_over_after_its_time_and_stays_so(runs: AnyRuns):
    token = await runs.begin()
    await runs.store.wait(token, waiting(token, timeout=0.0))

    async def over() -> bool:
        return (await runs.store.wait(token, waiting(token, timeout=0.0))).state == "done"

    await eventually(over, "the wait is over")
    runs.send("paid", "o1", "7")
    found = await runs.store.wait(token, waiting(token))
    assert (found.state, found.value, found.detail) == ("done", None, {"timed_out": True})


async def test_an_event_that_is_there_goes_before_a_timeout(runs: AnyRuns):
    token = await runs.begin()
    runs.send("paid", "o1", "7")

    found = await runs.store.wait(token, waiting(token, timeout=0.0))

    assert (found.state, found.value) == ("done", b"7")


async def test_a_replaced_attempt_takes_no_event(runs: AnyRuns):
    old = await runs.begin()
    new = await runs.begin(old.run, start=2, holder="w2")
    runs.send("paid", "o1", "7")

    with pytest.raises(StepRefused):
        await runs.store.wait(old, waiting(old))

    assert (await runs.store.wait(new, waiting(new))).value == b"7"


@pytest.mark.parametrize("key", ["", "é" * 256, "a'b", "NULL", "{}", " "])
async def test_odd_keys_are_keys(runs: AnyRuns, key: str):
    token = await runs.begin()
    runs.send("paid", key, "1")

    record = StepRecord(token.run, "wait", "event", event="paid", key=key)

    assert (await runs.store.wait(token, record)).value == b"1"


@pytest.mark.parametrize(
    ("event", "key"), [("", "k"), ("a\n", "k"), ("paid", "é" * 257), ("paid", "\0"), ("paid", None)]
)
async def test_what_is_no_event_is_refused(runs: AnyRuns, event: Any, key: Any):
    token = await runs.begin()

    with pytest.raises(OptionError, match=r"^(event|key) "):
        await runs.store.wait(token, StepRecord(token.run, "wait", "event", event=event, key=key))


# -- endings and undos
async def test_an_ending_that_has_begun_is_told_by_each_claim_and_never_replaced(runs: AnyRuns):
    token = await runs.begin()
    ending = Ending("dead", "it failed ☃", ({"type": "ValueError", "message": "no"},), attempts=3)

    await runs.store.begin_ending(token, ending)
    await runs.store.begin_ending(token, ending)
    await runs.store.begin_ending(token, Ending("cancelled"))

    assert (await runs.claim(replace(token, start=2))).ending == ending


async def test_an_undo_takes_the_record_of_its_step_away_in_the_same_commit(runs: AnyRuns):
    token = await runs.begin()
    await runs.store.put(token, done(token, "charge", undo=True))
    await runs.store.put(token, done(token, "mail"))

    await runs.store.undone(token, StepRecord(token.run, "undo:charge", "undo", tries=1), "charge")
    await runs.store.undone(token, StepRecord(token.run, "undo:charge", "undo", tries=1), "charge")

    assert [each.name for each in await runs.store.list(token.run)] == ["mail", "undo:charge"]


async def test_a_step_with_an_undo_marks_its_run(runs: AnyRuns):
    token = await runs.begin()
    await runs.store.put(token, done(token, "a"))
    before = runs.row(token.run)

    await runs.store.put(token, done(token, "b", undo=True))

    after = runs.row(token.run)
    assert before is not None
    assert after is not None
    assert (before["undo"], after["undo"]) == (False, True)


# -- many at once
async def test_writes_of_many_runs_at_once_are_each_answered_by_themselves(runs: AnyRuns):
    tokens = await asyncio.gather(*(runs.begin() for _ in range(20)))
    replaced = set(tokens[::5])
    for token in replaced:
        await runs.begin(token.run, start=2, holder="w2")

    answers = await asyncio.gather(
        *(runs.store.put(token, done(token, f"s{n}")) for token in tokens for n in range(3)), return_exceptions=True
    )

    refused = [isinstance(answer, StepRefused) for answer in answers]
    assert refused == [token in replaced for token in tokens for _ in range(3)]
    for token in tokens:
        names: set[str] = {each.name for each in await runs.store.list(token.run)}
        assert names == (set() if token in replaced else {"s0", "s1", "s2"})


async def test_the_same_record_written_twice_at_once_is_there_once(runs: AnyRuns):
    token = await runs.begin()

    await asyncio.gather(*(runs.store.put(token, done(token, value=b"%d" % n)) for n in range(5)))

    assert [each.value for each in await runs.store.list(token.run)] == [b"0"]


async def test_two_attempts_that_claim_at_once_agree_on_one(runs: AnyRuns):
    run: UUID = runs.stage()
    tokens = [runs.token(run, start=start, holder=f"w{start}") for start in (1, 2, 3)]

    claims = await asyncio.gather(*(runs.claim(token) for token in tokens))

    assert claims[2].word == "ok"
    row = runs.row(run)
    assert row is not None
    assert list(row["fence"]) == [1, 3]


# -- transactions of users: rule T9. More of them on real servers, with effects of their own: test_steps_transactions
async def test_a_transaction_commits_its_record_and_the_jobs_enqueued_in_it(runs: AnyRuns):
    token, effect = await runs.begin(), child_of()
    record = StepRecord(token.run, "debit", "transaction")

    async with runs.store.transaction(token, record) as tx:
        await app.enqueue(tx, effect)
        assert (runs.row(effect.id), await runs.store.list(token.run)) == (None, [])
        record.codec, record.value = "json", b"7"

    found = await runs.store.get(token.run, "debit")
    assert known(found) == known(StepRecord(token.run, "debit", "transaction", codec="json", value=b"7"))
    assert runs.row(effect.id) is not None


async def test_a_transaction_in_a_thread_does_the_same(runs: AnyRuns):
    token, effect = await runs.begin(), child_of()

    def body() -> None:
        with runs.store.transaction_sync(token, done(token, "debit")) as tx:
            app.enqueue(tx, effect)

    await asyncio.to_thread(body)

    assert known(await runs.store.get(token.run, "debit")) == known(done(token, "debit"))
    assert runs.row(effect.id) is not None


@pytest.mark.parametrize("error", [ZeroDivisionError, psycopg.Rollback])
async def test_an_error_takes_a_transaction_back(runs: AnyRuns, error: type[Exception]):
    token, effect = await runs.begin(), child_of()

    with pytest.raises(error):
        async with runs.store.transaction(token, done(token, "debit")) as tx:
            await app.enqueue(tx, effect)
            raise error

    assert (runs.row(effect.id), await runs.store.list(token.run)) == (None, [])


async def test_a_replaced_attempt_commits_nothing(runs: AnyRuns):
    old, effect = await runs.begin(), child_of()

    with pytest.raises(StepRefused):
        async with runs.store.transaction(old, done(old, "debit")) as tx:
            await app.enqueue(tx, effect)
            await runs.begin(old.run, start=2, holder="w2")

    assert (runs.row(effect.id), await runs.store.list(old.run)) == (None, [])


async def test_a_refused_statement_whose_error_stays_in_the_block_commits_nothing(runs: AnyRuns):
    token, effect = await runs.begin(), child_of()

    with pytest.raises(StoreRefused, match="'debit': a statement in the block failed"):
        async with runs.store.transaction(token, done(token, "debit")) as tx:
            await app.enqueue(tx, effect)
            with pytest.raises(EnqueueError):
                await app.enqueue(tx, effect)

    assert (runs.row(effect.id), await runs.store.list(token.run)) == (None, [])


async def test_a_transactional_child_ends_in_its_commit_and_tells_its_parent(runs: AnyRuns):
    parent, child, effect = await runs.begin(), child_of(), child_of()
    await runs.store.put(parent, StepRecord(parent.run, "kid", "child", "waiting", awaited=True), child)
    token = await runs.begin(child.id)
    await runs.store.put(token, done(token))
    assert await runs.store.ended(token) is None
    end = JobDone(1)

    async with runs.store.transaction(token, end) as tx:
        await app.enqueue(tx, effect)
        end.codec, end.value = "json", b"7"

    assert (runs.row(child.id), await runs.store.list(child.id)) == (None, [])
    assert (await runs.store.ended(token), (await runs.claim(token)).word) == ("done", "gone")
    assert runs.row(effect.id) is not None
    told, row = await runs.store.get(parent.run, "kid"), runs.row(parent.run)
    assert told is not None
    assert row is not None
    assert (told.state, told.codec, told.value, told.detail) == ("done", "json", b"7", {"word": "done"})
    assert row["wake_at"] is not None


async def test_a_transactional_job_that_was_replaced_does_not_end(runs: AnyRuns):
    old = await runs.begin()

    with pytest.raises(StepRefused, match="the job's end"):
        async with runs.store.transaction(old, JobDone(1)):
            await runs.begin(old.run, start=2, holder="w2")

    assert runs.row(old.run) is not None
    assert await runs.store.ended(old) is None
