"""Looks up a command line of redisjobs without running it: do its names and options exist?"""

from __future__ import annotations

import re
import shlex

import click

from redisjobs.cli import main


def complaints(line: str) -> list[str]:
    """What is wrong with the `redisjobs` part of a command line; a line without one has nothing wrong.

    Names in capitals and parts after `;`, `|`, `&&` are a reader's own.
    """
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        return [f"{line!r}: {error}"]
    if "redisjobs" not in words:
        return []
    words = words[words.index("redisjobs") + 1 :]
    ends = [at for at, word in enumerate(words) if re.fullmatch(r"[|;&<>]+|\d?>.*", word)]
    return _walk(main, words[: ends[0]] if ends else words, "redisjobs")


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
            found = command.get_command(context, word)
            return _walk(found, words[at + 1 :], f"{name} {word}") if found else [f"`{name}` has no command {word!r}"]
    return []


def _is_value(command: click.Command, words: list[str], at: int) -> bool:
    """Whether a word is the value of the option before it."""
    before = words[at - 1] if at else ""
    return any(before in each.opts and isinstance(each, click.Option) and not each.is_flag for each in command.params)
