"""The demo on a terminal: numbers that move, and the faults as they happen."""

from __future__ import annotations

import time
from collections import deque
from typing import Self

from rich import box
from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from redisjobs.cli.demo.progress import Progress

LINES = 8
RATE_OVER_S = 1.0


class Live:
    """Redraws one panel."""

    def __init__(self, console: Console) -> None:
        self._live = RichLive(console=console, auto_refresh=False)
        self._began = time.monotonic()
        self._said: deque[tuple[float, str]] = deque(maxlen=LINES)
        self._seen: deque[Progress] = deque([Progress()])

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, progress: Progress) -> None:
        """How far it is."""
        self._seen.append(progress)
        while len(self._seen) > 2 and self._seen[1].elapsed < progress.elapsed - RATE_OVER_S:
            self._seen.popleft()
        self._draw()

    def tell(self, what: str) -> None:
        """Something happened."""
        self._said.append((time.monotonic() - self._began, what))
        self._draw()

    def _draw(self) -> None:
        now = self._seen[-1]
        bar = ProgressBar(total=max(1, now.jobs), completed=now.ended)
        said = [Text.assemble((f"{at:5.1f} s  ", "dim"), (what, _style(what))) for at, what in self._said]
        title = "[bold]redisjobs demo[/bold]  committing an order is enqueuing its mail"
        parts = Group(_numbers(now, self._rate()), bar, Text(), *said)
        self._live.update(Panel(parts, title=title, title_align="left", box=box.ROUNDED, padding=(1, 2)), refresh=True)

    def _rate(self) -> float:
        first, last = self._seen[0], self._seen[-1]
        return (last.ended - first.ended) / max(0.001, last.elapsed - first.elapsed)


def _numbers(now: Progress, rate: float) -> Table:
    made = Table(box=None, expand=True, pad_edge=False, show_header=True, header_style="dim")
    cells = {
        "committed": (now.committed, "bold"), "rolled back": (now.rolled_back, "yellow"), "done": (now.done, "green"),
        "running": (now.running, "cyan"), "retrying": (now.retrying, "yellow"), "dead": (now.dead, "red"),
        "mails/s": (round(rate), "bold"),
    }  # fmt: skip
    for name in cells:
        made.add_column(name, justify="right")
    made.add_row(*(Text(f"{number:,}", style=style) for number, style in cells.values()))
    return made


def _style(what: str) -> str:
    return "bold red" if what.startswith(("SIGKILL", "FLUSHALL", "Redis lost")) else ""
