"""What a program without an event loop asks of an app: results, direct calls, who holds a key."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from redisjobs.app import App, Calls
from redisjobs.base.durations import Duration
from redisjobs.call import Call, Handle
from redisjobs.errors import ConfigurationError, RedisjobsError
from redisjobs.progress import Progress

R = TypeVar("R")
T = TypeVar("T")


class SyncClient:
    """Asks in the caller's thread, over one event loop in a background thread of its own.

        with SyncClient(app) as client:
            total = client.result(handle, timeout=5)

    Enqueuing and `app.cancel` need no client: they go over the caller's own psycopg connection. One client serves
    any number of threads. A forked child may use it too: it gets a thread and connections of its own. Nothing is
    started or connected before the first question.

    Args:
        app: whose jobs and stores are asked. It stays open when the client is closed.
    """

    def __init__(self, app: App) -> None:
        self.app = app
        self._lock = threading.Lock()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._parents: list[object] = []
        _ALL.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def result(self, handle: Handle[R], timeout: Duration | None = None) -> R:
        """What the job's body returned, once it has ended; `Handle.result` says what is raised, and when.

        Raises:
            RedisjobsError: also when the client is closed by another thread meanwhile.
        """
        return self._ask(lambda: self.app.result_of(handle, timeout))

    def progress(self, handle: Handle[Any]) -> Progress | None:
        """How far the job's body has come; None: it has said nothing, or the job has ended."""
        return self._ask(lambda: self.app.progress_of(handle))

    def enqueue_direct(self, *calls: Calls) -> list[Handle[Any]]:
        """Put calls straight into Redis, in no transaction; `Job.enqueue_direct` says what that does not promise.

        Raises:
            EnqueueError: a call was refused; nothing was written.
            BrokerUnavailable: Redis does not answer; any of the jobs may be there all the same.
        """
        return self._ask(lambda: self.app.enqueue_direct(*calls))

    def enqueue_direct_one(self, call: Call[R]) -> Handle[R]:
        """One call straight into Redis, with the type of its result."""
        return self._ask(lambda: self.app.enqueue_direct_one(call))

    def holder(self, queue: str, key: str) -> str | None:
        """The id of the published job that holds an idempotency key in this queue, now or in its window."""
        return self._ask(lambda: self.app.holder(queue, key))

    def close(self) -> None:
        """Give the thread and its connections back. What other threads still wait for ends with an error.

        A second call changes nothing; a closed client answers no more.
        """
        _refuse_inside_a_loop("close")
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_wind_up(self.app), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _ask(self, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        _refuse_inside_a_loop("it")
        with self._lock:
            if self._closed:
                raise RedisjobsError("this SyncClient is closed: make another one")
            answer = asyncio.run_coroutine_threadsafe(question(), self._loop or self._start())
        try:
            return answer.result()
        except concurrent.futures.CancelledError:
            raise RedisjobsError("this SyncClient was closed before the answer was there") from None
        finally:
            answer.cancel()  # a Ctrl-C ends the waiting here; nobody wants the answer any more

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="redisjobs-sync", daemon=True)
        self._thread.start()
        return loop

    def forked(self) -> None:
        """Begin anew in a child: the thread has stayed with the parent."""
        # Kept, not closed: its selector and sockets are shared with the parent.
        self._parents.append(self._loop)
        self._lock = threading.Lock()
        self._loop = self._thread = None


async def _wind_up(app: App) -> None:
    """End what is still asked for, then give the connections of this loop back."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await app.close()
    await asyncio.get_running_loop().shutdown_asyncgens()


def _refuse_inside_a_loop(what: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigurationError(
        f"a SyncClient is used inside of an event loop, which {what} would hold up: "
        "await the same method of the app or the handle there"
    )


_ALL: weakref.WeakSet[SyncClient] = weakref.WeakSet()


def _forked() -> None:
    for client in list(_ALL):
        client.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
