"""`redisjobs dead replay`: redrives dead letters at a limited rate, and stops when they fail again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from uuid import UUID

import click

from redisjobs.base.durations import many
from redisjobs.cli import bulk, exits, render
from redisjobs.cli.filters import DRY_RUN, YES, filters
from redisjobs.cli.options import given, json_option, store_options
from redisjobs.errors import OptionError
from redisjobs.operator import Operator
from redisjobs.search import JobFilter, Search, pace

LOOK_S = 1.0
"""Between two looks at what became of those that were redriven."""


def moment(value: str) -> datetime:
    """A moment in ISO 8601, with its zone; without one it is UTC."""
    try:
        found = datetime.fromisoformat(value.strip())
    except ValueError:
        raise click.BadParameter(f"{value!r} is no moment: pass ISO 8601, such as 2026-03-01T12:00:00Z.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def checked(parse: Callable[[str], float]) -> Callable[[str], float]:
    """A type of an option, whose error says what is wrong."""

    def convert(value: str) -> float:
        try:
            return parse(value)
        except OptionError as error:
            raise click.BadParameter(str(error)) from None

    convert.__name__ = parse.__name__
    return convert


class Replay:
    """One run: takes dead letters in the order in which they died, piece by piece, and watches what becomes of them.

    Args:
        until: none that died later.
        most: the share of failures above which it stops; None: whatever happens.
    """

    def __init__(
        self, search: Search, operator: Operator, its_pace: pace.Pace, *, until: datetime, most: float | None,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.watch = pace.Watch()
        self.redriven = 0
        self._search, self._operator = search, operator
        self._pace, self._until, self._most, self._say = its_pace, until, most, say
        self._look_at = 0.0

    def run(self, ids: Iterator[UUID]) -> bool:
        """Go through them; False: too many failed again, and the rest was left."""
        for piece in bulk.in_pieces(ids, self._pace.at_once):
            while (wait_s := self._pace.wait_s(time.monotonic())) > 0:
                if not self._look():
                    return False
                time.sleep(min(wait_s, LOOK_S))
            self.redriven += self._operator.redrive(piece, self._until)
            self.watch.add(piece)
            self._pace.went(len(piece), time.monotonic())
            if not self._look():
                return False
        return self._look(now=True)

    def _look(self, *, now: bool = False) -> bool:
        if now or time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_S
            self.watch.learn(self._search.fates(list(self.watch.ids)))
            self._say(f"{self.redriven} redriven; {self.watch}")
        return not self.watch.too_many(self._most)


@click.command(
    "replay",
    epilog="""\b
Examples:
  redisjobs dead replay --rate 50/s --queue mail --dry-run
  redisjobs dead replay --rate 50/s --error TimeoutError
  redisjobs dead replay --rate 30/m --all --stop-on-failures 5%

\b
It looks every second at the last 1000 that it redrove. A job counts as failed when an attempt fails or it is dead
again, and as ended when it is neither that nor under way. Nothing is remembered between runs: Ctrl-C says which
command goes on with the rest, and leaves out what failed again.
Exit codes: 0 all were redriven, 1 it stopped because too many failed again, 130 interrupted.""",
)
@filters(age_of="died")
@click.option("--all", "every", is_flag=True, help="All of them.")
@click.option(
    "--rate", type=checked(pace.rate), required=True, metavar="N/s", help="At most so many: 50/s, 30/m, 100/h."
)
@click.option("--stop-on-failures", type=checked(pace.share), default="50%", show_default=True, metavar="SHARE",
              help="Stop when more than this share fails again, once 20 are known; 100%: never.")  # fmt: skip
@click.option("--died-before", type=moment, metavar="TIME", help="None that died later; by default now.")
@DRY_RUN
@YES
@json_option
@store_options
def replay(
    *, which: JobFilter, every: bool, rate: float, stop_on_failures: float, died_before: datetime | None,
    dry_run: bool, yes: bool, as_json: bool,
) -> None:  # fmt: skip
    """Redrive dead letters at a limited rate; stops by itself when they fail again."""
    if which.is_narrow == every:
        raise click.UsageError("Say which: filters such as --queue, --job and --error, or --all.")
    settings = given().settings()
    url, schema = settings.need_database_url(), settings.schema
    with Search(url, schema) as search, Operator(url, schema) as operator:
        until = min(died_before, search.began) if died_before else search.began
        ids = (each for _, each in search.deaths(which, until=until))
        found = bulk.count(ids, lambda: search.count_deaths(which, until=until))
        lasts = render.age(found.count / rate)
        if dry_run:
            document = {"fit": found.count, "sample": found.sample, "dry_run": True, "lasts_s": found.count / rate}
            bulk.tell_sample(found, "dead letter", f"would be redriven within {lasts}", document if as_json else None)
            return
        bulk.confirm(f"redrive {many(found.count, 'dead letter')} within {lasts}?", found.count, yes=yes)
        most = stop_on_failures if stop_on_failures < 1 else None
        run = Replay(search, operator, pace.Pace(rate), until=until, most=most, say=_teller())
        try:
            went_through = run.run(each for _, each in search.deaths(which, until=until))
        except KeyboardInterrupt:
            raise bulk.interrupted("redriven", run.redriven, found.count, _how_to_go_on(until)) from None
    _conclude(run, found.count, until, went_through=went_through, as_json=as_json)


def _conclude(run: Replay, total: int, until: datetime, *, went_through: bool, as_json: bool) -> None:
    watch = run.watch
    if as_json:
        render.as_json({"fit": total, "done": run.redriven, "stopped": not went_through, "ended": watch.ended,
                        "failed_again": watch.failing, "under_way": watch.under_way})  # fmt: skip
    else:
        click.echo(f"{many(run.redriven, 'dead letter')} redriven; {watch}")
    if not went_through:
        raise exits.Fault(
            f"stopped: too many fail again ({watch}); {many(max(0, total - run.redriven), 'is left', 'are left')}. "
            f"Look at one with `redisjobs dead list` and `dead show ID`, mend it, then: {_how_to_go_on(until)}"
        )


def _how_to_go_on(until: datetime) -> str:
    return f"the same command with --died-before {until.astimezone(UTC).isoformat()} goes on with the rest alone"


def _teller() -> Callable[[str], None]:
    """Says how far it is: on one line of a terminal, else now and then."""
    said_at = time.monotonic()

    def say(text: str) -> None:
        nonlocal said_at
        if sys.stderr.isatty():
            with suppress(OSError):
                sys.stderr.write(f"\r\x1b[2K{text}")
                sys.stderr.flush()
        elif time.monotonic() - said_at >= bulk.LINE_S:
            said_at = time.monotonic()
            click.echo(text, err=True)

    return say
