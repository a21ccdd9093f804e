"""What the demo says at its end."""

from __future__ import annotations

import json

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from redisjobs.base.durations import many
from redisjobs.cli.demo.audit import Verdict

SHOWN = 10
HOLDS = "Nothing was lost, nothing rolled back ran, each extra start has its fault."
HOLDS_CALM = "Nothing was lost, nothing rolled back ran, nothing started twice."
BROKEN = "A promise was broken. Please report it, with all of this and the seed."
NEXT = "Next: declare a job in shop.py, and run it: redisjobs dev --app shop:app"


def as_json(verdict: Verdict, rolled_back: int, seed: int) -> str:
    """The verdict as one object."""
    return json.dumps(
        {
            "committed": verdict.committed,
            "rolled_back": rolled_back,
            "done": verdict.done,
            "dead": verdict.dead,
            "lost": len(verdict.lost),
            "ran_from_rolled_back": len(verdict.ghosts),
            "unexplained_starts": len(verdict.unexplained),
            "p50_ms": _rounded(verdict.percentile(0.5)),
            "p99_ms": _rounded(verdict.percentile(0.99)),
            "jobs_per_s": round(verdict.jobs_per_s, 1),
            "retried": verdict.retried,
            "doubled": dict(verdict.doubled),
            "unsettled": verdict.unsettled,
            "seed": seed,
        }
    )


def show(console: Console, verdict: Verdict, rolled_back: int, *, calm: bool) -> None:
    """The verdict as a table, and one line on what to try next."""
    made = Table(box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(justify="right", no_wrap=True)
    made.add_column(overflow="fold")
    for name, number, why in _rows(verdict, rolled_back, calm=calm):
        made.add_row(name, Text(number, style="bold red" if _is_bad(name, number) else "bold"), Text(why))
    console.print(made)
    tell_troubles(console, verdict)
    said = (HOLDS_CALM if calm else HOLDS) if verdict.holds else BROKEN
    console.print(Text(said, style="bold green" if verdict.holds else "bold red"))
    console.print(Text(NEXT))


def tell_troubles(console: Console, verdict: Verdict) -> None:
    """A line on each promise that was broken, with what is needed to find out why."""
    for line in _troubles(verdict):
        console.print(Text(line, style="red"))


def _rows(verdict: Verdict, rolled_back: int, *, calm: bool) -> list[tuple[str, str, str]]:
    p50, p99 = (_shown(verdict.percentile(share)) for share in (0.5, 0.99))
    doubled = "\n".join(f"{count} {why}" for why, count in verdict.doubled.most_common())
    return [
        ("committed", f"{verdict.committed:,}", "orders, each with its mail in one transaction"),
        ("rolled back", f"{rolled_back:,}", "orders, by an exception or a savepoint"),
        ("done", f"{verdict.done:,}", f"retried: {verdict.retried:,}"),
        ("dead", f"{verdict.dead:,}", "every attempt failed: kept as dead letters"),
        ("lost", f"{len(verdict.lost):,}", "committed, and never run to an end"),
        ("ran from rolled back", f"{len(verdict.ghosts):,}", "mails of orders that never were"),
        ("doubled", f"{verdict.doubled.total():,}", doubled or "extra starts"),
        ("unexplained", f"{len(verdict.unexplained):,}", "extra starts without a fault"),
        ("commit to start", f"{p50} ms", f"p50; p99 {p99} ms{'' if calm else ', faults included'}"),
        ("jobs/s", f"{verdict.jobs_per_s:,.0f}", f"with {verdict.pace:,.0f} orders/s coming in"),
    ]


def _is_bad(name: str, number: str) -> bool:
    return name in ("lost", "ran from rolled back", "unexplained") and number != "0"


def _troubles(verdict: Verdict) -> list[str]:
    lines = [f"lost: order {order}" for order in verdict.lost[:SHOWN]]
    lines += [f"ran from a rolled back transaction: order {order}" for order in verdict.ghosts[:SHOWN]]
    for run in verdict.unexplained[:SHOWN]:
        at_s = run.started_ns / 1e9
        where = f"order {run.order_id}, attempt {run.attempt}, process {run.pid}, at {at_s:.3f}"
        lines.append(f"extra start without a fault: {where}")
    if verdict.unsettled:
        lines.append(f"{many(verdict.unsettled, 'job')} never came to an end in Postgres")
    return lines


def _shown(number: float | None) -> str:
    return "-" if number is None else f"{number:,.1f}"


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 2)
