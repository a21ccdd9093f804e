"""The options that say which jobs are meant, the same for every command on many jobs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import click

from redisjobs.call import check_queue
from redisjobs.cli.options import Function, duration, job_id
from redisjobs.search import JobFilter

LIMIT = click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
AFTER = click.option("--after", metavar="ID", type=job_id, help="Go on behind this one, the last of the page before.")
COUNT = click.option("--count", "only_count", is_flag=True, help="Only how many fit.")
LINES = click.option("--jsonl", "as_lines", is_flag=True, help="One JSON object a line.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only say how many and show some; change nothing.")
YES = click.option("--yes", is_flag=True, help="Do not ask.")
LONGEST_AGE_S = 36_525 * 86_400.0
ALL = click.option("--all", "every", is_flag=True, help="All of them.")


def text(value: str) -> str:
    """A text that a database can compare with."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise click.BadParameter(f"{value[:60]!r} is no text in UTF-8.") from None
    return value


def age(value: str) -> float:
    """A duration that still names a day of the calendar."""
    seconds = duration(value)
    if seconds > LONGEST_AGE_S:
        raise click.BadParameter(f"{value!r} is longer than 100 years.")
    return seconds


def filters(*, states: Sequence[str] = (), age_of: str = "staged") -> Callable[[Function], Function]:
    """Adds the options; the function gets them as one `which`.

    Args:
        states: those that may be asked for; none: there is no such option.
        age_of: what happened so long ago.
    """
    known: dict[str, Callable[[Any], Any]] = {
        "queue": click.option("--queue", type=text, metavar="NAME", help="Only of this queue."),
        "job": click.option("--job", type=text, metavar="NAME", help="Only of this name."),
        "tenant": click.option("--tenant", type=text, metavar="ID", help="Only of this tenant."),
        "state": click.option("--state", type=click.Choice(states), multiple=True,
                               help="Only in this state; may be given several times."),
        "idempotency_key": click.option("--idempotency-key", type=text, metavar="KEY", help="Only with this key."),
        "error": click.option("--error", type=text, metavar="TEXT",
                              help="Only where the reason or the last error, its type included, has this in it."),
        "older_than": click.option("--older-than", type=age, metavar="TIME",
                                help=f"Only {age_of} longer ago than 90s, 5m, 2h, 7d."),
        "newer_than": click.option("--newer-than", type=age, metavar="TIME",
                                help=f"Only {age_of} within this time."),
    }  # fmt: skip

    def add(function: Any) -> Any:
        @functools.wraps(function)
        def call(**given: Any) -> Any:
            return function(which=_filter({name: given.pop(name, None) for name in known}), **given)

        decorated: Any = call
        for name, option in reversed(known.items()):
            decorated = option(decorated) if name != "state" or states else decorated
        return decorated

    return add


def _filter(given: dict[str, Any]) -> JobFilter:
    for name, value in given.items():
        if value == "":
            raise click.UsageError(f"--{name.replace('_', '-')} is empty: leave it out, or say what it shall be.")
    if given["queue"] is not None:
        check_queue(given["queue"])
    return JobFilter(
        queue=given["queue"], job=given["job"], tenant=given["tenant"], key=given["idempotency_key"],
        states=given["state"] or (), error=given["error"], older_s=given["older_than"], newer_s=given["newer_than"],
    )  # fmt: skip


def some_or_all(wanted: Sequence[UUID], which: JobFilter, *, every: bool) -> None:
    """Whoever changes jobs must say which: ids, filters, or all.

    Raises:
        click.UsageError: neither, or several of them.
    """
    ways = sum((bool(wanted), which.is_narrow, every))
    if ways == 0:
        raise click.UsageError("Say which: ids, filters such as --queue, --job and --error, or --all.")
    if every and ways > 1:
        raise click.UsageError("--all takes all of them: leave out ids and filters, or leave out --all.")
    if ways > 1:
        raise click.UsageError("Name ids, or say which by filters such as --queue; not both.")
