"""Bodies that run in processes of their own; a child finds them here by their names."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redisjobs import Context, Retry, current


@dataclass
class Order:
    id: int
    note: str = ""


class Declined(ValueError):
    """Has more to its text than its arguments."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(code, why)
        self.code = code
        self.why = why

    def __str__(self) -> str:
        return f"declined with {self.code}: {self.why}"


def describe(ctx: Context, order: Order) -> dict[str, Any]:
    """What it was given, and where it runs."""
    logging.getLogger("shop").warning("order %s is described", order.id)
    ctx.progress(1, 2, "half")
    return {
        "pid": os.getpid(),
        "order": order.id,
        "seen": [ctx.job_id, ctx.attempt, ctx.max_attempts, ctx.tenant_id, ctx.headers, current() is ctx],
        "remaining": ctx.remaining(),
    }


def declines(code: int) -> None:
    try:
        raise KeyError("card")  # noqa: TRY301
    except KeyError as error:
        raise Declined(code, "no money") from error


def asks_for_a_retry() -> None:
    raise Retry(after=7, reason="later")


def returns_what_cannot_travel() -> object:
    return object()


@dataclass
class Unreadable:
    """Cannot be written: what looks at its value fails."""

    value: int = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "value":
            raise LookupError("nothing to see")
        return super().__getattribute__(name)


def forks_and_returns_twice() -> int:
    os.fork()
    logging.getLogger("shop").warning("said by both")
    return os.getpid()


def logs_odd_extras() -> None:
    logging.getLogger("shop").warning("half", extra={"by_status": {200: 3, None: 1}})


def returns_what_raises_when_it_is_written() -> Unreadable:
    return Unreadable()


def exits(code: int) -> None:
    os._exit(code)


def crashes() -> None:
    ctypes.string_at(0)


def leaves_by_sys_exit() -> None:
    sys.exit("enough")


def marks_and_sleeps(ctx: Context, folder: str, stubborn: bool = False) -> None:
    """Marks that it runs, what it started, that it unwinds, and that it heard of a drain."""
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    mark = Path(folder)
    helper = subprocess.Popen(["sleep", "60"])
    (mark / "helper").write_text(str(helper.pid))
    (mark / "pid").write_text(str(os.getpid()))
    (mark / "began").touch()
    try:
        for _ in range(6000):
            if ctx.draining.is_set():
                (mark / "draining").touch()
            time.sleep(0.01)
    finally:
        (mark / "unwound").touch()


def ends_when_it_drains(ctx: Context, folder: str) -> None:
    (Path(folder) / "began").touch()
    while not ctx.draining.is_set():
        time.sleep(0.01)


def ends_when_told(folder: str) -> None:
    (Path(folder) / "pid").write_text(str(os.getpid()))
    (Path(folder) / "began").touch()
    while not (Path(folder) / "end").exists():
        time.sleep(0.01)


def starts_a_helper_and_ends_its_process(folder: str, code: int) -> None:
    helper = subprocess.Popen(["sleep", "60"])
    (Path(folder) / "helper").write_text(str(helper.pid))
    os._exit(code)


def forever(folder: str) -> None:
    """Runs on in C code, where no signal handler of Python gets a turn."""
    (Path(folder) / "pid").write_text(str(os.getpid()))
    (Path(folder) / "began").touch()
    libc = ctypes.PyDLL(None)  # keeps the lock of the interpreter
    libc.sleep(60)


class Client:
    """What a lifespan would yield."""


def wants_a_state(ctx: Context[Client], rounds: int) -> None: ...


def has_no_use_for_a_state(ctx: Context[Any]) -> None: ...


def bears_that_there_is_none(ctx: Context[Client | None]) -> bool:
    return ctx.state is None


def takes_a_step(ctx: Context) -> None:
    """Asks for what a process of its own cannot have."""
    ctx.sync.step("charge", print, "charged")
