"""Processes that run bodies, made when they are needed, kept warm, and killed where a body must end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, cast

from redisjobs import far_errors
from redisjobs.base.frames import Frames, Message
from redisjobs.base.threads import Threads
from redisjobs.child import STOP_SIGNALS
from redisjobs.context import Context, micros
from redisjobs.errors import Dead, ProcessEnded
from redisjobs.guard import Guard
from redisjobs.job import Job

UNWIND_S = 2.0
"""How long a body may take to unwind after SIGTERM, before SIGKILL."""

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); from redisjobs.child import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]))"
)


class Process:
    """One child, in a session of its own, so that no signal to the worker's group reaches it. For threads.

    Args:
        guard: kills what it has started where the worker is killed.
    """

    def __init__(self, guard: Guard) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # until it knows who may end it
            words = [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), str(os.getpid()), json.dumps(sys.path)]
            try:
                self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and nothing that a caller wrote
                    words, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._guard = guard
        guard.watch(self._process.pid)
        self._looking = threading.Lock()
        self._frames = Frames(ours)
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)
        self._pidfd = -1
        with contextlib.suppress(OSError, AttributeError):  # else its end is known by the end of the socket
            self._pidfd = os.pidfd_open(self._process.pid)
            self._poll.register(self._pidfd, select.POLLIN)

    def run(self, message: Message, hear: Callable[[Message], None]) -> Message:
        """Have a body run, and return its last word; `hear` is called with what comes before it.

        Raises:
            ProcessEnded: the process ended before its body did.
        """
        with contextlib.suppress(OSError):  # it is gone: the poll says so
            self._frames.send(message)
        while True:
            ready = {fd for fd, _ in self._poll.poll()}
            answer = self._frames.receive() if self._frames.fileno() in ready else None
            if answer is None:
                raise ProcessEnded(self._how_it_ended())
            if answer["type"] not in ("progress", "log"):
                return answer
            hear(answer)

    def tell(self, message: Message) -> None:
        """Send it something beside a run."""
        with contextlib.suppress(OSError):
            self._frames.send(message)

    def signal(self, number: signal.Signals) -> None:
        """Signal it and what it has started."""
        if self.is_alive:
            _signal_group(self._process.pid, number)

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended; if it has, what it started and left in its group is killed."""
        with self._looking:
            if self._process.returncode is None and _has_ended(self._process):
                # not reaped yet, it keeps its number from being given to others
                _signal_group(self._process.pid, signal.SIGKILL)
                self._process.poll()
            return self._process.returncode is None

    def close(self) -> None:
        """Kill it, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel does not let go of it: nothing more helps
            self._process.wait(UNWIND_S)
            self._guard.forget(self._process.pid)
        self._frames.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _how_it_ended(self) -> str:
        until = time.monotonic() + UNWIND_S
        while self.is_alive and time.monotonic() < until:
            time.sleep(0.005)
        code = self._process.returncode
        if code is None:
            return "the process of the body closed its connection to the worker"
        with contextlib.suppress(ValueError):
            if code < 0:
                return f"the process of the body was ended by {signal.Signals(-code).name}"
        return f"the process of the body ended with exit code {code}"


def _signal_group(leader: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has; where the system can tell so, it is not reaped by the question."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return process.poll() is not None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody else has reaped it
        return True


class Children:
    """Runs bodies in processes; there are as many as ever ran at the same time.

    Args:
        draining: passed on to what runs when it is set.
    """

    def __init__(self, draining: asyncio.Event) -> None:
        self._draining = draining
        self._threads = Threads("redisjobs-child")
        self._guard: Guard | None = None
        self._guarding = threading.Lock()
        self._idle: list[Process] = []
        self._running: set[Process] = set()
        self._telling: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def call(self, job: Job[..., Any], context: Context, codec: str, payload: bytes) -> object:
        """What the body returned, where the job keeps its result, else None. Cancelling ends the process.

        Args:
            codec, payload: the arguments, in a built-in codec.

        Raises:
            ProcessEnded: the process ended by itself, or was killed by somebody else.
            BaseException: what the body raised, as `far_errors.revive` makes it.
        """
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell_of_draining(), name="drain of processes")
        process = await self._one()
        self._running.add(process)
        message = _run_of(job, context, codec, payload)
        variables = copy_context()  # the attempt's, for what its log lines carry

        def hear(told: Message) -> None:
            variables.run(_hear, context, told)

        conversation = asyncio.ensure_future(self._threads.call(lambda: process.run(message, hear)))
        try:
            answer: Any = await asyncio.shield(conversation)
        except asyncio.CancelledError:
            ending = asyncio.create_task(self._end(process, conversation))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            await asyncio.shield(ending)
            raise
        except BaseException:
            self._drop(process)
            raise
        self._running.discard(process)
        self._idle.append(process)
        return _value(job, answer)

    def close(self) -> None:
        """Kill every process, and wait until all are gone, which takes milliseconds."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        processes, self._idle = [*self._idle, *self._running], []
        self._running.clear()
        for each in processes:
            each.signal(signal.SIGKILL)
        for each in processes:
            each.close()
        self._threads.close()
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    async def _one(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if process.is_alive:
                return process
            process.close()
        making = asyncio.ensure_future(self._threads.call(self._make))
        try:
            made: Any = await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(self._keep)
            raise
        return cast(Process, made)

    def _make(self) -> Process:
        with self._guarding:
            if self._guard is None:
                self._guard = Guard()
        return Process(self._guard)

    def _keep(self, made: asyncio.Future[Any]) -> None:
        if made.exception() is None:
            self._idle.append(made.result())

    async def _end(self, process: Process, conversation: asyncio.Future[object]) -> None:
        process.tell({"type": "end"})
        for number in (signal.SIGTERM, signal.SIGKILL):
            process.signal(number)
            ended, _ = await asyncio.wait({conversation}, timeout=UNWIND_S)
            if ended:
                conversation.exception()  # it is known why
                break
        self._drop(process)

    def _drop(self, process: Process) -> None:
        if process in self._running:
            self._running.discard(process)
            process.close()

    async def _tell_of_draining(self) -> None:
        await self._draining.wait()
        for process in self._running:
            process.tell({"type": "drain"})


def _run_of(job: Job[..., Any], context: Context, codec: str, payload: bytes) -> Message:
    main: Any = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    moments = {name: getattr(context, name) for name in ("run_at", "expires_at", "staged_at")}
    names = ("job_id", "job", "queue", "attempt", "max_attempts", "idempotency_key", "priority", "tenant_id")
    told: Message = {name: getattr(context, name) for name in (*names, "traceparent", "enqueued_by", "deadline")}
    told |= {name: None if value is None else micros(value) for name, value in moments.items()}
    return {
        "type": "run",
        "module": job.function.__module__,
        "qualname": getattr(job.function, "__qualname__", ""),
        "main": spec.name if spec is not None else getattr(main, "__file__", None),
        "context": told | {"headers": json.dumps(dict(context.headers))},
        "codec": codec,
        "payload": payload,
        "keeps": job.declaration.result_ttl_s is not None,
        "level": logging.getLogger().getEffectiveLevel(),
    }


def _hear(context: Context, message: Message) -> None:
    if message["type"] == "progress":
        if context.reporter is not None:
            context.reporter.report(message["text"])
        return
    record = logging.makeLogRecord(message["record"])
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)


def _value(job: Job[..., Any], answer: Message) -> object:
    if answer["type"] == "raised":
        raise far_errors.revive(answer["error"])
    if answer["type"] == "unkept":
        raise Dead(f"its body ended well, but its result cannot be kept: {answer['why']}")
    if answer["result"] is None:
        return None
    codec, payload = answer["result"]
    value: object = job.decode_result(codec, payload)
    return value
