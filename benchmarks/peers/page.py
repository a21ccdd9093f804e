"""The tables and drawings of docs/peers.md, made from results alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.peers import plots
from benchmarks.peers.plots import shown
from benchmarks.peers.results import Pair, Record, Results
from benchmarks.peers.table import DIRECT, OURS, ROAD

DOCS = Path(__file__).parents[2] / "docs"
KEPT = Path(__file__).parents[1] / "results" / "peers.json"
"""The results that the page in the repository was made from."""

_BEGIN, _END = "<!-- found: {} -->", "<!-- /found -->"
_NOTHING = "–"
_UNMEASURED = "Not measured in this run."

DRAWN: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "drain": ("Draining a full queue, one worker process", "jobs/s", ("rate",), "medians of all rounds"),
    "flow": ("Working while a producer enqueues as fast as it can", "jobs/s", ("rate",), "medians of all rounds"),
    "latency": ("Latency of single jobs at a moderate rate", "ms", ("p50", "p95", "p99"), "p50, p95, p99"),
    "steps": ("Durable runs of five recorded steps, ten slots", "runs/s", ("rate",), "medians of all rounds"),
}
"""Measure to what its drawing is called, its unit, the figures that are drawn, and a note."""


def write(results: Results, docs: Path = DOCS, kept: Path = KEPT) -> None:
    """Put tables and drawings into the page, and keep the results that they come from."""
    results.write(kept)
    page = docs / "peers.md"
    page.write_text(filled(page.read_text(), results))
    folder = docs / "peers"
    folder.mkdir(exist_ok=True)
    for stale in folder.glob("*.svg"):
        stale.unlink()
    for name, text in drawings(results).items():
        (folder / name).write_text(text)


def filled(page: str, results: Results) -> str:
    """The page with each table between its marks made anew.

    Raises:
        ValueError: a table has no place in it.
    """
    for name, table in SECTIONS.items():
        mark = _BEGIN.format(name)
        if mark not in page:
            raise ValueError(f"the page has no {mark}")
        before, _, rest = page.partition(mark)
        after = rest.partition(_END)[2]
        page = f"{before}{mark}\n\n{table(results)}\n\n{_END}{after}"
    return page


def tables(results: Results) -> str:
    """All tables, for a terminal."""
    return "\n\n".join(table(results) for table in SECTIONS.values())


def drawings(results: Results) -> dict[str, str]:
    """File name to drawing, of what was measured."""
    made: dict[str, str] = {}
    for measure, (title, unit, words, note) in DRAWN.items():
        found = ((peer, [results.pair(measure, peer, word) for word in words]) for peer in results.peers(measure))
        if rows := [row for peer, pairs in found if (row := _row(peer, pairs))]:
            made[f"{measure}.svg"] = plots.drawing(title, unit, rows, note=note)
    return made


def _row(peer: str, pairs: Sequence[Pair | None]) -> plots.Row | None:
    found = [pair for pair in pairs if pair is not None]
    if len(found) < len(pairs):
        return None
    return plots.Row(peer, tuple(pair.their_median for pair in found), tuple(pair.our_median for pair in found))


def _machine(results: Results) -> str:
    loads = [each.load for each in results.records if each.load]
    said = results.facts | {"rounds": str(1 + max((each.round for each in results.records), default=0))}
    if loads:
        said["load"] = (
            f"{min(loads):.0f} to {max(loads):.0f}, median {statistics.median(loads):.0f}: processes that want a core"
        )
    facts = [f"| {name} | {value} |" for name, value in said.items() if name != "load before"]
    return "\n".join(["| what | |", "|---|---|", *facts])


def _drivers(results: Results) -> str:
    rows = [
        f"| {_named(name)} | {_packages(facts['packages'])} | {facts['settings']} | {facts['default']} | "
        f"{_link(facts['source'])} |"
        for name, facts in results.drivers.items()
    ]
    head = ["| who | versions | set up as | a dead worker's job by default | source |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def _packages(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _link(source: str) -> str:
    url, _, rest = source.partition(" ")
    return f"<{url}> {rest}".strip() if url.startswith("http") else f"[{source}]({source})"


def _paired(measure: str, words: Sequence[tuple[str, str]]) -> Callable[[Results], str]:
    """A table of peers and redisjobs beside them; each word with its title."""

    def table(results: Results) -> str:
        if not results.peers(measure):
            return _UNMEASURED
        titles = [part for _, title in words for part in (f"{title}: peer", "redisjobs", "ratio")]
        lines = [_line(["peer", *titles]), _line(["---"] * (len(titles) + 1))]
        for peer in results.peers(measure):
            cells = [cell for word, _ in words for cell in _pair_cells(results.pair(measure, peer, word))]
            lines.append(_line([peer, *cells]))
        if f"{measure}.svg" in drawings(results):
            lines[:0] = [f"![{DRAWN[measure][0]}](peers/{measure}.svg)", ""]
        return "\n".join(lines)

    return table


def _pair_cells(pair: Pair | None) -> list[str]:
    if pair is None:
        return [_NOTHING] * 3
    ratios = pair.ratios
    spread = f" ({shown(min(ratios))} to {shown(max(ratios))})" if len(ratios) > 1 else ""
    return [shown(pair.their_median), shown(pair.our_median), f"**{shown(pair.ratio)}**{spread}"]


def _alone(measure: str, words: Sequence[tuple[str, str]]) -> Callable[[Results], str]:
    """A table of what was measured alone; each word with its title."""

    def table(results: Results) -> str:
        if not results.peers(measure):
            return _UNMEASURED
        lines = [_line(["who", *(title for _, title in words)]), _line(["---"] * (len(words) + 1))]
        for name in [*results.peers(measure), *(each.name for each in OURS)]:
            records = results.of(measure, name)
            if records:
                lines.append(_line([_named(name), *(_cell(records, word) for word, _ in words)]))
        return "\n".join(lines)

    return table


def _cell(records: Sequence[Record], word: str) -> str:
    values = [value for each in records if isinstance(value := each.found.get(word), int | float)]
    if not values:
        return _NOTHING
    value = statistics.median(values)
    return shown(value) if value else "0"


def _named(name: str) -> str:
    return {ROAD.name: "**redisjobs**, in a transaction", DIRECT.name: "**redisjobs**, `enqueue_direct`"}.get(
        name, name
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


SECTIONS: dict[str, Callable[[Results], str]] = {
    "machine": _machine,
    "drain": _paired("drain", [("rate", "jobs/s"), ("cpu_us", "CPU µs a job")]),
    "flow": _paired("flow", [("rate", "jobs/s")]),
    "latency": _paired("latency", [("p50", "p50 ms"), ("p95", "p95 ms"), ("p99", "p99 ms")]),
    "steps": _paired("steps", [("rate", "runs/s")]),
    "backlog": _alone(
        "backlog",
        [
            ("waiting", "waiting"), ("small", "jobs/s of 1 000"), ("large", "jobs/s of all"), ("ratio", "ratio"),
            ("redis_bytes", "Redis, bytes a job"), ("postgres_bytes", "Postgres, bytes a job"),
            ("worker_mb", "worker, MB"),
        ],
    ),
    "kill": _alone(
        "kill",
        [
            ("interrupted", "interrupted"), ("again", "started again"), ("seconds", "after, s"),
            ("done", "all ended after, s"), ("missing", "not ended"), ("doubled", "ended twice"),
        ],
    ),
    "restart": _alone(
        "restart",
        [("seconds", "next start after, s"), ("worker_ended", "programs that ended"), ("missing", "not ended"),
         ("doubled", "ended twice")],
    ),
    "wipe": _alone(
        "wipe",
        [("seconds", "next start after, s"), ("worker_ended", "programs that ended"), ("missing", "lost"),
         ("doubled", "ended twice")],
    ),
    "drivers": _drivers,
}  # fmt: skip
"""Mark in the page to the table that stands there."""
