"""The ways by which producers commit: psycopg's async and sync connections, and psql with nothing but SQL."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias
from uuid import UUID

import psycopg

from redisjobs import Call
from tests.faults.programme import works
from tests.faults.programme.plan import WINDOW_S, Ask
from tests.support.binaries import postgres_binaries

TIMEOUT_S = 8.0
"""After so long without an answer a producer gives a connection up; it does not know then what became of its COMMIT."""

Named: TypeAlias = tuple[str, Ask, dict[str, Any]]
"""A job's id, what is asked for, and the arguments of its body."""


class Lost(Exception):
    """The connection was lost, or never came to be; what became of a COMMIT that was under way nobody here knows."""


class Pen(Protocol):
    """A way to commit. It opens a new connection where the old one was lost."""

    def deal(self, asks: Sequence[Named], *, commits: bool) -> None:
        """One transaction with these calls, those that are undone behind a savepoint that is rolled back.

        Raises:
            Lost: see there.
        """

    def send(self, key: str) -> None:
        """Send the event `go` with this key, and commit.

        Raises:
            Lost: it may have been sent all the same.
        """

    def close(self) -> None: ...


@contextlib.contextmanager
def pen_of(number: int, url: str) -> Iterator[Pen]:
    """The pen of a producer: each fourth one has psql, of the others every second one is async."""
    kinds: tuple[type[SyncPen | AsyncPen | PsqlPen], ...] = (AsyncPen, SyncPen, AsyncPen, PsqlPen)
    pen = kinds[(number - 1) % len(kinds)](url)
    try:
        yield pen
    finally:
        pen.close()


def call_of(named: Named) -> Call[Any]:
    """The call as an app makes it."""
    job_id, ask, arguments = named
    app = works.other_app if ask.kind == "unknown" else works.app
    caller = app.find(ask.job).using(
        queue=ask.queue, delay=ask.delay, idempotency_key=ask.key, window=None if ask.key is None else WINDOW_S
    )
    return replace(caller.call(**arguments), id=UUID(job_id))


class SyncPen:
    """psycopg, and the app's `enqueue` of several calls at once."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._conn: psycopg.Connection[Any] | None = None

    def deal(self, asks: Sequence[Named], *, commits: bool) -> None:
        with self._connected() as conn, conn.transaction():
            kept = [call_of(named) for named in asks if not named[1].undone]
            if kept:
                works.app.enqueue(conn, kept)
            with conn.transaction() as savepoint:
                for named in asks:
                    if named[1].undone:
                        works.app.enqueue(conn, call_of(named))
                raise psycopg.Rollback(savepoint)
            if not commits:  # type: ignore[unreachable]  # the block swallows its own rollback
                raise psycopg.Rollback

    def send(self, key: str) -> None:
        with self._connected() as conn, conn.transaction():
            works.app.send_event(conn, "go", key, {"key": key})

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    @contextlib.contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            if self._conn is None:
                self._conn = psycopg.connect(self._url, connect_timeout=5, autocommit=True)
            with _watched(self._conn):
                yield self._conn
        except (psycopg.Error, psycopg.Rollback) as error:  # a rollback comes out where it could not be done
            self.close()
            raise Lost(f"{type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _watched(conn: psycopg.Connection[Any]) -> Iterator[None]:
    """Cut a connection that has not answered in time: whoever waits for it gets an error."""
    duplicate = socket.socket(fileno=os.dup(conn.pgconn.socket))

    def cut() -> None:
        with contextlib.suppress(OSError):
            duplicate.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(TIMEOUT_S, cut)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        duplicate.close()


class AsyncPen:
    """psycopg's async connection, and each job's own `enqueue`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._runner = asyncio.Runner()
        self._conn: psycopg.AsyncConnection[Any] | None = None

    def deal(self, asks: Sequence[Named], *, commits: bool) -> None:
        self._runner.run(self._do(lambda conn: self._deal(conn, asks, commits=commits)))

    def send(self, key: str) -> None:
        self._runner.run(self._do(lambda conn: self._send(conn, key)))

    def close(self) -> None:
        if self._conn is not None:
            self._runner.run(self._conn.close())
        self._runner.close()

    async def _deal(self, conn: psycopg.AsyncConnection[Any], asks: Sequence[Named], *, commits: bool) -> None:
        async with conn.transaction() as whole:
            for named in asks:
                if not named[1].undone:
                    await works.app.enqueue_one(conn, call_of(named))
            async with conn.transaction() as savepoint:
                for named in asks:
                    if named[1].undone:
                        await works.app.enqueue_one(conn, call_of(named))
                raise psycopg.Rollback(savepoint)
            if not commits:  # type: ignore[unreachable]  # the block swallows its own rollback
                raise psycopg.Rollback(whole)

    async def _send(self, conn: psycopg.AsyncConnection[Any], key: str) -> None:
        async with conn.transaction():
            await works.app.send_event(conn, "go", key, {"key": key})

    async def _do(self, act: Any) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                if self._conn is None:
                    self._conn = await psycopg.AsyncConnection.connect(self._url, connect_timeout=5, autocommit=True)
                await act(self._conn)
        except (psycopg.Error, psycopg.Rollback, TimeoutError) as error:  # likewise
            if self._conn is not None:
                self._conn.pgconn.finish()  # without a word: it may be that nobody listens
                await self._conn.close()
                self._conn = None
            raise Lost(f"{type(error).__name__}: {error}") from error


class PsqlPen:
    """psql: plain SQL, as any language may send it."""

    def __init__(self, url: str) -> None:
        beside = postgres_binaries() / "psql"
        self._command = [
            str(beside) if beside.exists() else str(shutil.which("psql")),
            "-XqAt",
            "-v",
            "ON_ERROR_STOP=1",
            url,
        ]

    def deal(self, asks: Sequence[Named], *, commits: bool) -> None:
        kept = [_sql_of(named) for named in asks if not named[1].undone]
        undone = [_sql_of(named) for named in asks if named[1].undone]
        behind = ["SAVEPOINT undone;", *undone, "ROLLBACK TO SAVEPOINT undone;"] if undone else []
        self._run("BEGIN;", *kept, *behind, "COMMIT;" if commits else "ROLLBACK;")

    def send(self, key: str) -> None:
        self._run(f"SELECT redisjobs.send_event('go', {_text(key)}, {_text(json.dumps({'key': key}))});")

    def close(self) -> None:
        pass

    def _run(self, *statements: str) -> None:
        env = os.environ | {"PGCONNECT_TIMEOUT": "5", "PGCLIENTENCODING": "utf8"}
        script = "\n".join(statements).encode()
        try:
            done = subprocess.run(self._command, input=script, capture_output=True, timeout=TIMEOUT_S, env=env)
        except subprocess.TimeoutExpired as error:
            raise Lost("psql did not answer in time") from error
        if done.returncode:
            raise Lost(f"psql ended with {done.returncode}: {done.stderr.decode(errors='replace')}")


def _sql_of(named: Named) -> str:
    job_id, ask, arguments = named
    parts = [f"{_text(ask.job)}, {_text(json.dumps(arguments))}", f"queue => {_text(ask.queue)}", f"id => '{job_id}'"]
    if ask.delay is not None:
        parts.append(f"delay => interval '{ask.delay} seconds'")
    if ask.key is not None:
        parts.append(f"idempotency_key => {_text(ask.key)}, key_window => interval '{WINDOW_S} seconds'")
    return f"SELECT redisjobs.enqueue({', '.join(parts)});"


def _text(value: str) -> str:
    """A literal, whatever the server thinks of backslashes."""
    return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
