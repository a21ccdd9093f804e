"""The step store in memory, on the tables of a world: each call is one commit, and there at once."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

import psycopg

from redisjobs import outbox
from redisjobs.base.postgres import array
from redisjobs.call import Call
from redisjobs.errors import StoreRefused
from redisjobs.steps.asking import read_ending, refused, write_ending
from redisjobs.steps.checks import check_done, check_record, storable
from redisjobs.steps.records import KEPT_S, Claim, Ending, JobDone, Kind, State, StepRecord, Token
from redisjobs.steps.store import StepStore
from redisjobs.testing.outbox import AsyncMemoryConnection, MemoryConnection, Tables, runs
from redisjobs.testing.outbox.tables import Finished, Row, StepRow


class MemorySteps(StepStore):
    """Keeps records in the tables of a world.

    Args:
        tables: those into which producers commit.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def claim(self, token: Token) -> Claim:
        with self._tables.lock:
            row = self._tables.outbox.get(token.run)
            mine = (token.number, token.start)
            if row is None or row.redrives != token.life or row.settled >= token.number:
                fence = None if row is None else row.fence
                return Claim("gone", fence, *_known(row))
            other = row.holder not in (None, token.holder)
            if row.fence is not None and (row.fence > mine or (row.fence == mine and other)):
                return Claim("behind", row.fence, *_known(row))
            row.fence, row.holder, row.wake_at = mine, token.holder, None
            return Claim("ok", mine, *_known(row), records=[*self._list(token.run)])

    async def put(self, token: Token, record: StepRecord, child: Call[Any] | None = None) -> None:
        check_record(record)
        with self._tables.lock:
            row = self._need(token, record.name)
            if child is not None:
                self._call(row, record, child)
            else:
                self._put(row, record)

    async def wait(self, token: Token, record: StepRecord) -> StepRecord:
        check_record(record)
        with self._tables.lock:
            self._need(token, record.name)
            step = self._tables.steps.get((token.run, record.name))
            if step is None:
                step = self._add(record)
                step.kind, step.state, step.awaited, step.event, step.key = (
                    "event", "waiting", True, record.event, record.key,
                )  # fmt: skip
            if step.state == "waiting":
                self._look(step)
            return self._read(step)

    async def begin_ending(self, token: Token, ending: Ending) -> None:
        with self._tables.lock:
            row = self._need(token, f"the end as {ending.word}")
            row.ending = row.ending or json.loads(json.dumps(write_ending(ending)))

    async def undone(self, token: Token, undo: StepRecord, name: str) -> None:
        check_record(undo)
        with self._tables.lock:
            self._put(self._need(token, undo.name), undo)
            self._tables.steps.pop((token.run, name), None)

    def transaction(self, token: Token, record: StepRecord | JobDone) -> AbstractAsyncContextManager[Any]:
        return self._transaction(token, record)

    def transaction_sync(self, token: Token, record: StepRecord | JobDone) -> AbstractContextManager[Any]:
        return self._transaction_sync(token, record)

    async def ended(self, token: Token) -> str | None:
        found = self._tables.ended(token.run)
        return None if found is None else found.state

    async def get(self, run: UUID, name: str) -> StepRecord | None:
        found = self._tables.steps.get((run, name))
        return None if found is None else self._read(found)

    async def list(self, run: UUID) -> Sequence[StepRecord]:
        return self._list(run)

    async def delete(self, run: UUID, name: str) -> bool:
        return self._tables.steps.pop((run, name), None) is not None

    async def clear(self, run: UUID) -> int:
        records = self._tables.records(run)
        for each in records:
            del self._tables.steps[run, each.name]
        return len(records)

    async def close(self) -> None:
        """Nothing is to be closed."""

    # -- transactions of users
    @asynccontextmanager
    async def _transaction(self, token: Token, record: StepRecord | JobDone) -> AsyncGenerator[Any, None]:
        written = False
        async with AsyncMemoryConnection(self._tables) as connection, connection.transaction():
            yield connection
            self._end(connection.is_failed, token, record)
            written = True  # nothing runs between this and the commit
        if not written:
            raise psycopg.Rollback

    @contextmanager
    def _transaction_sync(self, token: Token, record: StepRecord | JobDone) -> Generator[Any, None, None]:
        written = False
        with MemoryConnection(self._tables) as connection, connection.transaction():
            yield connection
            self._end(connection.is_failed, token, record)
            written = True
        if not written:
            raise psycopg.Rollback

    def _end(self, is_failed: bool, token: Token, record: StepRecord | JobDone) -> None:  # noqa: FBT001 - of a state
        what = "the job's end" if isinstance(record, JobDone) else record.name
        if is_failed:
            raise StoreRefused(f"transaction {what!r}: a statement in the block failed and its error did not leave it")
        if isinstance(record, JobDone):
            check_done(record)
        else:
            check_record(record)
        with self._tables.lock:
            row = self._need(token, what)
            if isinstance(record, JobDone):
                self._end_job(row, record)
            else:
                self._put(row, record)

    def _end_job(self, row: Row, done: JobDone) -> None:
        tables, window = self._tables, row.key_window
        del tables.outbox[row.id]
        for each in tables.records(row.id):
            del tables.steps[row.id, each.name]
        tables.finished.append(
            Finished(
                row.id, row.job, row.queue, "done", max(row.attempts, done.attempts),
                tables.in_seconds(max(done.keep, KEPT_S, window or 0.0)), row.idempotency_key,
                row.key_until(tables.now()), None, row.last_error, done.value, done.codec,
            )
        )  # fmt: skip
        if row.parent is not None:
            told = {"words": "{done}", "codecs": [done.codec], "results": [done.value], "details": [None]}
            runs.tell_parents(tables, told | {"ids": array([row.id.hex])})

    # -- records
    def _need(self, token: Token, what: str) -> Row:
        row = self._tables.outbox.get(token.run)
        standing = None if row is None else (row.redrives, row.fence, row.holder)
        if row is None or standing != (token.life, (token.number, token.start), token.holder):
            raise refused(token, what)
        return row

    def _put(self, row: Row, record: StepRecord) -> None:
        step = self._tables.steps.get((row.id, record.name))
        if step is None:
            step = self._add(record)
            step.due = self._due(record)
        elif step.state == "done" or (
            step.state == "failed"
            and record.state == "waiting"
            and step.child is not None
            and step.child == record.child
        ):
            return
        elif step.kind != "sleep":
            step.due = self._due(record)
        step.kind, step.state, step.tries, step.awaited = record.kind, record.state, record.tries, record.awaited
        step.event, step.key, step.child, step.undo = None, None, record.child, record.undo
        step.codec, step.value, step.detail = record.codec, record.value, _detail(record)
        step.ended_at = self._tables.now() if record.state in ("done", "failed") else None
        row.undo = row.undo or record.undo

    def _call(self, parent: Row, record: StepRecord, child: Call[Any]) -> None:
        step = self._tables.steps.get((parent.id, record.name))
        if step is not None and (step.state == "done" or step.child == child.id):
            return
        connection = MemoryConnection(self._tables)
        connection.run_ours(*outbox.stage([child]))
        connection.commit()
        self._tables.outbox[child.id].parent = parent.id
        step = step or self._add(record)
        step.kind, step.state, step.tries, step.awaited, step.child = (
            "child", "waiting", record.tries, record.awaited, child.id,
        )  # fmt: skip
        step.event = step.key = step.due = step.codec = step.value = step.detail = step.ended_at = None

    def _look(self, step: StepRow) -> None:
        """What a wait finds: an event, or that its time is over."""
        now = self._tables.now()
        free = [
            each
            for each in self._tables.events.values()
            if (each.name, each.key) == (step.event, step.key) and each.taken_at is None and each.expires_at > now
        ]
        if free:
            runs.take(min(free, key=lambda each: each.id), step, now)
        elif step.due is not None and step.due <= now:
            step.state, step.ended_at, step.detail = "done", now, {"timed_out": True}

    def _add(self, record: StepRecord) -> StepRow:
        started_at = self._tables.in_seconds(-record.took)
        step = StepRow(
            record.run, record.name, self._tables.next_step(), record.kind, record.state, due=self._due(record),
            started_at=started_at,
        )  # fmt: skip
        self._tables.steps[record.run, record.name] = step
        return step

    def _due(self, record: StepRecord) -> datetime | None:
        if record.due is not None or record.due_in is None:
            return record.due
        return self._tables.in_seconds(record.due_in)

    def _list(self, run: UUID) -> Sequence[StepRecord]:
        return [self._read(each) for each in self._tables.records(run)]

    def _read(self, step: StepRow) -> StepRecord:
        due_in = None if step.due is None else (step.due - self._tables.now()) / timedelta(seconds=1)
        return StepRecord(
            step.run, step.name, cast(Kind, step.kind), cast(State, step.state), step.tries, due_in, step.awaited,
            step.event, step.key, step.child, step.undo, step.codec, step.value, step.detail, step.seq,
            step.started_at, step.ended_at,
        )  # fmt: skip


def _known(row: Row | None) -> tuple[Ending | None, str | None, datetime | None]:
    return (None, None, None) if row is None else (read_ending(row.ending), row.version, row.staged_at)


def _detail(record: StepRecord) -> dict[str, Any] | None:
    return None if record.detail is None else json.loads(json.dumps(storable(record.detail)))
