"""Somebody who does what a page of the manual says, block by block, with stores, a folder and a terminal of his own."""

from __future__ import annotations

import configparser
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Self

import psycopg
import redis
import yaml

from tests.support.cli import CommandLine
from tests.support.commands import complaints
from tests.support.eventually import eventually_now
from tests.support.languages import language
from tests.support.net import postgres_variables
from tests.support.notebook import Notebook
from tests.support.pages import Block, Page
from tests.support.processes import CHECKOUT, Processes, Program

ENDLESS = {"relay", "worker", "dev"}
"""Commands that run until they are told to stop."""
QUICK = {"migrate", "status", "explain", "jobs", "dead", "outbox", "queues", "doctor"}
"""Commands that need nothing but the stores: they run in this process, for a Python takes a second to start."""
_LANGUAGES = {"go": "go", "js": "node", "ruby": "ruby", "php": "php", "perl": "perl"}
"""The words for languages of programs, and what `languages` calls them."""
_SHIM = f"#!/bin/sh\nexec {sys.executable} -c 'from redisjobs.cli import main; main()' \"$@\"\n"


class Reader:
    """Follows a page.

    Args:
        folder: his files; programs find their modules there.
        processes: the terminals for what runs on.
    """

    def __init__(self, folder: Path, processes: Processes, database_url: str, redis_url: str) -> None:
        self.folder, self.processes = folder, processes
        self.database_url, self.redis_url = database_url, redis_url
        path = folder / "bin"
        path.mkdir()
        for name, text in (("redisjobs", _SHIM), ("python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')):
            (path / name).write_text(text)
            (path / name).chmod(0o755)
        processes.env["PATH"] = f"{path}{os.pathsep}{os.environ['PATH']}"
        if not entry_points(group="pytest11", name="redisjobs"):  # an older editable install does not know of it
            processes.env["PYTEST_ADDOPTS"] = "-p pytest_redisjobs"
        self._env = os.environ | processes.env
        self._commands = CommandLine(processes.env)
        self._notebook: Notebook | None = None
        self._exports: list[str] = []
        self._programs: list[Program] = []
        self._printed = ""
        self._how: dict[str, Callable[[Block], str]] = {
            "python": self._python, "sql": self._sql, "sh": self._sh, "console": self._console, "text": self._text,
            "acl": self._acl, "dockerfile": _dockerfile, "json": _parses(json.loads), "toml": _parses(tomllib.loads),
            **dict.fromkeys(_LANGUAGES, self._program),
            "yaml": _parses(lambda text: list(yaml.safe_load_all(text))), "ini": _parses(_ini),
        }  # fmt: skip

    def follow(self, page: Page) -> None:
        """Do all that the page says.

        Raises:
            AssertionError: it is not as the page says; names the block's line.
        """
        for block in page.blocks():
            try:
                self._do(block)
            except Exception as error:
                raise AssertionError(f"{page.name}:{block.line} ({block.language}): {error}") from error
        for program in self._programs:
            program.says_now("relay.started" if "relay" in program.name.split() else "worker.started", within=60)
            assert program.code in (None, 0), f"{page.name}: {program.name} ended with {program.code}"
        for program in self._programs:
            if program.is_running():
                program.send(signal.SIGTERM)
        for program in self._programs:
            assert program.wait() in (0, 75), f"{page.name}: {program.name} ended with {program.code}"

    def _do(self, block: Block) -> None:
        assert not block.strange_words, f"nobody knows these words: {block.strange_words}"
        if source := block.option("from"):
            assert _flat(block.text) in _flat((CHECKOUT / source).read_text()), f"it does not stand so in {source}"
            return
        assert block.language in self._how, (
            "a block of this language is not checked: run it, name the file that it stands in (from=PATH), "
            "or call it text if it is neither code nor configuration"
        )
        if name := block.option("file"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(block.text)
            if block.language == "python":
                compile(block.text, name, "exec")
                return
        self._printed = self._how[block.language](block)

    def _python(self, block: Block) -> str:
        if "parsed" in block.words:
            compile(block.text, "<block>", "exec")
            return ""
        self._notebook = self._notebook or Notebook(self.folder, self._env)
        return self._notebook.run(block.text)

    def _program(self, block: Block) -> str:
        ended = language(_LANGUAGES[block.language]).run(
            block.text, self.folder, self._env | postgres_variables(self.database_url)
        )
        assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"
        return ended.stdout

    def _sql(self, block: Block) -> str:
        with psycopg.connect(self.database_url, autocommit="rollback" not in block.words) as connection:
            cursor = connection.execute(block.text.encode())
            while cursor.nextset():
                pass
            printed = _table(cursor)
            connection.rollback()
        return printed

    def _sh(self, block: Block) -> str:
        if "parsed" in block.words:
            _check_syntax(block.text)
            wrong = [each for line in lines(block.text) for each in complaints(line)]
            assert not wrong, "; ".join(wrong)
            return ""
        return "".join(self._line(line) for line in lines(block.text))

    def _console(self, block: Block) -> str:
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, told = part.partition("\n")
            _check_output(told, self._line(command))
        return ""

    def _line(self, line: str) -> str:
        """Type one command; what it printed. One that runs on is left to run."""
        if line.startswith("export "):
            self._exports.append(line)
            return ""
        line = re.sub(r"\bID\b", lambda _: self._any_job(dead=line.startswith("redisjobs dead ")), line)
        words = line.split()
        if words[0] == "redisjobs" and words[1] in ENDLESS and not {"--burst", "--help"} & set(words):
            self._start(line)
            return ""
        if (
            words[0] == "redisjobs"
            and words[1] in QUICK
            and not self._exports
            and not set("|<>;&$`") & set(line.partition(" #")[0])
        ):
            return str(self._commands(*shlex.split(line, comments=True)[1:]).stdout)
        script = "\n".join(["set -euo pipefail", *self._exports, line])
        ended = subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, cwd=self.folder, env=self._env, timeout=60
        )
        assert ended.returncode == 0, f"`{line}` ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    def _start(self, line: str) -> None:
        """Without waiting for it, so that those of a page start side by side."""
        program = self.processes.start("bash", "-c", "\n".join([*self._exports, f"exec {line}"]))
        program.name = line
        self._programs.append(program)

    def _any_job(self, *, dead: bool) -> str:
        """The id of any job, the youngest first; or of the dead letter that died last."""
        ask = "SELECT id FROM redisjobs.outbox UNION ALL SELECT id FROM redisjobs.finished ORDER BY id DESC LIMIT 1"
        if dead:
            ask = "SELECT id FROM redisjobs.dead ORDER BY died_at DESC LIMIT 1"
        with psycopg.connect(self.database_url) as connection:
            found = connection.execute(ask.encode()).fetchone()
        assert found, "there is no job yet, whose ID could be named"
        return str(found[0])

    def _text(self, block: Block) -> str:
        if "output" in block.words:
            _check_output(block.text, self._printed)
        if "log" in block.words:
            for line in lines(block.text):
                eventually_now(partial(self._logged, line), f"a program writes {line!r}", within=60)
        return self._printed

    def _logged(self, line: str) -> bool:
        return any(re.search(_pattern(line), program.log()) for program in self._programs)

    def _acl(self, block: Block) -> str:
        words = block.text.split()
        with redis.Redis.from_url(self.redis_url) as client:
            assert client.execute_command(*words)
            client.acl_deluser(words[2])
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._notebook:
            self._notebook.__exit__()


def lines(text: str) -> list[str]:
    """The command lines of a block: continued ones as one, comments and empty ones left out."""
    whole = re.sub(r"\\\n\s*", "", text)
    return [line.strip() for line in whole.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _flat(text: str) -> str:
    """A text without its indentation, for an excerpt may have lost some."""
    return "\n".join(["", *(line.strip() for line in text.strip().splitlines()), ""])


def _check_output(told: str, printed: str) -> None:
    assert re.fullmatch(_pattern(told.strip()), printed.strip()), f"it printed\n{printed}\nand not\n{told}"


def _pattern(told: str) -> str:
    return ".*".join(re.escape(part) for part in told.split("…")).replace(r"\ .*", r"\s.*").join(["(?s:", ")"])


def _table(cursor: psycopg.Cursor[tuple[object, ...]]) -> str:
    if not cursor.description:
        return ""
    rows = [
        [column.name for column in cursor.description],
        *([str(value) for value in row] for row in cursor.fetchall()),
    ]
    return "".join(" | ".join(row) + "\n" for row in rows)


def _check_syntax(script: str) -> None:
    ended = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, timeout=20)
    assert ended.returncode == 0, ended.stderr


def _dockerfile(block: Block) -> str:
    hadolint = str(Path(sys.executable).with_name("hadolint"))
    ended = subprocess.run([hadolint, "--no-color", "-"], input=block.text, capture_output=True, text=True, timeout=20)
    assert ended.returncode == 0, ended.stdout
    return ""


def _ini(text: str) -> object:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names have capitals
    parser.read_file(io.StringIO(text))
    return parser.sections()


def _parses(parse: Callable[[str], object]) -> Callable[[Block], str]:
    def check(block: Block) -> str:
        assert parse(block.text) is not None
        return ""

    return check
