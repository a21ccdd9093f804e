"""The program of a process that runs bodies for a worker: one at a time, told over a socket.

It knows no app and no store: it imports the module of a function and calls it, in its main thread, so that SIGTERM
unwinds the body where the worker says so. It ends with the worker, however that ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import logging
import logging.handlers
import os
import runpy
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, cast

from redisjobs import far_errors
from redisjobs.base import copies
from redisjobs.base.codec import Codecs
from redisjobs.base.frames import Frames, Message
from redisjobs.base.signature import Signature
from redisjobs.context import Context, moment, running
from redisjobs.durable import Engine, Refusing, in_a_process
from redisjobs.errors import ConfigurationError, EncodeError
from redisjobs.job import Job
from redisjobs.record import message_of, type_of

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
WORD_S = 0.5
"""How long after SIGTERM the worker's word may come that the body shall end: it is sent before the signal."""
_PR_SET_PDEATHSIG = 1


def main(fd: int, parent: int) -> None:
    """Run what comes over this socket, until it ends."""
    with contextlib.suppress(OSError, AttributeError):  # Linux alone has it; elsewhere the end of the socket must do
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        return
    child = Child(Frames(socket.socket(fileno=fd)))
    signal.signal(signal.SIGTERM, child.unwind)
    signal.signal(signal.SIGINT, _pass)
    copies.take(STOP_SIGNALS)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)  # the worker blocked them until we listen
    child.serve()


def _pass(*_: object) -> None:
    """What the body starts does not inherit a handler, as it would inherit that a signal is ignored."""


class Child:
    """Serves one worker."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._pid = os.getpid()
        self._runs: SimpleQueue[Message] = SimpleQueue()
        self._context: Context | None = None
        self._codecs = Codecs()
        self._ends = self._unwinds = False

    def unwind(self, *_: object) -> None:
        """Have SIGTERM end the body where the worker said so just before, and do nothing where anybody else sends it.

        Who stops a whole unit signals all its processes, and then the worker decides what ends and what may go on.
        """
        until = time.monotonic() + WORD_S
        while not self._ends and time.monotonic() < until:
            time.sleep(0.005)  # the word may be on its way through the thread that listens
        if self._ends and not self._unwinds:
            self._unwinds = True
            raise SystemExit(143)

    def serve(self) -> None:
        """Run one body after the other."""
        threading.Thread(target=self._listen, name="redisjobs-parent", daemon=True).start()
        root = logging.getLogger()
        root.handlers[:] = [_Sends(self._frames)]
        while True:
            run = self._runs.get()
            root.setLevel(run["level"])
            self._frames.send(copy_context().run(self._run, run))
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            if os.getpid() != self._pid:
                os._exit(0)  # a copy that the body forked off and that came back from it too

    def _listen(self) -> None:
        while (message := self._frames.receive()) is not None:
            if message["type"] == "run":
                self._runs.put(message)
            elif message["type"] == "end":
                self._ends = True
            elif self._context is not None:
                self._context.draining.set()
        os._exit(0)  # the worker is gone: whatever runs here has lost its lease, or will

    def _run(self, run: Message) -> Message:
        reporter = _Reporter(self._frames)
        try:
            function = find(run["module"], run["qualname"], run["main"])
            signature = Signature(run["context"]["job"], function, Context)
            self._context = context = _context(run["context"], reporter)
            running.set(context)
            arguments = signature.arguments(self._codecs.decode(run["codec"], run["payload"]))
            value = function(context, **arguments) if signature.takes_context else function(**arguments)
        except BaseException as error:  # noqa: BLE001 - whatever a body raises is told
            if os.getpid() != self._pid:
                copies.end(error)
            return {"type": "raised", "error": far_errors.tell(error)}
        finally:
            self._context = None
            reporter.over = True
        if not run["keeps"]:
            return {"type": "returned", "result": None}
        try:
            return {"type": "returned", "result": self._codecs.encode(signature.write_result(value), "the result")}
        except EncodeError as error:
            return {"type": "unkept", "why": str(error)}
        except Exception as error:  # noqa: BLE001 - a class of the user's: the body has ended well all the same
            return {"type": "unkept", "why": f"{type_of(error)}: {message_of(error)}"}


class _Reporter:
    """Passes the progress of one run on, and none of what a thread that it left behind still reports."""

    def __init__(self, frames: Frames) -> None:
        self.over = False
        self._frames = frames

    def report(self, text: bytes) -> None:
        """Pass a body's progress on."""
        if not self.over:
            self._frames.send({"type": "progress", "text": text})


def find(module: str, qualname: str, main: str | None) -> Callable[..., Any]:
    """The function at this place; what the worker's main program declares is found by its file or name, `main`.

    Raises:
        ConfigurationError: it is not there.
    """
    try:
        if module == "__main__" and main is not None:
            names = _of_program(main)
            found: Any = names[qualname.partition(".")[0]]
            rest = qualname.split(".")[1:]
        else:
            found, rest = importlib.import_module(module), qualname.split(".")
        for part in rest:
            found = getattr(found, part)
    except Exception as error:
        raise ConfigurationError(
            f"process=True: {module}.{qualname} is not found in a new process ({type(error).__name__}: {error}): "
            "declare it at the top of a module that can be imported"
        ) from error
    return found.function if isinstance(found, Job) else cast("Callable[..., Any]", found)


_programs: dict[str, dict[str, Any]] = {}


def _of_program(main: str) -> dict[str, Any]:
    if main not in _programs:
        _programs[main] = (
            runpy.run_path(main, run_name="__redisjobs_child__")
            if main.endswith(".py")
            else vars(importlib.import_module(main))
        )
    return _programs[main]


def _context(told: Message, reporter: _Reporter) -> Context:
    fields: dict[str, Any] = {**told, "headers": json.loads(told["headers"]), "reporter": reporter, "opener": _refuse}
    for name in ("run_at", "expires_at", "staged_at"):
        fields[name] = moment(told[name])
    return Context(**fields)


def _refuse(context: Context) -> Engine:
    return Refusing(in_a_process(context.job))


class _Sends(logging.handlers.QueueHandler):
    """Sends each record to the worker, whose handlers write it."""

    def __init__(self, frames: Frames) -> None:
        super().__init__(cast(Any, frames))

    def enqueue(self, record: logging.LogRecord) -> None:
        cast(Frames, self.queue).send({"type": "log", "record": record.__dict__})
