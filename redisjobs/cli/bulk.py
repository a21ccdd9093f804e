"""What a command on many jobs does around the jobs: counts, asks, shows how far it is, and can be interrupted."""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from redisjobs.base.durations import many
from redisjobs.cli import exits, render

T = TypeVar("T")

SAMPLE = 10
"""How many are shown of those that would be changed."""
ASK_ABOVE = 100
"""Without a question on a terminal, so many at most."""
LINE_S = 5.0
"""Between two lines on progress where there is no terminal."""


@dataclass(frozen=True, slots=True)
class Found:
    """How many fit, and the first of them."""

    count: int
    sample: list[UUID]


def count(ids: Iterable[UUID], number: Callable[[], int] | None = None) -> Found:
    """How many there are, and the first of them.

    Args:
        number: counts them faster than by looking at each.
    """
    with looking():
        walk = iter(ids)
        sample = list(itertools.islice(walk, SAMPLE))
        return Found(number() if number else len(sample) + sum(1 for _ in walk), sample)


def looking() -> AbstractContextManager[Any]:
    """Says on a terminal that it takes a while."""
    return Console(stderr=True).status("looking…") if sys.stderr.isatty() else nullcontext()


def tell_sample(found: Found, what: str, would: str, document: dict[str, Any] | None) -> None:
    """What a dry run says: how many, and the first of them.

    Args:
        what: one of them, such as `job`. would: what would become of it.
    """
    if document is not None:
        render.as_json(document)
        return
    click.echo(f"{many(found.count, what)} {would}; nothing was changed")
    for each in found.sample:
        click.echo(str(each))
    if found.count > len(found.sample):
        click.echo(f"… and {found.count - len(found.sample)} more")


def confirm(question: str, number: int, *, yes: bool, always: bool = False) -> None:
    """Ask before many are changed: on a terminal, or always where it cannot be undone.

    Raises:
        click.Abort: the answer is no.
    """
    asks = (always and number > 0) or (number > ASK_ABOVE and sys.stdin.isatty())
    if asks and not yes:
        click.confirm(question, abort=True, err=True)


def in_pieces(items: Iterable[T], size: int) -> Generator[list[T]]:
    """The items in lists of this size; the last may be shorter."""
    piece: list[T] = []
    for item in items:
        piece.append(item)
        if len(piece) >= size:
            yield piece
            piece = []
    if piece:
        yield piece


def carry_out(
    what: str, total: int, ids: Iterable[UUID], do: Callable[[list[UUID]], Counter[str]], *, at_once: int
) -> Counter[str]:
    """Do it piece by piece, each a transaction of its own; answers what became of them.

    Args:
        what: such as `redriven`, for the words about it.
        total: how many there were when they were counted.

    Raises:
        Fault: Ctrl-C; tells how far it came. What is done stays done, and the same command goes on with the rest.
    """
    told: Counter[str] = Counter()
    try:
        with _progress(what, total) as advance:
            for piece in in_pieces(ids, at_once):
                told += do(piece)
                advance(len(piece))
    except KeyboardInterrupt:
        raise interrupted(what, told.total(), total) from None
    return told


def interrupted(what: str, done: int, total: int, more: str = "") -> exits.Fault:
    """What is said after a Ctrl-C."""
    text = f"interrupted: {done} of {total} {what}; {more or 'the same command goes on with the rest'}"
    return exits.Fault(text, exits.INTERRUPTED)


@contextmanager
def _progress(what: str, total: int) -> Generator[Callable[[int], None]]:
    """Tells how far it is: a bar on a terminal, else a line now and then."""
    if sys.stderr.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   TimeRemainingColumn())  # fmt: skip
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=total)
            yield lambda number: bar.advance(task, number)
        return
    done, said_at = 0, time.monotonic()

    def advance(number: int) -> None:
        nonlocal done, said_at
        done += number
        if time.monotonic() - said_at >= LINE_S:
            said_at = time.monotonic()
            click.echo(f"{done} of {total} {what}", err=True)

    yield advance
