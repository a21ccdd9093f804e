"""Starts the processes of a site: by a fork of the nursery, or as an interpreter of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

from tests.faults.programme.part import Running
from tests.support.processes import CHECKOUT

_RUN = (
    "import importlib, sys; module, name = sys.argv.pop(1).split(':'); getattr(importlib.import_module(module), name)()"
)


class Forked:
    """A child of the nursery."""

    def __init__(self, pid: int, codes: dict[int, int]) -> None:
        self.pid, self._codes = pid, codes

    @property
    def code(self) -> int | None:
        return self._codes.get(self.pid)


class Fresh:
    """An interpreter of its own: what a library that is loaded before all others needs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid, self._process = process.pid, process

    @property
    def code(self) -> int | None:
        return self._process.poll()


class Starter:
    """The nursery and its children; what is left is killed at the end."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._codes: dict[int, int] = {}
        self._started: list[Running] = []
        self._answers: list[dict[str, Any]] = []
        self._answered = threading.Condition()
        with (folder / "nursery.log").open("ab") as log:
            self._nursery = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.programme.nursery"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=CHECKOUT,
                env=os.environ | {"PYTHONPATH": str(CHECKOUT)}, start_new_session=True,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, name="nursery", daemon=True)
        self._reader.start()
        self._answer("ready", within=120)

    def start(self, call: str, arguments: list[str], log: Path, env: dict[str, str]) -> Running:
        """Start `module:function` with these arguments and this whole environment."""
        process = (
            self._fresh(call, arguments, log, env) if "LD_PRELOAD" in env else self._fork(call, arguments, log, env)
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        """Kill what is left, and the nursery."""
        for process in self._started:
            if process.code is None:
                os.killpg(process.pid, signal.SIGKILL)
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.close()
        self._nursery.wait(10)
        self._reader.join(10)
        self._nursery.stdout.close()
        for process in self._started:
            if isinstance(process, Fresh):
                while process.code is None:
                    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fork(self, call: str, arguments: list[str], log: Path, env: dict[str, str]) -> Forked:
        order = {"call": call, "arguments": arguments, "log": str(log), "env": env, "cwd": str(self._folder)}
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(json.dumps(order).encode() + b"\n")
        self._nursery.stdin.flush()
        return Forked(int(self._answer("pid")["pid"]), self._codes)

    def _fresh(self, call: str, arguments: list[str], log: Path, env: dict[str, str]) -> Fresh:
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", _RUN, call, *arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env=env, cwd=self._folder, start_new_session=True,
            )  # fmt: skip
        return Fresh(process)

    def _read(self) -> None:
        assert self._nursery.stdout is not None
        for line in self._nursery.stdout:
            said = json.loads(line)
            with self._answered:
                if "gone" in said:
                    self._codes[said["gone"]] = said["code"]
                else:
                    self._codes.pop(said.get("pid", 0), None)  # of a child long ago that had this number
                    self._answers.append(said)
                self._answered.notify_all()

    def _answer(self, word: str, within: float = 60) -> dict[str, Any]:
        with self._answered:
            told = self._answered.wait_for(lambda: self._answers, within)
            log = (self._folder / "nursery.log").read_text(errors="replace")
            assert told, f"the nursery did not say {word} within {within:g} s:\n{log[-2000:]}"
            answer = self._answers.pop(0)
        assert word in answer, f"the nursery said {answer} instead of {word}"
        return answer
