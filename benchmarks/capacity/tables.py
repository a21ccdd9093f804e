"""The tables of `docs/capacity.md`, from the results: each stands between two comments that bear its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.capacity.checking import Check
from benchmarks.capacity.results import Results
from benchmarks.report import number

PAGE = Path(__file__).parents[2] / "docs" / "capacity.md"
SAFE = 0.7
"""The part of a core up to which a single thread still answers quickly."""
STARVED = " (too slow here to ask as often as they should)"
TOGETHER = 34
"""Jobs in a call of a worker that has 100 slots and enough to do."""


def table(heads: Sequence[str], rows: Iterable[Sequence[str | float | int]]) -> str:
    """In Markdown; a number shows three digits that count."""
    lines = [heads, ["---"] * len(heads), *([_shown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shown(cell: str | float) -> str:
    if isinstance(cell, str):
        return cell
    return f"{cell:,}" if isinstance(cell, int) else number(cell)


def machine(results: Results) -> str:
    """Where the figures are from."""
    return table(("machine", ""), results.machine.items())


def taken(results: Results) -> str:
    """When each part was measured."""
    return table(("measured", "when, of which commit, beside which load"), results.taken.items())


def jobs(results: Results) -> str:
    """CPU, calls and commands of a job."""
    heads = (
        "kind of job", "relay µs", "worker µs", "Postgres µs", "Redis µs", "scripts", "commands in them",
        "rows written", "WAL of the enqueue", "WAL of the rest",
    )  # fmt: skip
    return table(
        heads,
        (
            (
                each.name,
                *(each.carried[f"cpu {role}"] * 1e6 for role in ("relay", "worker", "postgres", "redis")),
                each.carried["scripts"], each.carried["commands"], each.staged["rows"] + each.carried["rows"],
                f"{each.staged['wal']:,.0f} B", f"{each.carried['wal']:,.0f} B",
            )
            for each in results.kinds
        ),
    )  # fmt: skip


def memory(results: Results) -> str:
    """What a job takes while it waits, and once it has ended."""
    heads = ("kind of job", "Redis, while it waits", "Postgres, once it has ended")
    rows = ((each.name, f"{each.waiting_bytes:,.0f} B", f"{each.kept_bytes:,.0f} B") for each in results.kinds)
    return table(heads, rows)


def connections(results: Results) -> str:
    """By role."""
    return table(
        ("process", "Postgres", "Redis"), ((each.role, each.postgres, each.redis) for each in results.connections)
    )


def turns(results: Results) -> str:
    """Queues with one job each."""
    heads = (
        "queues with one job each", "turns a queue", "relay ms a queue", "Postgres ms a queue", "Redis ms a queue",
        "relay ms a turn",
    )  # fmt: skip
    rows: list[tuple[str | float, ...]] = [
        (
            f"{each.queues:,}, {word}", used["turns"] / each.queues,
            *(used[f"cpu {role}"] / each.queues * 1e3 for role in ("relay", "postgres", "redis")),
            used["cpu relay"] / max(1.0, used["turns"]) * 1e3,
        )
        for each in results.turned
        for word, used in (("never seen before", each.opened), ("known", each.known))
    ]  # fmt: skip
    return table(heads, rows)


def resting_relays(results: Results) -> str:
    """A pair of relays with many queues."""
    heads = (
        "queues", "relays, % of a core", "Postgres, % of a core", "Redis, % of a core", "transactions/s",
        "rows written/s", "WAL/s", "commands/s", "Redis a queue", "a relay's memory",
        "relay's CPU until all are open",
    )  # fmt: skip
    return table(
        heads,
        (
            (
                each.count, *(each.second[f"cpu {role}"] * 100 for role in ("relay", "postgres", "redis")),
                each.second["transactions"], each.second["rows"], f"{each.second['wal'] / 1e3:,.1f} kB",
                each.second["commands"], f"{each.redis_bytes:,.0f} B", f"{each.resident_mb:,.0f} MB",
                f"{each.opening['cpu relay']:,.1f} s",
            )
            for each in results.relays
        ),
    )  # fmt: skip


def resting_workers(results: Results) -> str:
    """Workers that have nothing to do."""
    heads = (
        "workers", "queues each", "scripts/s", "commands in them/s", "Redis, % of a core",
        "all workers, % of a core", "Redis connections", "Postgres connections", "Redis a worker",
    )  # fmt: skip
    return table(
        heads,
        (
            (
                f"{each.count:,}{STARVED if each.starved else ''}", each.each, each.second["scripts"],
                each.second["commands"], each.second["cpu redis"] * 100,
                each.second["cpu worker"] * 100, each.redis_connections, each.postgres_connections,
                f"{each.redis_bytes / 1e3:,.1f} kB",
            )
            for each in results.workers
        ),
    )  # fmt: skip


def costs(results: Results) -> str:
    """What the simulation is told."""
    known = results.need_costs()
    rows = [
        (what, each * 1e6, call * 1e6)
        for what, each, call in (
            ("relay: a row; a turn on a queue", known.relay_row.each, known.relay_row.call),
            ("Postgres: a row; a turn", known.postgres_row.each, known.postgres_row.call),
            ("Redis: a row; a turn", known.redis_row.each, known.redis_row.call),
            ("worker: a job; a call of take or finish", known.worker_work.each, known.worker_work.call),
            ("Redis: a job; a call of take or finish", known.redis_work.each, known.redis_work.call),
            ("settling an outcome: relay; Postgres", known.relay_outcome, known.postgres_outcome),
            ("a queue at a look of its relay: relay; Postgres", known.relay_look, known.postgres_look),
            ("a queue that is served, a second: worker; Redis", known.worker_rest, known.redis_rest),
        )
    ]
    return table(("in µs of CPU", "first", "second"), rows)


def checks(results: Results) -> str:
    """Predicted and observed."""
    heads = ("run", "figure", "predicted", "observed", "apart", "may be", "holds")
    return table(
        heads,
        (
            (
                each.run, each.what, each.predicted, each.observed, f"{each.predicted / each.observed - 1:+.0%}",
                *_verdict(each),
            )
            for each in results.all_checks()
        ),
    )  # fmt: skip


def _verdict(check: Check) -> tuple[str, str]:
    if check.tolerance is None:
        return "anything", ""
    return f"± {check.tolerance:.0%}", "yes" if check.holds else "**no**"


def ceilings(results: Results) -> str:
    """What one thread of each carries at most, by itself, and with room left."""
    known = results.need_costs()
    redis = known.redis_row.each + known.redis_outcome
    together, alone = 2 / TOGETHER, 2.0  # a take and a finish
    rows = (
        ("one relay: publish and settle", known.relay_row.each + known.relay_outcome),
        ("one worker process of 100 slots, bodies of nothing", known.worker_work.of(1, together)),
        (f"one Redis, calls of {TOGETHER} jobs", redis + known.redis_work.of(1, together)),
        ("one Redis, each job with calls of its own", redis + known.redis_work.of(1, alone)),
        ("one core of Postgres, without producers", known.postgres_row.each + known.postgres_outcome),
    )
    return table(
        ("what", "CPU a job, µs", "jobs/s at a whole core", f"at {SAFE:.0%} of it"),
        ((what, cost * 1e6, 1 / cost, SAFE / cost) for what, cost in rows),
    )


def forecasts(results: Results) -> str:
    """Fleets that do not fit here."""
    heads = (
        "fleet", "queues", "slots", "body", "jobs/s at most", "used most", "for", "Redis at rest, % of a core",
        "Redis connections",
    )  # fmt: skip
    return table(
        heads,
        (
            (
                each.name, each.queues, each.slots, f"{each.body_s * 1e3:.0f} ms", each.rate, each.busiest,
                f"{each.load:.0%}", each.redis_rest * 100, round(each.connections),
            )
            for each in results.forecasts
        ),
    )  # fmt: skip


TABLES: dict[str, Callable[[Results], str]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        machine, taken, jobs, memory, connections, turns, resting_relays, resting_workers, costs, checks, ceilings,
        forecasts,
    )
}  # fmt: skip


def filled(page: str, results: Results) -> str:
    """The page with all of its tables made anew.

    Raises:
        ValueError: it lacks one of them, or has one that nobody makes.
    """
    named = re.findall(r"<!-- table (\S+) -->", page)
    if sorted(named) != sorted(TABLES):
        raise ValueError(f"the page has the tables {sorted(named)}, and there are {sorted(TABLES)}")

    def put(found: re.Match[str]) -> str:
        return f"{found[1]}\n\n{TABLES[found[2]](results)}\n\n<!-- end -->"

    return re.sub(r"(<!-- table (\S+) -->)\n.*?<!-- end -->", put, page, flags=re.DOTALL)
