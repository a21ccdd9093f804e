"""A Python that runs one block after the other in one namespace, as that of a reader who types along; `await` works.

`Notebook` is the caller's side; run as a script this file is the other one.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import select
import subprocess
import sys
import traceback
import types
from pathlib import Path
from typing import Self

WITHIN_S = 60


class Notebook:
    """Another process that runs blocks.

    Args:
        folder: where it stands; modules are found there.
    """

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=env, text=True
        )

    def run(self, code: str) -> str:
        """Run a block; what it printed.

        Raises:
            AssertionError: it raised, with its traceback; or it does not end.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin
        assert stdout
        stdin.write(json.dumps(code) + "\n")
        stdin.flush()
        ready, _, _ = select.select([stdout], [], [], WITHIN_S)
        assert ready, f"does not end within {WITHIN_S} s:\n{code}"
        line = stdout.readline()
        assert line, f"ended its Python:\n{code}"
        answer = json.loads(line)
        assert not answer["error"], f"raised:\n{code}\n{answer['error']}"
        return str(answer["printed"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()


def _serve() -> None:
    answers = sys.stdout
    page = types.ModuleType("__main__")
    sys.modules["__main__"] = page  # annotations and dataclasses of a block look their module up
    sys.path[0] = str(Path.cwd())
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            printed, error = io.StringIO(), ""
            with contextlib.redirect_stdout(printed):
                try:
                    _run(json.loads(line), page, runner)
                except BaseException:  # noqa: BLE001 - whatever a block raises is told to the test
                    error = traceback.format_exc()
            answers.write(json.dumps({"printed": printed.getvalue(), "error": error}) + "\n")
            answers.flush()


def _run(code: str, page: types.ModuleType, runner: asyncio.Runner) -> None:
    compiled = compile(code, "<block>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if not compiled.co_flags & inspect.CO_COROUTINE:
        exec(compiled, page.__dict__)
        return

    async def awaited() -> None:
        await eval(compiled, page.__dict__)

    runner.run(awaited())


if __name__ == "__main__":
    _serve()
