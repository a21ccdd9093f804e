"""What a user is told to type, in the words that started this command: `python manage.py redisjobs …` in Django."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import click

NAME: Final = "redisjobs"


def hint(text: str) -> str:
    """The text, with every command of ours in it called as the one that runs now was; elsewhere it stays as it is."""
    context = click.get_current_context(silent=True)
    root = context.find_root() if context else None
    if root is None or not root.info_name or not root.info_name.endswith(f" {NAME}"):
        return text
    return re.sub(rf"\b{NAME} (?=(?:{'|'.join(_commands(root))})\b)", f"{root.info_name} ", text)


def _commands(root: click.Context) -> Iterable[str]:
    return root.command.list_commands(root) if isinstance(root.command, click.Group) else ()
