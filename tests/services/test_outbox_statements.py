"""What a relay asks of the outbox: each statement answers in memory as it does in Postgres, and leaves the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from redisjobs import Call, Debounce, Throttle
from redisjobs.base.postgres import FIRST_ID, array
from tests.support.both import LEASE, OLD, OPEN, RELAY, Both, app, mail, pairs

WINDOW_MS = 60_000


@app.job(result_ttl=90)
async def kept() -> int:
    return 1


async def test_leases(both: Both):
    await both.ask("leases", "meet", queues=["default", "other"])
    await both.ask("leases", "meet", queues=["default"])
    assert await both.ask("leases", "take", relay=RELAY, lease=LEASE, queues=["default"])
    await both.ask("leases", "take", relay=RELAY, lease=LEASE, queues=["default"])
    await both.ask("leases", "take", relay="relay-2", lease=LEASE, queues=None)
    assert len(await both.ask("leases", "keep", relay=RELAY, lease=LEASE)) == 1
    shown: dict[str, Any] = {"queue": "default", "relay": RELAY, "lease": LEASE}
    assert await both.ask("leases", "fresh_token", **shown, token=1, above=0) == [(2,)]
    assert await both.ask("leases", "fresh_token", **shown, token=1, above=0) == []
    assert await both.ask("leases", "fresh_token", **shown, token=2, above=9) == [(10,)]
    token = 10
    assert await both.ask("leases", "fall_asleep", xids=(0,), queue="default", token=token)
    await both.ask("leases", "fall_asleep", xids=(0,), queue="default", token=1)
    await both.ask("leases", "wake_up", queue="default", token=token)
    await both.ask("leases", "wake_up", queue="default", token=1)
    await both.ask("leases", "oldest_running", xids=(0,))
    await both.ask("leases", "let_go", relay=RELAY)
    await both.ask("leases", "take", relay="relay-3", lease=LEASE, queues=["default", "other"])


async def test_a_batch_is_read_and_marked(both: Both):
    await both.hold()
    calls = both.enqueue(
        mail.call("a"),
        mail.using(delay=60, expires=120, idempotency_key="k", window=5.5, priority=-1, tenant="t").call("b"),
        mail.using(queue="other", headers={"a": 1}).call("c"),
        mail.using(run_at=datetime(2040, 1, 1, tzinfo=UTC), enqueued_by="x", max_attempts=3).call("d"),
    )
    now = (11, 12, 13, 14, 19)
    assert len(await both.ask("publisher", "batch", times=now, xids=(0,), queue="default", floor=0, limit=100)) == 3
    assert len(await both.ask("publisher", "batch", times=now, xids=(0,), queue="default", floor=1, limit=1)) == 1
    assert await both.ask("publisher", "is_held", **OPEN) == [(True,)]
    assert await both.ask("publisher", "is_held", **OLD) == [(False,)]
    assert await both.mark(calls[0], shown=OLD) == []
    assert await both.mark(calls[0], life=3) == []
    assert await both.mark(calls[0], number=2) == []
    assert await both.mark(calls[0], calls[1]) == [(), ()]
    assert await both.mark(calls[0]) == []
    assert await both.ask("publisher", "failing", queue="default", token=1, failing='{"id": "x"}') == [()]
    assert await both.ask("publisher", "failing", queue="default", token=7, failing=None) == []


async def test_what_is_far_away_waits_and_comes_due_at_the_end_of_the_line(both: Both):
    await both.hold()
    far, near, now = both.enqueue(mail.using(delay=7200).call("a"), mail.using(delay=3700).call("b"), mail.call("c"))
    ids = array(call.id.hex for call in (far, near))

    assert await both.ask("publisher", "defer", **OLD, ids=ids) == []
    assert await both.ask("publisher", "defer", **OPEN, ids=ids) == [(), ()]
    assert await both.ask("leases", "with_staged") == [("default",)]
    await both.publish(now)
    assert await both.ask("leases", "with_staged") == []
    assert await both.ask("leases", "with_side_work", horizon=3600.0) == []
    assert await both.ask("leases", "with_side_work", horizon=3800.0) == [("default", "due")]
    assert await both.ask("publisher", "come_due", queue="default", horizon=3800.0, limit=10) == [(1,)]
    assert await both.ask("publisher", "come_due", queue="default", horizon=9000.0, limit=10) == [(1,)]


async def test_a_duplicate_ends_only_while_its_owner_holds_the_key(both: Both):
    await both.hold()
    owner, first, second, third = both.enqueue(
        mail.using(idempotency_key="k", window=60).call("owner"),
        *(mail.using(idempotency_key="k").call(f"{n}") for n in range(3)),
    )
    await both.publish(owner)

    async def deduplicate(call: Call[Any], owner: Call[Any], *sure: Call[Any], **shown: Any) -> Any:
        owners, known = array([owner.id.hex]), array(each.id.hex for each in sure)
        return await both.ask(
            "publisher", "deduplicate", **(OPEN | shown), **pairs(call), owners=owners, sure=known, retention=60.0
        )

    stranger = mail.call("unknown")
    assert await deduplicate(first, stranger) == []
    assert await deduplicate(first, owner, token=7) == []
    assert len(await deduplicate(first, owner)) == 1
    await both.settle({"call": owner})
    assert len(await deduplicate(second, owner)) == 1
    assert len(await deduplicate(third, stranger, stranger)) == 1


async def test_cancels(both: Both):
    await both.hold()
    staged, published = both.enqueue(mail.call("a"), mail.call("b"))
    await both.publish(published)
    both.cancel(staged)
    both.cancel(published)

    assert len(await both.ask("publisher", "cancels", queue="default", limit=10)) == 2
    assert await both.ask("publisher", "end_cancelled", **OLD, **pairs(staged), retention=60.0) == []
    assert await both.ask("publisher", "end_cancelled", **OPEN, **pairs(staged), retention=60.0) == [
        (staged.id.bytes, "cancelled", False, False, True, None, 0, None)
    ]
    assert await both.ask("leases", "with_side_work", horizon=1.0) == [("default", "cancel")]
    assert {app.cancel(outbox.connect(), str(staged.id)) for outbox in both.outboxes} == {"cancelled"}


async def test_another_priority_or_time(both: Both):
    calls = both.enqueue(*(mail.call(f"{n}") for n in range(11)))
    staged, published, retrying, deferred, aside, suspended, slept, failed, snoozed, parked, done = calls
    await both.hold()
    await both.publish(*(each for each in calls if each not in (staged, deferred, aside)))
    both.change(retrying, state="retrying", run_at=600)
    both.change(deferred, state="deferred", run_at=7200)
    both.change(aside, state="set_aside")
    both.change(suspended, state="suspended", settled=1, run_at=600)
    both.change(slept, state="staged", settled=1, run_at=600)
    both.change(failed, state="retrying", settled=1, run_at=600)
    both.change(snoozed, state="snoozed", run_at=600)
    both.change(parked, state="parked", run_at=20)
    await both.settle({"call": done})

    words = [both.move("reprioritize", each, priority=7) for each in calls]
    later = [both.move("reschedule", each, delay=3600) for each in calls]

    in_redis, here, left = "requested", "changed", "suspended"
    assert words == [here, in_redis, in_redis, here, here, here, here, in_redis, in_redis, in_redis, "done"]
    assert later == [here, in_redis, in_redis, here, here, left, left, in_redis, in_redis, in_redis, "done"]
    assert both.move("reschedule", deferred) == "changed"
    assert both.move("reschedule", mail.call("unknown")) == "unknown"
    moves = await both.ask("mover", "moves", queue="default", limit=10, times=(0, 1, 12, 20))
    assert [row[2] for row in moves] == [each.id.bytes for each in (published, retrying, failed, snoozed, parked)]
    assert await both.ask("leases", "with_staged") == [("default",)]
    side = await both.ask("leases", "with_side_work", horizon=1.0)
    assert side == [("default", "move"), ("default", "due")]


async def test_what_was_moved_is_noted_unless_it_was_changed_once_more(both: Both):
    await both.hold()
    one, other = both.enqueue(mail.call("a"), mail.call("b"))
    await both.publish(one, other)

    async def moved(call: Call[Any], priority: int, *, taken: bool = True, token: int = 1, life: int = 0) -> Any:
        (time,) = [row[0] for row in await both.outboxes[0].ask("mover", "moves", **given) if row[2] == call.id.bytes]
        there = [row[0] for row in await both.outboxes[1].ask("mover", "moves", **given) if row[2] == call.id.bytes]
        answers = [
            await outbox.ask(
                "mover", "moved", **OPEN | {"token": token}, **pairs(call, life=life), priorities=f"{{{priority}}}",
                times=f"{{{'NULL' if at is None else at}}}", taken=f"{{{str(taken).lower()}}}",
            )
            for outbox, at in zip(both.outboxes, (time, *there), strict=True)
        ]  # fmt: skip
        assert len({str(each) for each in answers}) == 1
        both.compare("moved")
        return both.row(call)["moving"]

    given = {"queue": "default", "limit": 10}
    both.move("reprioritize", one, priority=7)
    assert await moved(one, 5) is True
    assert await moved(one, 7, token=9) is True
    assert await moved(one, 7, life=1) is True
    assert await moved(one, 7) is False
    both.move("reschedule", one, delay=600)
    both.change(one, state="retrying", run_at=10)  # an outcome that was under way
    assert await moved(one, 7) is False
    assert both.row(one)["run_at"] is not None
    both.move("reschedule", other, delay=600)
    assert await moved(other, 0, taken=False) is False
    assert both.row(other)["run_at"] is None


async def test_a_run_that_suspends_or_is_undone_waits_as_its_records_say(both: Both):
    await both.hold()
    paused, undone, cancelled = both.enqueue(mail.call("a"), mail.call("b"), mail.call("c"))
    await both.publish(paused, undone, cancelled)
    for each in (paused, undone, cancelled):
        both.move("reschedule", each, delay=600)
    both.change(undone, undo=True)
    both.change(cancelled, undo=True)
    both.cancel(cancelled)

    await both.suspend({"call": paused})
    await both.settle({"call": undone, "word": "dead"})
    await both.ask("publisher", "end_cancelled", **OPEN, **pairs(cancelled), retention=60.0)

    assert [both.row(each)["moving"] for each in (paused, undone, cancelled)] == [False] * 3
    assert [both.row(each)["move_to"] for each in (paused, undone, cancelled)] == [None] * 3


async def test_outcomes_settle(both: Both):
    await both.hold()
    calls = both.enqueue(*(mail.using(idempotency_key=f"{n}", window=60).call(f"{n}") for n in range(8)))
    await both.publish(*calls)
    failure = {"type": "ValueError", "message": "no"}

    assert (
        await both.settle(
            {"call": calls[0]},
            {"call": calls[1], "word": "dead", "error": "no", "failures": [failure], "attempts": 3, "number": 2},
            {"call": calls[2], "word": "cancelled", "error": "it was cancelled"},
            {"call": calls[3], "word": "expired", "attempts": 0},
            {"call": calls[4], "word": "retry", "delay": 90.0, "error": "once", "failures": [failure]},
            {"call": calls[5], "word": "snooze", "delay": 60.0, "attempts": 0},
            {"call": calls[6], "word": "parked", "delay": 30.0, "number": 4},
            {"call": mail.call("unknown")},
        )
        == []
    )
    assert await both.settle({"call": calls[4], "word": "retry", "delay": 30.0, "attempts": 2}) == []
    assert await both.settle({"call": calls[4], "word": "dead", "failures": [failure] * 40}) == []
    plain: dict[str, Any] = {"attempts": "{1}", "numbers": "{1}", "retention": 60.0}
    assert await both.ask("settler", "settle_done", **pairs(calls[7], life=1), **plain) == []
    await both.ask("settler", "settle_done", **pairs(calls[7]), **plain)
    assert await both.states() == {calls[5].id: "snoozed", calls[6].id: "parked"}
    assert {app.cancel(outbox.connect(), str(calls[1].id)) for outbox in both.outboxes} == {"dead"}
    assert {app.cancel(outbox.connect(), str(calls[3].id)) for outbox in both.outboxes} == {"expired"}
    windows = await both.ask("recovery", "open_windows", times=(2,), queue="default")
    assert sorted(key for key, _, _ in windows) == ["0", "1", "2", "3", "4", "7"]


async def test_a_throttled_key_is_held_from_its_publication_and_not_from_the_end(both: Both):
    await both.hold()
    throttle = Throttle(period=WINDOW_MS / 1000)
    calls = both.enqueue(
        *(mail.using(throttle=throttle, idempotency_key=f"{n}").call("a") for n in range(5)),
        mail.using(throttle=throttle, idempotency_key="later", delay=120).call("a"),
    )
    await both.publish(*calls)
    for call in calls[:4]:
        both.change(call, key_since=-45.0)
    both.change(calls[3], key_since=-61.0)

    await both.settle({"call": calls[0]}, {"call": calls[1], "word": "dead"}, {"call": calls[2], "word": "cancelled"})
    plain: dict[str, Any] = {"attempts": "{1}", "numbers": "{1}", "retention": 60.0}
    await both.ask("settler", "settle_done", **pairs(calls[3]), **plain)
    await both.suspend({"call": calls[4]}, {"call": calls[5]})

    windows = await both.ask("recovery", "open_windows", times=(2,), queue="default")
    assert sorted(key for key, _, _ in windows) == ["0", "1", "2", "4", "later"]
    rows = await both.outboxes[0].ask("recovery", "open_windows", queue="default")
    assert {key: 10_000 < ms < 20_000 for key, _, ms in rows} == {
        "0": True, "1": True, "2": True, "4": False, "later": False,
    }  # fmt: skip
    assert {key: ms for key, _, ms in rows}["later"] > 170_000


async def test_what_a_later_call_supersedes_ends_as_its_duplicate_and_hands_its_burst_on(both: Both):
    await both.hold()
    debounce = Debounce(wait=5, longest=60)
    first, second = both.enqueue(*(kept.using(debounce=debounce, idempotency_key="k").call() for _ in range(2)))
    await both.publish(first)
    both.change(first, key_since=-120.0)

    settled = await both.settle({"call": first, "word": "deduplicated", "owner": second, "error": "why", "attempts": 0})

    assert settled == [(first.id.bytes, "deduplicated", False, False, True, 90_000)]
    await both.publish(second)
    assert both.row(second)["key_since"] - both.row(second)["staged_at"] < timedelta(seconds=-100)
    assert {app.cancel(outbox.connect(), str(first.id)) for outbox in both.outboxes} == {"deduplicated"}
    assert await both.ask("recovery", "open_windows", times=(2,), queue="default") == []


async def test_a_duplicate_that_is_waited_for_says_for_how_long(both: Both):
    await both.hold()
    owner, twin = both.enqueue(*(kept.using(idempotency_key="k").call() for _ in range(2)))
    await both.publish(owner)
    given = OPEN | pairs(twin) | {"owners": array([owner.id.hex]), "sure": array([]), "retention": 60.0}

    ended = await both.ask("publisher", "deduplicate", **given)

    assert ended == [(twin.id.bytes, "deduplicated", False, False, True, 90_000)]


async def test_what_is_replaced_is_flagged_for_its_end_under_the_lease(both: Both):
    await both.hold()
    [old] = both.enqueue(mail.call("a"))
    await both.publish(old)
    ids = array([old.id.hex])

    assert await both.ask("publisher", "replaced", **OLD, ids=ids) == []
    assert await both.ask("publisher", "replaced", **OPEN, ids=ids) == [()]
    assert await both.ask("publisher", "replaced", **OPEN, ids=ids) == []
    assert both.row(old)["cancel_requested"]


async def test_a_dead_letter_without_a_row(both: Both):
    call = mail.call("a")
    given: dict[str, Any] = {
        "id": call.id, "job": "mail", "queue": "default", "payload": b"{}", "codec": "json", "idempotency_key": None,
        "key_window": None, "priority": 0, "max_attempts": None, "tenant_id": None, "traceparent": None,
        "enqueued_by": None, "headers": None, "attempts": 2, "reason": "no", "failures": "[]", "version": "2",
        "lane": "l", "share_key": "s", "key_policy": None, "key_wait": None, "key_longest": None,
    }  # fmt: skip
    assert await both.ask("settler", "bury_direct", **given) == [()]
    assert await both.ask("settler", "bury_direct", **given) == []
    await both.ask("settler", "make_room", ahead=60.0)
    assert await both.ask("settler", "drop_finished") == [(0,)]


async def test_after_a_loss_the_rows_join_the_line_again_in_their_old_order(both: Both):
    await both.hold()
    calls = both.enqueue(*(mail.call(f"{n}") for n in range(4)))
    await both.publish(*calls)
    chunk: dict[str, Any] = {"queue": "default", "token": 1, "lease": LEASE}
    old: dict[str, Any] = chunk | {"token": 7}

    assert await both.ask("recovery", "take_back", **old, after=FIRST_ID, limit=2) == [
        (0, 0, sorted(call.id for call in calls)[1])
    ]
    [(held, count, last)] = await both.ask("recovery", "take_back", **chunk, after=FIRST_ID, limit=2)
    assert (held, count) == (1, 2)
    assert (await both.ask("recovery", "take_back", **chunk, after=str(last), limit=9))[0][:2] == (1, 2)
    await both.mark(*calls[:3], number=2)
    assert await both.ask("recovery", "name_life", **chunk, epoch="life-2", first=False) == [(1, 3)]
    assert await both.ask("recovery", "name_life", **old, epoch="x", first=False) == [(0, 0)]


async def test_audits_go_both_ways(both: Both):
    await both.hold()
    published, staged = both.enqueue(mail.call("a"), mail.call("b"))
    await both.publish(published)
    asked: dict[str, Any] = {"after": FIRST_ID, "queues": ["default"], "limit": 10}

    assert await both.ask("audit", "published", **asked, age=60.0) == []
    assert await both.ask("audit", "published", **asked, age=-60.0) == [(published.id.bytes, 0, 0, "default")]
    stranger = replace(mail.call("c"), queue="default")
    ids = array(call.id.hex for call in (published, stranger))
    assert await both.ask("audit", "rowless", ids=ids) == [(stranger.id.bytes,)]
    assert await both.ask("audit", "publish_again", **OLD, **pairs(published)) == []
    assert await both.ask("audit", "publish_again", **OPEN, **pairs(published, staged)) == [()]
