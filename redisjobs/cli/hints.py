"""What a user is told to type, in the words that started this command: `python manage.py redisjobs …` in Django."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

NAME: Final = "redisjobs"
STORES = Path(".redisjobs", "env")
"""What `redisjobs dev` writes where it was started: the URLs of the stores that it runs."""
_UNSET = re.compile(r"\b(?:database|redis)_url is not set\b")
_ENDED = re.compile(r"/sockets/(?:\.s\.PGSQL\.5432|redis\.sock)\b.* No such file", re.DOTALL)


def hint(text: str) -> str:
    """The text with what helps beside a `redisjobs dev`, and every command of ours called as the one that runs was."""
    if _UNSET.search(text) and STORES.is_file():
        text += f"\n  those of `redisjobs dev` in this folder:  . {STORES}"
    if _ENDED.search(text):
        text += "\n  the `redisjobs dev` whose stores these are has ended: start it again"
    context = click.get_current_context(silent=True)
    root = context.find_root() if context else None
    if root is None or not root.info_name or not root.info_name.endswith(f" {NAME}"):
        return text
    return re.sub(rf"\b{NAME} (?=(?:{'|'.join(_commands(root))})\b)", f"{root.info_name} ", text)


def _commands(root: click.Context) -> Iterable[str]:
    return root.command.list_commands(root) if isinstance(root.command, click.Group) else ()
