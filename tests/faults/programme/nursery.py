"""Starts Python programs in some 20 ms instead of a second: by a fork of a process that has imported all they need.

The nursery is a process of its own (`python -m tests.faults.programme.nursery`) that reads one order a line from its
stdin, forks, and answers on stdout: `{"pid": …}` for each order, `{"gone": pid, "code": …}` for each end. Its children
are sessions of their own, as `tests.support.processes.Program`s are; they share nothing with each other but memory
that none has written to.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from tests.support import seizure

PRELOADED = (
    "redisjobs.cli.worker",
    "redisjobs.cli.relay",
    "redisjobs.cli.scheduler",
    "redisjobs.worker",
    "redisjobs.relay",
    "redisjobs.scheduler",
    "tests.faults.programme.works",
    "tests.faults.programme.producer",
)


def child(order: dict[str, Any]) -> NoReturn:
    """Become the program of an order: a `module:function` that reads its `arguments` from `sys.argv`."""
    code = 1
    try:
        os.setsid()
        null, log = os.open(os.devnull, os.O_RDONLY), os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update(order["env"])
        os.chdir(order["cwd"])
        random.seed()
        seizure.install()
        module, _, function = order["call"].partition(":")
        sys.argv = [module, *order["arguments"]]
        getattr(importlib.import_module(module), function)()
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does at its end
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def tell(**said: object) -> None:
    os.write(1, json.dumps(said).encode() + b"\n")


def reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        tell(gone=pid, code=os.waitstatus_to_exitcode(status))


def serve() -> None:
    """Fork for each line of stdin, until it closes."""
    heard, telling = os.pipe()
    os.set_blocking(telling, False)
    signal.set_wakeup_fd(telling)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    rest = b""
    tell(ready=os.getpid())
    while True:
        ready, _, _ = select.select([0, heard], [], [])
        if heard in ready:
            os.read(heard, 4096)
            reap()
        if 0 in ready:
            read = os.read(0, 1 << 16)
            if not read:
                return
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                order = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    child(order)
                tell(pid=pid)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[3]))
    for module in PRELOADED:
        importlib.import_module(module)
    serve()


if __name__ == "__main__":
    main()
