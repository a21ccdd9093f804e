"""What a relay asks of the outbox: each statement answers in memory as it does in Postgres, and leaves the same."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from redisjobs import App, Call
from redisjobs.base.postgres import FIRST_ID, array
from tests.support.outboxes import AnyOutbox, in_memory, in_postgres

app = App("shop")
RELAY, LEASE = "relay-1", 30.0
OPEN: dict[str, Any] = {"queue": "default", "token": 1, "epoch": "life-1"}
OLD: dict[str, Any] = OPEN | {"token": 7}
WINDOW_MS = 60_000


@app.job
async def mail(to: str) -> None:
    del to


class Both:
    """Postgres and memory, told the same and compared after every word."""

    def __init__(self, postgres: AnyOutbox) -> None:
        self.outboxes = (postgres, in_memory())

    def enqueue(self, *calls: Call[Any]) -> list[Call[Any]]:
        for outbox in self.outboxes:
            connection = outbox.connect()
            app.enqueue(connection, *calls)
            connection.commit()
        return list(calls)

    def cancel(self, call: Call[Any]) -> None:
        for outbox in self.outboxes:
            connection = outbox.connect()
            app.cancel(connection, str(call.id))
            connection.commit()

    async def ask(
        self, station: str, name: str, /, *, times: tuple[int, ...] = (), xids: tuple[int, ...] = (), **parameters: Any
    ) -> Any:
        """The rows that both answer with.

        Args:
            times: columns that tell a moment in µs or a distance in ms: both must be about the same.
            xids: columns that tell the number of a transaction: each store counts its own.
        """
        first, second = [await outbox.ask(station, name, **parameters) for outbox in self.outboxes]
        apart = (*times, *xids)
        assert _without(first, apart) == _without(second, apart), f"{name} answers otherwise in memory"
        for column in xids:
            assert all(int(row[column]) > 0 for row in (*first, *second)), f"{name}, column {column}: no transaction"
        for one, other in zip(first, second, strict=True):
            for column in times:
                close = one[column] == other[column] or math.isclose(one[column], other[column], abs_tol=5_000)
                assert close, f"{name}, column {column}: {one[column]} and {other[column]}"
        self.compare(name)
        return _without(first, times)

    def compare(self, after: str) -> None:
        """The rows of both are the same now."""
        first, second = [[_comparable(row) for row in outbox.rows()] for outbox in self.outboxes]
        assert first == second, f"{after} leaves other rows in memory"

    async def hold(self) -> None:
        """The queue is held under token 1 in the life `life-1`."""
        await self.ask("leases", "meet", queues=["default", "other"])
        await self.ask("leases", "take", relay=RELAY, lease=LEASE, queues=["default"])
        await self.ask("recovery", "name_life", queue="default", token=1, lease=LEASE, epoch="life-1", first=True)

    async def publish(self, *calls: Call[Any]) -> None:
        await self.ask("publisher", "mark", **OPEN, **pairs(*calls))

    async def settle(self, *told: dict[str, Any], retention: float = 60.0) -> Any:
        """Settle outcomes, given by the call and what is not simply done."""
        each: list[dict[str, Any]] = [
            {"word": "done", "number": 1, "attempts": 1, "delay": 0.0, "keep": 0.0} | outcome for outcome in told
        ]
        return await self.ask(
            "settler", "settle", retention=retention,
            ids=array(one["call"].id.hex for one in each), lives=array("0" for _ in each),
            words=array(one["word"] for one in each), numbers=array(str(one["number"]) for one in each),
            attempts=array(str(one["attempts"]) for one in each), delays=array(str(one["delay"]) for one in each),
            keeps=array(str(one["keep"]) for one in each), errors=[one.get("error") for one in each],
            failures=[json.dumps(one["failures"]) if "failures" in one else None for one in each],
            results=[one.get("result") for one in each], codecs=[one.get("codec") for one in each],
        )  # fmt: skip


def _comparable(row: dict[str, Any]) -> dict[str, Any]:
    """Without the numbers of transactions, and with moments in halves of a minute, from the row's own staging."""
    moments = {
        name: round((row[name] - row["staged_at"]) / timedelta(seconds=30))
        for name in ("run_at", "expires_at", "published_at")
        if row[name] is not None
    }
    return {name: value for name, value in row.items() if name not in ("xact", "staged_at", *moments)} | moments


def _without(rows: list[tuple[Any, ...]], times: tuple[int, ...]) -> list[tuple[Any, ...]]:
    return [tuple(None if at in times else value for at, value in enumerate(row)) for row in rows]


def pairs(*calls: Call[Any], life: int = 0) -> dict[str, Any]:
    return {"ids": array(call.id.hex for call in calls), "lives": array(str(life) for _ in calls)}


@pytest.fixture
async def both(database_url: str) -> AsyncIterator[Both]:
    opened: list[Any] = []
    made = Both(in_postgres(database_url, opened))
    await made.outboxes[0].database.open()
    yield made
    for each in opened:
        each.close()
    await made.outboxes[0].database.close()


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
    now = (10, 11, 12, 13, 18)
    assert len(await both.ask("publisher", "batch", times=now, queue="default", floor=0, limit=100)) == 3
    assert len(await both.ask("publisher", "batch", times=now, queue="default", floor=1, limit=1)) == 1
    assert await both.ask("publisher", "is_held", **OPEN) == [(True,)]
    assert await both.ask("publisher", "is_held", **OLD) == [(False,)]
    assert await both.ask("publisher", "mark", **OLD, **pairs(calls[0])) == []
    assert await both.ask("publisher", "mark", **OPEN, **pairs(calls[0], life=3)) == []
    assert await both.ask("publisher", "mark", **OPEN, **pairs(calls[0], calls[1])) == [(), ()]
    assert await both.ask("publisher", "mark", **OPEN, **pairs(calls[0])) == []
    assert await both.ask("publisher", "failing", queue="default", token=1, failing='{"id": "x"}') == [()]
    assert await both.ask("publisher", "failing", queue="default", token=7, failing=None) == []


async def test_what_is_far_away_waits_and_comes_due_at_the_end_of_the_line(both: Both):
    await both.hold()
    far, near, now = both.enqueue(mail.using(delay=7200).call("a"), mail.using(delay=3700).call("b"), mail.call("c"))
    ids = array(call.id.hex for call in (far, near))

    assert await both.ask("publisher", "defer", **OLD, ids=ids) == []
    assert await both.ask("publisher", "defer", **OPEN, ids=ids) == [(), ()]
    assert await both.ask("leases", "with_work", horizon=3600.0) == [("default", True)]
    await both.publish(now)
    assert await both.ask("leases", "with_work", horizon=3600.0) == []
    assert await both.ask("leases", "with_work", horizon=3800.0) == [("default", False)]
    assert await both.ask("publisher", "come_due", queue="default", horizon=3800.0, limit=10) == [()]
    assert await both.ask("publisher", "come_due", queue="default", horizon=9000.0, limit=10) == [()]


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
    assert await both.ask("publisher", "end_cancelled", **OLD, **pairs(staged), retention=60.0) == [(0,)]
    assert await both.ask("publisher", "end_cancelled", **OPEN, **pairs(staged), retention=60.0) == [(1,)]
    assert await both.ask("leases", "with_work", horizon=1.0) == [("default", False)]
    assert {app.cancel(outbox.connect(), str(staged.id)) for outbox in both.outboxes} == {"cancelled"}


async def test_outcomes_settle(both: Both):
    await both.hold()
    calls = both.enqueue(*(mail.using(idempotency_key=f"{n}", window=60).call(f"{n}") for n in range(8)))
    await both.publish(*calls)
    failure = {"type": "ValueError", "message": "no"}

    assert await both.settle(
        {"call": calls[0]},
        {"call": calls[1], "word": "dead", "error": "no", "failures": [failure], "attempts": 3, "number": 2},
        {"call": calls[2], "word": "cancelled", "error": "it was cancelled"},
        {"call": calls[3], "word": "expired", "attempts": 0},
        {"call": calls[4], "word": "retry", "delay": 90.0, "error": "once", "failures": [failure]},
        {"call": calls[5], "word": "snooze", "delay": 60.0, "attempts": 0},
        {"call": calls[6], "word": "parked", "delay": 30.0, "number": 4},
        {"call": mail.call("unknown")},
    ) == [(4,)]
    assert await both.settle({"call": calls[4], "word": "retry", "delay": 30.0, "attempts": 2}) == [(0,)]
    assert await both.settle({"call": calls[4], "word": "dead", "failures": [failure] * 40}) == [(1,)]
    assert await both.ask("settler", "settle_done", **pairs(calls[7], life=1), attempts="{1}", retention=60.0) == []
    assert await both.ask("settler", "settle_done", **pairs(calls[7]), attempts="{1}", retention=60.0) == [()]
    assert {app.cancel(outbox.connect(), str(calls[1].id)) for outbox in both.outboxes} == {"dead"}
    assert {app.cancel(outbox.connect(), str(calls[3].id)) for outbox in both.outboxes} == {"expired"}
    windows = await both.ask("recovery", "open_windows", times=(2,), queue="default")
    assert sorted(key for key, _, _ in windows) == ["0", "1", "2", "3", "4", "7"]


async def test_a_dead_letter_without_a_row(both: Both):
    call = mail.call("a")
    given: dict[str, Any] = {
        "id": call.id, "job": "mail", "queue": "default", "payload": b"{}", "codec": "json", "idempotency_key": None,
        "key_window": None, "priority": 0, "max_attempts": None, "tenant_id": None, "traceparent": None,
        "enqueued_by": None, "headers": None, "attempts": 2, "reason": "no", "failures": "[]",
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
    await both.publish(*calls[:3])
    assert await both.ask("recovery", "name_life", **chunk, epoch="life-2", first=False) == [(1, 3)]
    assert await both.ask("recovery", "name_life", **old, epoch="x", first=False) == [(0, 0)]


async def test_audits_go_both_ways(both: Both):
    await both.hold()
    published, staged = both.enqueue(mail.call("a"), mail.call("b"))
    await both.publish(published)
    asked: dict[str, Any] = {"after": FIRST_ID, "queues": ["default"], "limit": 10}

    assert await both.ask("audit", "published", **asked, age=60.0) == []
    assert await both.ask("audit", "published", **asked, age=-60.0) == [(published.id.bytes, 0, "default")]
    stranger = replace(mail.call("c"), queue="default")
    ids = array(call.id.hex for call in (published, stranger))
    assert await both.ask("audit", "rowless", ids=ids) == [(stranger.id.bytes,)]
    assert await both.ask("audit", "publish_again", **OLD, **pairs(published)) == []
    assert await both.ask("audit", "publish_again", **OPEN, **pairs(published, staged)) == [()]
