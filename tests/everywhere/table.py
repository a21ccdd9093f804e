"""The page of what is supported: written from a run of the whole table, and read by the test that compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "supported.md"

_HEAD = """\
# What is supported

What was tried: each story of a user on each of these servers, from the call to what he sees of it. This page is
written by that run (`make everywhere`), in which every cell is a test. `ok`: it has passed. `open`: the
last run has not shown it, which may be the server's fault, ours, or that of the machine that it ran on. Other versions
between the oldest and the newest are expected to do as well.

"""


@dataclass(slots=True)
class Table:
    """How each story ended in each place.

    Attributes:
        servers: place -> its servers and their versions, in words.
        ends: (place, story) -> `passed`, `failed` or another word of pytest's.
    """

    servers: dict[str, str] = field(default_factory=dict[str, str])
    ends: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def keep(self, text: str, stories: Mapping[str, str]) -> None:
        """Take over the cells of an older page that this run has not tried."""
        (_, *columns), rows = read(text)
        names = {words: name for name, words in stories.items()}
        for place, (server, *cells) in rows.items():
            self.servers.setdefault(place, server)
            for words, cell in zip(columns, cells, strict=True):
                self.ends.setdefault((place, names.get(words, words)), "passed" if cell == "ok" else "failed")

    def is_whole(self, places: Sequence[str], stories: Sequence[str]) -> bool:
        """Whether every story was told in every place."""
        return self.ends.keys() >= {(place, story) for place in places for story in stories}

    def text(self, places: Sequence[str], stories: Mapping[str, str]) -> str:
        """The page; `stories`: name -> the words of its column."""
        rows = [["place", "servers", *stories.values()], ["---"] * (len(stories) + 2)]
        for place in places:
            ends = [self.ends[place, name] for name in stories]
            rows.append([f"`{place}`", self.servers[place], *("ok" if end == "passed" else "open" for end in ends)])
        return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def read(text: str) -> tuple[list[str], dict[str, list[str]]]:
    """The columns of the page behind the first, and the cells of each place."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    head, _, *others = rows
    return head[1:], {row[0].strip("`"): row[1:] for row in others}
