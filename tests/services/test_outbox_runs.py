"""What a relay asks of durable runs: each statement answers in memory as it does in Postgres, and leaves the same."""

from __future__ import annotations

from typing import Any

import pytest

from redisjobs import Call
from redisjobs.base.postgres import array
from tests.support.both import OLD, OPEN, Both, mail, pairs

DAY = 86_400.0


async def run_of(both: Both, **columns: Any) -> Call[Any]:
    """A run that a worker has claimed and let go of: its suspension is to be settled."""
    await both.hold()
    (run,) = both.enqueue(mail.using(idempotency_key="k", window=60).call("ada"))
    await both.publish(run)
    both.change(run, **({"fence": (1, 1), "holder": "w1"} | columns))
    return run


def ends(*rows: tuple[Call[Any], str, bool, bool, bool]) -> list[tuple[Any, ...]]:
    return [(call.id.bytes, *rest) for call, *rest in rows]


def settled(*rows: tuple[Call[Any], str, bool, bool, bool]) -> list[tuple[Any, ...]]:
    """As `settle` answers them: nobody is told of a duplicate."""
    return [(*each, 0) for each in ends(*rows)]


# suspensions


@pytest.mark.parametrize(
    ("told", "columns", "state", "in_s"),
    [
        ({"waits": True, "delay": None}, {}, "suspended", None),
        ({"waits": True, "delay": 600.0}, {}, "suspended", 600),
        ({"waits": True, "delay": 600.0}, {"wake_at": 120.0}, "suspended", 120),
        ({"waits": True, "delay": None}, {"wake_at": 120.0}, "suspended", 120),
        ({"waits": True, "delay": None}, {"wake_at": -1.0}, "staged", None),
        ({"waits": True, "delay": 600.0}, {"expires_at": 300.0}, "suspended", 300),
        ({"waits": True, "delay": None}, {"expires_at": -1.0}, "staged", None),
        ({"waits": True, "delay": 600.0}, {"expires_at": 300.0, "ending": {"word": "dead"}}, "suspended", 600),
        ({"waits": False, "delay": 600.0}, {}, "staged", 600),
        ({"waits": False, "delay": 2 * DAY}, {}, "deferred", 2 * DAY),
        ({"waits": False, "delay": 2 * DAY}, {"wake_at": 60.0}, "staged", 60),
        ({"waits": False, "delay": 0.0}, {}, "staged", None),
        ({"waits": False, "delay": None}, {}, "staged", None),
    ],
)
async def test_a_suspension_settles(both: Both, told: dict[str, Any], columns: dict[str, Any], state: str, in_s: Any):
    run = await run_of(both, **columns)
    before = both.row(run)

    assert await both.suspend({"call": run} | told) == [()]

    row = both.row(run)
    assert (row["state"], row["settled"], row["publications"], row["wake_at"]) == (state, 1, 1, None)
    assert row["seq"] > before["seq"]
    assert (
        row["run_at"] is None if in_s is None else abs((row["run_at"] - row["staged_at"]).total_seconds() - in_s) < 30
    )


async def test_a_suspension_settles_once(both: Both):
    run = await run_of(both)
    assert await both.suspend({"call": run}) == [()]
    both.change(run, state="published")

    assert await both.suspend({"call": run}) == []
    assert await both.suspend({"call": run, "life": 1, "number": 2}) == []
    assert both.row(run)["state"] == "published"
    assert await both.suspend({"call": run, "number": 2}) == [()]


@pytest.mark.parametrize("word", ["done", "dead", "cancelled", "expired", "retry", "snooze", "parked"])
async def test_what_a_publication_that_has_settled_still_says_counts_no_more(both: Both, word: str):
    run = await run_of(both)
    await both.suspend({"call": run})

    assert await both.settle({"call": run, "word": word}) == []
    plain: dict[str, Any] = {"attempts": "{1}", "numbers": "{1}", "retention": 60.0}
    assert await both.ask("settler", "settle_done", **pairs(run), **plain) == []

    assert await both.states() == {run.id: "suspended"}


async def test_a_run_joins_the_line_at_its_time(both: Both):
    late, never, early = await run_of(both), *both.enqueue(mail.call("b"), mail.call("c"))
    both.change(late, state="suspended", run_at=-1.0)
    both.change(never, state="suspended")
    both.change(early, state="suspended", run_at=60.0)

    assert await both.ask("leases", "with_side_work", horizon=1.0) == [("default", "due")]
    assert await both.ask("publisher", "come_due", queue="other", horizon=1.0, limit=10) == [(0,)]
    assert await both.ask("publisher", "come_due", queue="default", horizon=1.0, limit=10) == [(1,)]
    assert await both.ask("publisher", "come_due", queue="default", horizon=1.0, limit=10) == [(0,)]
    assert await both.states() == {late.id: "staged", never.id: "suspended", early.id: "suspended"}


async def test_recovery_and_audit_leave_suspended_runs_alone_and_restore_their_keys_and_lanes(both: Both):
    run = await run_of(both, state="suspended", settled=1, lane="lane")
    chunk: dict[str, Any] = {"queue": "default", "token": 1, "lease": 30.0}

    assert await both.ask("audit", "published", after="0" * 32, queues=["default"], limit=10, age=-60.0) == []
    assert (await both.ask("recovery", "take_back", **chunk, after="0" * 32, limit=9))[0][:2] == (1, 0)
    assert await both.ask("recovery", "name_life", **chunk, epoch="life-2", first=False) == [(1, 0)]
    assert await both.ask("recovery", "open_windows", queue="default") == [
        ("k", run.id.bytes, -1),
        ("lane", run.id.bytes, -2),
    ]
    assert await both.states() == {run.id: "suspended"}


# ends


async def test_the_records_of_a_run_go_with_it_and_those_of_a_dead_one_stay(both: Both):
    run, dead = await run_of(both), *both.enqueue(mail.call("dead"))
    await both.publish(dead)
    both.change(dead, fence=(1, 1))
    for each in (run, dead):
        both.record(each, "charge")

    told = await both.settle({"call": run, "word": "done", "keep": 1.0}, {"call": dead, "word": "dead", "error": "no"})
    assert sorted(told) == sorted(settled((run, "done", True, False, True), (dead, "dead", True, False, True)))
    assert len(await both.ask("aftermath", "clear", ids=array([run.id.hex]))) == 1


async def test_a_plain_end_tells_of_runs_and_children_alone(both: Both):
    run, child, plain = await run_of(both), *both.enqueue(mail.call("child"), mail.call("plain"))
    await both.publish(child, plain)
    both.change(child, parent=run.id)

    given: dict[str, Any] = {"attempts": "{1,1,1}", "numbers": "{1,1,1}", "retention": 60.0}
    told = await both.ask("settler", "settle_done", **pairs(run, child, plain), **given)

    assert sorted(told) == sorted(ends((run, "done", True, False, True), (child, "done", False, True, True)))


@pytest.mark.parametrize(
    ("word", "result", "state"), [("done", b"7", "done"), ("dead", None, "failed"), ("deduplicated", None, "failed")]
)
async def test_the_end_of_a_child_wakes_the_parent(both: Both, word: str, result: bytes | None, state: str):
    run, child = await run_of(both, state="suspended"), *both.enqueue(mail.call("child"))
    both.record(run, "child", kind="child", state="waiting", child=child.id, awaited=True)
    both.record(run, "other", kind="child", state="waiting", child=run.id)

    await both.ask(
        "aftermath", "tell_parents", ids=array([child.id.hex]), words=array([word]), results=[result],
        codecs=[None if result is None else "json"], details=[None if result else '{"type": "E", "message": "no"}'],
    )  # fmt: skip

    records, _ = both.outboxes[0].beside()
    told = next(each for each in records if each[1] == "child")
    assert (told[3], told[10]) == (state, result)
    assert told[-1]["word"] == word
    assert (await both.states())[run.id] == "staged"


async def test_a_run_with_more_open_is_woken_within_a_second(both: Both):
    run, first, second = await run_of(both, state="suspended"), *both.enqueue(mail.call("a"), mail.call("b"))
    for name, child in (("a", first), ("b", second)):
        both.record(run, name, kind="child", state="waiting", child=child.id, awaited=True)
    told: dict[str, Any] = {"words": "{done}", "codecs": [None], "results": [None], "details": [None]}

    await both.ask("aftermath", "tell_parents", ids=array([first.id.hex]), **told)
    row = both.row(run)
    assert (row["state"], row["run_at"] is None) == ("suspended", False)
    await both.ask("aftermath", "tell_parents", ids=array([second.id.hex]), **told)
    assert both.row(run)["state"] == "staged"


async def test_a_run_that_runs_remembers_that_it_was_woken(both: Both):
    run, child = await run_of(both), *both.enqueue(mail.call("child"))
    both.record(run, "child", kind="child", state="waiting", child=child.id)
    told: dict[str, Any] = {"words": "{done}", "codecs": [None], "results": [None], "details": [None]}

    await both.ask("aftermath", "tell_parents", ids=array([child.id.hex]), **told)
    assert both.row(run)["wake_at"] is not None
    await both.suspend({"call": run})

    assert (await both.states())[run.id] == "staged"


async def test_children_are_cancelled_with_their_parent(both: Both):
    run, child, other = await run_of(both), *both.enqueue(mail.call("child"), mail.call("other"))
    both.change(child, parent=run.id)

    await both.ask("aftermath", "cancel_children", ids=array([run.id.hex]))

    assert [both.row(each)["cancel_requested"] for each in (run, child, other)] == [False, True, False]


# undos


@pytest.mark.parametrize("word", ["dead", "cancelled", "expired"])
async def test_a_run_with_undos_is_published_for_them_and_then_ends(both: Both, word: str):
    run = await run_of(both, undo=True, cancel_requested=True, expires_at=60.0)
    failure = {"type": "E", "message": "no"}

    told = await both.settle({"call": run, "word": word, "error": "no", "failures": [failure], "attempts": 3})
    assert told == settled((run, word, True, False, False))
    row = both.row(run)
    assert (row["state"], row["settled"], row["ending"]) == (
        "staged",
        1,
        {"word": word, "reason": "no", "failures": []},
    )
    assert (row["cancel_requested"], row["expires_at"], row["failures"]) == (False, None, [failure])
    assert await both.settle({"call": run, "word": word}) == []

    await both.mark(run, number=2)
    assert await both.settle({"call": run, "word": word, "number": 2, "undone": True}) == settled(
        (run, word, True, False, True)
    )
    assert await both.states() == {}


async def test_a_run_that_dies_while_its_undos_run_ends(both: Both):
    run = await run_of(both, undo=True, ending={"word": "cancelled", "reason": "x"})

    assert await both.settle({"call": run, "word": "dead", "error": "lost"}) == settled(
        (run, "dead", True, False, True)
    )


@pytest.mark.parametrize("word", ["cancelled", "expired"])
async def test_a_word_of_redis_does_not_end_a_run_whose_undos_have_not_run(both: Both, word: str):
    """Redis turns a retry of a flagged job into its cancel; the undo that wanted the retry must run again."""
    run = await run_of(both, undo=True, ending={"word": "dead", "reason": "x"})

    await both.settle({"call": run, "word": word})

    assert both.row(run)["ending"] == {"word": "dead", "reason": "x"}
    assert await both.states() == {run.id: "staged"}


async def test_a_run_with_undos_that_is_done_ends(both: Both):
    run = await run_of(both, undo=True)

    assert await both.settle({"call": run, "word": "done"}) == settled((run, "done", True, False, True))


async def test_what_is_on_its_way_to_an_end_is_neither_cancelled_nor_expires(both: Both):
    run = await run_of(both, state="staged", ending={"word": "dead"}, cancel_requested=True, expires_at=-1.0)

    assert await both.ask("publisher", "cancels", queue="default", limit=10) == []
    assert await both.ask("publisher", "end_cancelled", **OPEN, **pairs(run), retention=60.0) == []
    (row,) = await both.ask("publisher", "batch", times=(11, 14, 19), xids=(0,), queue="default", floor=0, limit=10)
    assert row[12] is None
    assert row[23:28] == (False, None, False, True, 0)


async def test_a_suspended_run_that_is_cancelled_ends_here_and_tells_its_key(both: Both):
    run = await run_of(both, state="suspended", settled=1, parent=None, lane="lane")
    both.cancel(run)

    assert await both.ask("publisher", "cancels", queue="default", limit=10) == [(run.id.bytes, 0, 1, 2)]
    assert await both.ask("publisher", "end_cancelled", **OLD, **pairs(run), retention=60.0) == []
    told = await both.ask("publisher", "end_cancelled", **OPEN, **pairs(run), retention=60.0)
    assert told == [(run.id.bytes, "cancelled", True, False, True, "k", 60_000, "lane")]
    windows = await both.ask("recovery", "open_windows", times=(2,), queue="default")
    assert [key for key, *_ in windows] == ["k"]


async def test_a_suspended_run_with_undos_that_is_cancelled_is_published_for_them(both: Both):
    run = await run_of(both, state="suspended", settled=1, undo=True)
    both.cancel(run)

    told = await both.ask("publisher", "end_cancelled", **OPEN, **pairs(run), retention=60.0)

    assert told == [(run.id.bytes, "cancelled", True, False, False, None, 0, None)]
    row = both.row(run)
    assert (row["state"], row["cancel_requested"]) == ("staged", False)
    assert row["ending"] == {"word": "cancelled", "reason": "it was cancelled", "failures": []}


# events


async def waiter(both: Both, run: Call[Any], name: str = "paid", key: str = "7") -> None:
    both.record(run, f"wait for {name}", kind="event", state="waiting", event=name, key=key, awaited=True)


async def test_events_are_handed_out_first_come_first_served_and_each_once(both: Both):
    first, second = await run_of(both, state="suspended"), *both.enqueue(mail.call("b"))
    both.change(second, state="suspended")
    await waiter(both, first)
    await waiter(both, second)
    both.send("paid", "8")
    both.send("paid", "7", '{"n":1}')
    both.send("other", "7")
    both.send("paid", "7", expires_in=-1.0)

    assert await both.ask("deliverer", "deliver", most=100) == [(4, 0, True)]
    assert await both.states() == {first.id: "staged", second.id: "suspended"}
    records, events = both.outboxes[0].beside()
    assert next(each for each in records if each[0] == first.id)[9:11] == ("json", b'{"n":1}')
    assert [each[-2] for each in events] == [None, "wait for paid", None, None]
    assert await both.ask("deliverer", "deliver", most=100) == [(0, 0, True)]
    both.send("paid", "7")
    assert await both.ask("deliverer", "deliver", most=100) == [(1, 0, True)]
    assert (await both.states())[second.id] == "staged"


async def test_an_event_goes_to_nobody_that_has_ended_or_only_undoes(both: Both):
    run = await run_of(both, ending={"word": "dead"})
    await waiter(both, run)
    await waiter(both, mail.call("gone"))
    both.send("paid", "7")

    assert await both.ask("deliverer", "deliver", most=100) == [(1, 0, True)]
    _, events = both.outboxes[0].beside()
    assert events[0][-2] is None


async def test_an_event_that_was_looked_at_before_the_wait_is_handed_out_again(both: Both):
    run = await run_of(both)
    both.send("paid", "7")
    both.send("paid", "9")
    await both.ask("deliverer", "deliver", most=100)
    await waiter(both, run)
    await both.suspend({"call": run})

    assert await both.ask("settler", "look_again", ids=array([run.id.hex])) == [()]
    assert await both.ask("deliverer", "deliver", most=100) == [(1, 0, True)]
    assert await both.states() == {run.id: "staged"}
    assert await both.ask("settler", "look_again", ids=array([run.id.hex])) == []


async def test_senders_notify_while_nobody_polls(both: Both):
    await both.ask("deliverer", "wake_up")
    assert await both.ask("deliverer", "deliver", most=1) == [(0, 0, False)]
    await both.ask("deliverer", "fall_asleep", xids=(0,))
    assert await both.ask("deliverer", "deliver", most=1) == [(0, 0, True)]


async def test_old_events_go(both: Both):
    run = await run_of(both)
    await waiter(both, run)
    for expires_in in (-1.0, 60.0, 60.0):
        both.send("paid", "7", expires_in=expires_in)
    await both.ask("deliverer", "deliver", most=100)

    assert len(await both.ask("deliverer", "clean_events", retention=60.0, limit=10)) == 1
    assert len(await both.ask("deliverer", "clean_events", retention=-60.0, limit=10)) == 1
    _, events = both.outboxes[0].beside()
    assert len(events) == 1
