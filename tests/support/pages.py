"""The pages of the manual as their readers see them: fenced blocks in reading order, commands within the text, links.

A fence's first word is its language, the others say what is to be done with it:

    file=NAME    write it to a file of the reader's
    from=PATH    it is an excerpt of this file of the checkout, which has tests of its own
    output       what the block before it prints; … stands for anything
    log          what the programs that run write, sooner or later; … stands for anything
    parsed       commands that are not run: their names and options are looked up
    rollback     SQL that is taken back afterwards, for roles belong to the whole server

A comment that begins with `<!-- unseen` holds blocks that a reader has no need of, such as a table of his own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support.processes import CHECKOUT

WORDS = {"output", "log", "parsed", "rollback"}
_UNSEEN = "<!-- unseen"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the words behind it, its text, and the line of the page where it begins."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int

    def option(self, name: str) -> str | None:
        """The value of a word `name=value`."""
        return next((word.partition("=")[2] for word in self.words if word.startswith(f"{name}=")), None)

    @property
    def strange_words(self) -> list[str]:
        """Words that mean nothing."""
        return [word for word in self.words if word not in WORDS and word.split("=")[0] not in ("file", "from")]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the manual."""

    path: Path

    @property
    def name(self) -> str:
        """The path within the checkout."""
        return str(self.path.relative_to(CHECKOUT))

    def blocks(self) -> list[Block]:
        """Its fenced blocks, the unseen ones too."""
        return list(_blocks(_tokens(self.path.read_text())))

    def unfenced(self) -> list[int]:
        """The lines where code or a drawing stands that has no fence, and so no language."""
        return [
            token.map[0] + 1
            for token in _tokens(self.path.read_text())
            if token.map and (token.type == "code_block" or (token.type == "inline" and "──" in token.content))
        ]

    def inline_commands(self) -> list[str]:
        """The commands of redisjobs that stand within its sentences."""
        parts = [part for token in _tokens(self.path.read_text()) for part in token.children or []]
        return [part.content for part in parts if part.type == "code_inline" and part.content.startswith("redisjobs ")]

    def links(self) -> list[str]:
        """What it points to within the checkout: `path`, `path#heading` or `#heading`."""
        parts = [part for token in _tokens(self.path.read_text()) for part in token.children or []]
        targets = [str(part.attrs["href"]) for part in parts if part.type == "link_open"]
        return [target for target in targets if "://" not in target and not target.startswith("mailto:")]

    def anchors(self) -> set[str]:
        """What a link may name behind `#`: its headings, as the usual viewers spell them."""
        tokens = _tokens(self.path.read_text())
        titles = [text.content for head, text in itertools.pairwise(tokens) if head.type == "heading_open"]
        return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def manual() -> list[Page]:
    """Every page that people read: the README and all below `docs/`."""
    return [Page(CHECKOUT / "README.md"), *(Page(path) for path in sorted((CHECKOUT / "docs").rglob("*.md")))]


@cache
def _tokens(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(text)


def _blocks(tokens: list[Token], offset: int = 0) -> Iterator[Block]:
    for token in tokens:
        line = offset + (token.map[0] if token.map else 0) + 1
        if token.type == "fence":
            language, *words = token.info.split() or [""]
            yield Block(language, tuple(words), token.content, line)
        elif token.type == "html_block" and token.content.startswith(_UNSEEN):
            inner = token.content.removeprefix(_UNSEEN).rpartition("-->")[0]
            yield from _blocks(_tokens(inner), line - 1)
