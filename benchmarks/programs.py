"""Workers, relays and prototypes as processes of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

_PROGRAM = Path(sys.executable).with_name("redisjobs")
_ROOT = Path(__file__).parent.parent


def wait_for(condition: Callable[[], bool], what: str, seconds: float, step: float = 0.005) -> float:
    """Wait until a condition holds; answers when it was found to.

    Raises:
        TimeoutError: it did not in time.
    """
    ends_at = time.time() + seconds
    while not condition():
        if time.time() > ends_at:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(step)
    return time.time()


@contextmanager
def worker(concurrency: int, *options: str) -> Iterator[int]:
    """A worker of the benchmarks' app, as an operator starts it; its process id."""
    with _program("worker", "benchmarks.jobs:app", "--concurrency", str(concurrency), *options) as pid:
        yield pid


@contextmanager
def relay(*options: str) -> Iterator[int]:
    """A relay, as an operator starts it; its process id."""
    with _program("relay", *options) as pid:
        yield pid


@contextmanager
def prototype(name: str) -> Iterator[int]:
    """A prototype that goes on until the block ends; its process id."""
    with running(sys.executable, "-m", "benchmarks.prototypes", name) as pid:
        yield pid


def command(*words: str) -> list[str]:
    """A command of redisjobs, which says little."""
    return [str(_PROGRAM), *words, "--log-level", "warning"]


def _program(*words: str) -> AbstractContextManager[int]:
    return running(*command(*words))


@contextmanager
def running(*words: str) -> Iterator[int]:
    """A program that is asked to end with the block; its process id."""
    process = subprocess.Popen(words, cwd=_ROOT, stdout=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answer_of(module: str, *words: object) -> dict[str, Any]:
    """What a program of this package prints as its last line, read as JSON.

    Raises:
        RuntimeError: it failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *map(str, words)],
        check=False, cwd=_ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{module} {words} ended with {done.returncode}: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
