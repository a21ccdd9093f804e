"""What the programs of the examples are asked to do, in whatever language, and what they answered.

Every program reads the same commands; psql is sent the statements that they stand for.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.languages import Language

Command = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program answered.

    Args:
        value: an id, or a number of rows.
        error: what it was told, where the command was refused.
    """

    value: Any = None
    error: str | None = None
    sqlstate: str | None = None
    constraint: str | None = None

    @property
    def reason(self) -> str | None:
        """What a program would decide by: the constraint that refused it, else the SQLSTATE."""
        return self.constraint or self.sqlstate


def converse(language: Language, env: Mapping[str, str], commands: Sequence[Command]) -> list[Answer]:
    """Have one program carry out all of the commands; its answers, in their order."""
    told = _as_psql(commands) if language.name == "sql" else "\n".join(json.dumps(each) for each in commands)
    program = [*language.command, "-"] if language.name == "sql" else language.program("conformance")
    ended = subprocess.run(
        program,
        input=told.encode("utf-8", "surrogatepass"),
        capture_output=True,
        env=os.environ | env | language.env,
        timeout=60,
    )
    said, complaints = ended.stdout.decode(), ended.stderr.decode(errors="replace")
    answers = _from_psql(said) if language.name == "sql" else [_answer(line) for line in said.splitlines()]
    assert len(answers) == len(commands), (
        f"{language.name} answered {len(answers)} of {len(commands)}: {complaints[-2000:]}"
    )
    return answers


def _answer(line: str) -> Answer:
    told = json.loads(line)
    return Answer(told.get("answer"), told.get("error"), told.get("sqlstate"), told.get("constraint"))


_AFTER_EACH = r"""
\if :ERROR
\echo '!' :SQLSTATE :LAST_ERROR_MESSAGE
\else
\echo '.' :ROW_COUNT
\endif
"""
_NO_TEXT = '{"text": "\ud800"}'
_MANY = "INSERT INTO redisjobs.outbox (job, queue, input) SELECT {}, {}, value FROM json_array_elements({}::json)"


def _as_psql(commands: Sequence[Command]) -> str:
    return "\\pset format unaligned\n\\pset tuples_only on\n" + "".join(
        f"{_statement(each)};{_AFTER_EACH}" for each in commands
    )


def _statement(command: Command) -> str:
    options = command.get("options", {})
    match command["do"]:
        case "sql":
            return str(command["text"])
        case "enqueue":
            given = "".join(f", {name} => {_literal(value)}" for name, value in options.items())
            return f"SELECT redisjobs.enqueue({_literal(command['job'])}, {_literal(command.get('input', {}))}{given})"
        case "enqueue_many":
            return _MANY.format(_literal(command["job"]), _literal(options["queue"]), _literal(command["input"]))
        case "enqueue_no_text":
            return f"SELECT redisjobs.enqueue({_literal(command['job'])}, {_literal(_NO_TEXT)})"
        case "savepoint" | "rollback_to":
            return f"{command['do'].replace('_', ' ')} {command['name']}"
        case word:
            return str(word)


def _literal(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "'" + text.replace("'", "''") + "'"


def _from_psql(said: str) -> list[Answer]:
    answers: list[Answer] = []
    shown = ""
    for line in said.splitlines():
        if line.startswith("! "):
            _, sqlstate, message = line.split(" ", 2)
            named = re.search(r'constraint "(\w+)"', message)
            answers.append(Answer(None, message, sqlstate, named[1] if named else None))
        elif line.startswith(". "):
            answers.append(Answer(shown or int(line[2:])))
        shown = line if line[:2] not in ("! ", ". ") else ""
    return answers
