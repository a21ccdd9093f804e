"""Postgres and memory, told the same and compared after every word."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from typing import Any
from uuid import UUID

from redisjobs import App, Call
from redisjobs.base.postgres import array
from tests.support.outboxes import AnyOutbox, in_memory

app = App("shop")
RELAY, LEASE = "relay-1", 30.0
OPEN: dict[str, Any] = {"queue": "default", "token": 1, "epoch": "life-1"}
OLD: dict[str, Any] = OPEN | {"token": 7}


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

    def move(self, how: str, call: Call[Any], **given: Any) -> str:
        """Reprioritize or reschedule a job in both; the word that both answer with."""
        answers = set[str]()
        for outbox in self.outboxes:
            connection = outbox.connect()
            answers.add(getattr(app, how)(connection, str(call.id), **given))
            connection.commit()
        self.compare(how)
        assert len(answers) == 1, f"{how} answers otherwise in memory: {answers}"
        return answers.pop()

    async def ask(
        self, station: str, name: str, /, *, times: tuple[int, ...] = (), xids: tuple[int, ...] = (), **parameters: Any
    ) -> Any:
        """The rows that both answer with.

        Args:
            times: columns that tell a moment in µs or a distance in ms: both must be about the same.
            xids: columns that tell the number of a transaction, or a snapshot: each store counts its own.
        """
        first, second = [await outbox.ask(station, name, **parameters) for outbox in self.outboxes]
        apart = (*times, *xids)
        assert _without(first, apart) == _without(second, apart), f"{name} answers otherwise in memory"
        for column in xids:
            told = [str(row[column]).partition(":")[0] for row in (*first, *second) if row[column] is not None]
            assert told or not first, f"{name}, column {column}: no transaction"
            assert all(int(xid) > 0 for xid in told), f"{name}, column {column}: no transaction"
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
        here, there = [outbox.beside() for outbox in self.outboxes]
        assert here == there, f"{after} leaves other records or events in memory"

    async def states(self) -> dict[UUID, str]:
        """The state of each row, the same in both."""
        self.compare("nothing")
        return {row["id"]: row["state"] for row in self.outboxes[0].rows()}

    def change(self, call: Call[Any], **columns: Any) -> None:
        """Set columns of a row, as a worker or the relay does; moments in seconds from now."""
        for outbox in self.outboxes:
            outbox.change(call.id, **columns)

    def record(self, call: Call[Any], name: str, **columns: Any) -> None:
        """A record of a run; `due` in seconds from now."""
        for outbox in self.outboxes:
            outbox.record(call.id, name, **columns)

    def send(self, name: str, key: str = "", text: str | None = None, *, expires_in: float = 60.0) -> None:
        """An event, committed."""
        for outbox in self.outboxes:
            outbox.send(name, key, text, expires_in)

    def row(self, call: Call[Any]) -> dict[str, Any]:
        """What Postgres has of a job; memory has the same."""
        self.compare("nothing")
        return next(row for row in self.outboxes[0].rows() if row["id"] == call.id)

    async def hold(self) -> None:
        """The queue is held under token 1 in the life `life-1`."""
        await self.ask("leases", "meet", queues=["default", "other"])
        await self.ask("leases", "take", relay=RELAY, lease=LEASE, queues=["default"])
        await self.ask("recovery", "name_life", queue="default", token=1, lease=LEASE, epoch="life-1", first=True)

    async def publish(self, *calls: Call[Any]) -> None:
        await self.mark(*calls)

    async def mark(self, *calls: Call[Any], number: int = 1, life: int = 0, shown: dict[str, Any] = OPEN) -> Any:
        """Mark rows as published for the nth time."""
        numbers = array(str(number) for _ in calls)
        return await self.ask("publisher", "mark", **shown, **pairs(*calls, life=life), numbers=numbers)

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
            undones=array("true" if one.get("undone") else "false" for one in each),
            owners=array(one["owner"].id.hex if "owner" in one else "NULL" for one in each),
        )  # fmt: skip

    async def suspend(self, *told: dict[str, Any], horizon: float = 3600.0) -> Any:
        """Settle suspensions, given by the call, `delay` (None: no time) and `waits`."""
        each: list[dict[str, Any]] = [{"number": 1, "attempts": 0, "delay": None, "waits": True} | one for one in told]
        return await self.ask(
            "settler", "suspend", horizon=horizon, ids=array(one["call"].id.hex for one in each),
            lives=array(str(one.get("life", 0)) for one in each), numbers=array(str(one["number"]) for one in each),
            attempts=array(str(one["attempts"]) for one in each), errors=[one.get("error") for one in each],
            delays=array("NULL" if one["delay"] is None else str(one["delay"]) for one in each),
            waits=array("true" if one["waits"] else "false" for one in each), failures=[None for _ in each],
        )  # fmt: skip


def _comparable(row: dict[str, Any]) -> dict[str, Any]:
    """Without the numbers of transactions, and with moments in halves of a minute, from the row's own staging."""
    moments = {
        name: round((row[name] - row["staged_at"]) / timedelta(seconds=30))
        for name in ("run_at", "expires_at", "published_at", "wake_at", "move_to", "key_since")
        if row[name] is not None
    }
    return {name: value for name, value in row.items() if name not in ("xact", "staged_at", *moments)} | moments


def _without(rows: list[tuple[Any, ...]], times: tuple[int, ...]) -> list[tuple[Any, ...]]:
    return [tuple(None if at in times else value for at, value in enumerate(row)) for row in rows]


def pairs(*calls: Call[Any], life: int = 0) -> dict[str, Any]:
    return {"ids": array(call.id.hex for call in calls), "lives": array(str(life) for _ in calls)}
