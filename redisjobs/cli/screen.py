"""What `redisjobs top` draws of a snapshot: three tables that fit the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from redisjobs.broker.presence import Presence
from redisjobs.cli import render
from redisjobs.snapshots import MOST_ROWS, QueueNow, Snapshot

FULL_WIDTH = 100
"""From so many columns on everything is shown; on fewer what is marked so is left out."""
GAP = 2
"""Columns of the terminal between two of a table."""
CHROME = 13
"""Lines that are no rows: title, heads, empty ones, and how many more there are."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the queues' table; a wide one needs a wide terminal."""

    head: str
    cell: Callable[[QueueNow], str | None]
    wide: bool = False


def number(value: float | None, most: int | None = None) -> str | None:
    """A count in at most five characters; one that was cut off at `most` says so."""
    if value is None:
        return None
    mark = "+" if most is not None and value >= most else ""
    for size, unit in ((1_000_000, "M"), (10_000, "k")):
        if value >= size:
            divisor = 1000 if unit == "k" else size
            return f"{value / divisor:.0f}{unit}{mark}"
    return f"{value:.0f}{mark}" if value == int(value) or value >= 100 else f"{value:.1f}"


def span(seconds: float | None) -> str | None:
    """A distance in time in at most five characters; nothing where it is none."""
    if seconds is None:
        return None
    if seconds < 0.0005:
        return ""
    if seconds < 0.1:
        return f"{seconds * 1000:.0f}ms"
    for size, unit in ((86_400.0, "d"), (3600.0, "h"), (60.0, "m")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.1f}s" if seconds < 10 else f"{seconds:.0f}s"


def _running(queue: QueueNow) -> str | None:
    if queue.running is None:
        return None
    return f"{number(queue.running)}/{number(queue.slots)}"


COLUMNS = (
    Column("staged", lambda q: number(q.staged, MOST_ROWS)),
    Column("lag", lambda q: span(q.staged_s), wide=True),
    Column("ready", lambda q: number(q.ready)),
    Column("oldest", lambda q: span(q.ready_s)),
    Column("due", lambda q: number(q.due)),
    Column("lane", lambda q: number(q.behind) if q.behind else "", wide=True),
    Column("limit", lambda q: number(q.limited) if q.limited else "", wide=True),
    Column("run/slots", _running),
    Column("in/s", lambda q: number(q.in_per_s)),
    Column("out/s", lambda q: number(q.out_per_s)),
    Column("start", lambda q: span(q.start_s), wide=True),
    Column("run", lambda q: span(q.run_s), wide=True),
    Column("dead", lambda q: number(q.dead, MOST_ROWS)),
)


def draw(snapshot: Snapshot, width: int, height: int, keys: str = "") -> RenderableType:
    """The whole screen.

    Args:
        height: lines; rows that do not fit are counted, and those that do most stay.
        keys: what may be pressed.
    """
    workers = snapshot.workers or []
    told = notes(snapshot)[: max(1, height // 6)]
    room = max(3, height - CHROME - len(snapshot.errors) - len(told))
    rows = _share(room, [len(snapshot.queues), len(snapshot.relays), len(workers)])
    head = Text(f"redisjobs top  {snapshot.at.astimezone():%H:%M:%S}", style="bold")
    parts: list[RenderableType] = [Text.assemble(head, ("   " + keys, "dim"))]
    parts += [_trouble(store, str(error)) for store, error in snapshot.errors.items()]
    parts += [Text(), _queues(snapshot.queues, width, rows[0])]
    parts += [Text(note, style="yellow", no_wrap=True, overflow="ellipsis") for note in told]
    parts += [Text(), _relays(snapshot, width, rows[1]), Text(), _workers(snapshot.workers, width, rows[2])]
    return Group(*parts)


def _trouble(store: str, error: str) -> Text:
    words = render.printable(f"{store.title()} is DOWN: {error}".replace("\n", " "))
    return Text(words, style="bold red", no_wrap=True, overflow="ellipsis")


def notes(snapshot: Snapshot) -> list[str]:
    """What is out of the ordinary, a line a queue."""
    told: list[str] = []
    for each in snapshot.queues:
        words = ["PAUSED"] if each.paused else []
        words += ["FAILING: see redisjobs outbox"] if each.failing else []
        words += ["no relay holds it"] if each.holder == "" and each.staged else []
        words += ["no worker serves it"] if each.workers == 0 and each.ready else []
        words += [
            f"{count} {what}" for what, count in (("parked", each.parked), ("set aside", each.set_aside)) if count
        ]
        told += [f"{each.queue}: {', '.join(words)}"] if words else []
    return told


def _queues(queues: Sequence[QueueNow], width: int, most: int) -> Table:
    columns = [each for each in COLUMNS if width >= FULL_WIDTH or not each.wide]
    busiest = sorted(queues, key=lambda each: (-(each.in_per_s or 0) - (each.out_per_s or 0), -(each.ready or 0)))
    shown = sorted(busiest[:most], key=lambda each: each.queue)
    rows = [[each.queue, *(column.cell(each) for column in columns)] for each in shown]
    return _table(width, ["queue", *(each.head for each in columns)], rows, len(queues) - len(shown))


def _relays(snapshot: Snapshot, width: int, most: int) -> Table:
    shown = snapshot.relays[:most]
    rows = [
        [
            each.relay,
            ",".join(each.queues),
            number(len(each.queues)),
            number(each.pending),
            span(each.lag_s),
            span(each.unsettled_s),
        ]
        for each in shown
    ]
    if not shown:
        rows.append(["not known" if "postgres" in snapshot.errors else "nobody"])
    heads = ["relay", "leads", "queues", "pending", "lag", "settle lag"]
    return _table(width, heads, rows, len(snapshot.relays) - len(shown), left=2)


def _workers(workers: Sequence[Presence] | None, width: int, most: int) -> Table:
    shown = sorted(workers or [], key=lambda each: (not each.is_there, -sum(each.running.values())))[:most]
    rows = [_worker(each) for each in shown] or [["not known" if workers is None else "nobody"]]
    heads = ["worker", "queues", "run/slots", "longest", "done", "up", "seen"]
    return _table(width, heads, rows, len(workers or []) - len(shown), left=2)


def _worker(worker: Presence) -> list[str | None]:
    state = "" if worker.state in ("running", "") else f"{worker.state} "
    state = state if worker.is_there else "GONE "
    slots = f"{number(sum(worker.running.values()))}/{number(sum(worker.slots.values()))}"
    seen = f"{span(worker.seen_s) or '0s'} ago"
    return [worker.worker_id, state + ",".join(worker.queues), slots, span(worker.oldest_s), number(worker.processed),
            span(worker.up_s), seen]  # fmt: skip


def _table(width: int, heads: Sequence[str], rows: Sequence[Sequence[str | None]], rest: int, left: int = 1) -> Table:
    """Names stand left and share what room there is; figures stand right and are whole."""
    widths = [
        max(len(head), *(len(row[at] or "-") for row in rows if at < len(row)), 0) for at, head in enumerate(heads)
    ]
    room = max(8 * left, width - sum(each + GAP for each in widths[left:]))
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for at, head in enumerate(heads):
        if at < left:
            own = min(widths[at], max(8, room // (left - at) - GAP))
            room -= own + GAP
            made.add_column(head, overflow="ellipsis", no_wrap=True, width=own)
        else:
            made.add_column(head, justify="right", no_wrap=True, width=widths[at])
    for row in rows:
        made.add_row(*(Text("-", style="dim") if value is None else Text(render.printable(value)) for value in row))
    if rest > 0:
        made.add_row(Text(f"{rest} more", style="dim"))
    return made


def _share(room: int, wanted: list[int]) -> list[int]:
    """Lines for each table: all where all fit, else fair shares; what one does not need goes to the others."""
    given = [0] * len(wanted)
    while room > 0 and any(has < want for has, want in zip(given, wanted, strict=True)):
        for at, want in enumerate(wanted):
            if room > 0 and given[at] < want:
                given[at] += 1
                room -= 1
    return [max(1, each) for each in given]
