"""Looks up a command line of redisjobs without running it: do its names and options exist?"""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from redisjobs.cli import main
from redisjobs.cli.steps import ShownByDefault


def complaints(line: str) -> list[str]:
    """What is wrong with the commands of redisjobs in a line of shell; one without any has nothing wrong."""
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        words = list(lexer)
    except ValueError as error:
        return [f"{line!r}: {error}"]
    return [wrong for command in _commands(words) for wrong in _complaints(command)]


def _commands(words: list[str]) -> list[list[str]]:
    """The parts of a line, split at what stands between commands; redirections and what they name belong to none."""
    ends = [at for at, word in enumerate(words) if set(word) <= set("|&;()<>")]
    return [words[start:end] for start, end in zip([0, *(at + 1 for at in ends)], [*ends, len(words)], strict=True)]


def _complaints(words: list[str]) -> list[str]:
    while words and (words[0] == "exec" or "=" in words[0]):
        words = words[1:]
    return _walk(main, words[1:], "redisjobs") if words and Path(words[0]).name == "redisjobs" else []


def _walk(command: click.Command, words: list[str], name: str) -> list[str]:
    context = click.Context(command, info_name=name.rpartition(" ")[2])
    known = {option for each in command.get_params(context) for option in (*each.opts, *each.secondary_opts)}
    for at, word in enumerate(words):
        option = word.partition("=")[0]
        if option.startswith("-") and option != "-" and option not in known:
            return [f"`{name}` has no option {option}"]
        if isinstance(command, click.Group) and not word.startswith("-"):
            if _is_value(command, words, at):
                continue
            if word.isupper():  # stands for any of them
                return []
            if isinstance(command, ShownByDefault) and word not in command.commands:
                return _walk(command.commands["show"], words[at:], name)
            found = command.get_command(context, word)
            return _walk(found, words[at + 1 :], f"{name} {word}") if found else [f"`{name}` has no command {word!r}"]
    return []


def _is_value(command: click.Command, words: list[str], at: int) -> bool:
    """Whether a word is the value of the option before it."""
    before = words[at - 1] if at else ""
    return any(before in each.opts and isinstance(each, click.Option) and not each.is_flag for each in command.params)
