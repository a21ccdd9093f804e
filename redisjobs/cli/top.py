"""`redisjobs top`: what goes on now, drawn again and again."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Generator
from dataclasses import asdict
from typing import Any

import click
from rich.console import Console
from rich.live import Live

from redisjobs.cli import exits, render
from redisjobs.cli.options import duration, given, store_options
from redisjobs.cli.screen import draw
from redisjobs.snapshots import Snapshot, Snapshots

SHORTEST_S = 0.2
KEY_S = 0.1
FIRST_S = 1.0
"""Between the two looks of --once, which it takes to know a rate; less where the interval is shorter."""
SHARE = 10
"""On a terminal, after a look comes a pause of so many times its length: watching must not keep a store busy."""
KEYS = "q quits"


@click.command(
    epilog="""\b
Examples:
  redisjobs top
  redisjobs top --interval 5s
  redisjobs top --once                          one look, for a ticket
  redisjobs top --once --json | jq '.queues[] | select(.ready_s > 60)'
  redisjobs top --json >> flow.jsonl            a line each interval

\b
in/s counts jobs that began to wait, retries included; out/s attempts that ended; both need Redis 7 or newer.
start is the time from commit (or due time) to start, of a few jobs that started last; run is the average of an
attempt. Counts of rows stop at 10 000. A store that is down is named, and asked again.
Exit codes: 0 done; with --once 69 where a store is down, 78 where the tables are missing or a login is refused."""
)
@click.option("--interval", type=duration, default="2s", show_default=True, help="Between two looks, at least 200ms.")
@click.option("--once", is_flag=True, help="One look, then end.")
@click.option("--json", "as_json", is_flag=True, help="A JSON document a line, one each look.")
@store_options
def top(*, interval: float, once: bool, as_json: bool) -> None:
    """Live: queues with their rates and ages, relays, workers."""
    if interval < SHORTEST_S:
        raise click.BadParameter(f"{interval:g} s is too short: pass at least 200ms.", param_hint="--interval")
    snapshots = Snapshots(given().settings())
    if not (once or as_json) and sys.stdout.isatty() and sys.stdin.isatty():
        _on_the_terminal(snapshots, interval)
        return
    with contextlib.closing(snapshots):
        if once:
            _once(snapshots, min(FIRST_S, interval), as_json=as_json)
        else:
            _in_lines(snapshots, interval, as_json=as_json)


def document(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as JSON; null is what was not told."""
    workers = snapshot.workers
    return {
        "at": snapshot.at,
        "errors": {store: str(error) for store, error in snapshot.errors.items()},
        "queues": [asdict(each) for each in snapshot.queues],
        "relays": [asdict(each) for each in snapshot.relays],
        "workers": None if workers is None else [asdict(each) | {"is_there": each.is_there} for each in workers],
    }


def _once(snapshots: Snapshots, pause: float, *, as_json: bool) -> None:
    snapshots.look()
    threading.Event().wait(pause)
    seen = snapshots.look()
    _tell(seen, as_json=as_json)
    for error in seen.errors.values():
        raise click.exceptions.Exit(exits.code_of(error))


def _in_lines(snapshots: Snapshots, interval: float, *, as_json: bool) -> None:
    """Below each other, until Ctrl-C or until nobody reads any more."""
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        while True:
            _tell(snapshots.look(), as_json=as_json)
            sys.stdout.flush()
            threading.Event().wait(interval)


def _tell(snapshot: Snapshot, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(document(snapshot), default=render.plain, ensure_ascii=False))
    else:
        render.show(draw(snapshot, render.PIPE_WIDTH, 10_000))


class _Looks:
    """Looks in a thread, so that keys are obeyed while a store keeps one waiting."""

    def __init__(self, snapshots: Snapshots, interval: float) -> None:
        self.latest: Snapshot | None = None
        self._snapshots, self._interval = snapshots, interval
        self._thread = threading.Thread(target=self._run, name="redisjobs-top", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            self.latest = self._snapshots.look()
            took = 0.0 if self.latest.errors else time.monotonic() - began
            threading.Event().wait(max(self._interval, SHARE * took))


def _on_the_terminal(snapshots: Snapshots, interval: float) -> None:
    console = Console()
    looks, drawn, size = _Looks(snapshots, interval), None, None
    with (
        contextlib.suppress(KeyboardInterrupt),
        _keys() as key,
        Live(f"looking…  {KEYS}", console=console, screen=True, auto_refresh=False) as live,
    ):
        while key() not in ("q", "Q"):
            if looks.latest is not None and (looks.latest is not drawn or console.size != size):
                drawn, size = looks.latest, console.size
                live.update(draw(drawn, size.width, size.height, KEYS), refresh=True)


@contextlib.contextmanager
def _keys() -> Generator[Callable[[], str]]:
    """Keys without their Enter, and without showing them; the terminal is as it was afterwards."""
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    tty.setcbreak(file)

    def key() -> str:
        """The key that was pressed within a moment, or nothing; a terminal that is gone counts as `q`."""
        if not select.select([file], [], [], KEY_S)[0]:
            return ""
        return os.read(file, 1).decode(errors="replace") or "q"

    try:
        yield key
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)
