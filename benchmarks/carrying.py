"""The relay by itself: publishing, settling, and publishing while an old transaction is open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from benchmarks import filling, programs
from benchmarks.bench import Bench
from benchmarks.figures import Figure, Target, ratio
from benchmarks.probe import probing
from benchmarks.stores import old_snapshot


def publish(bench: Bench) -> Iterator[Figure]:
    """Rows that are there already, against a prototype and on a table that Postgres knows nothing about."""
    ours, unknown, prototype = _Rates(), _Rates(), _Rates()
    for _ in bench.rounds:
        bench.stores.clear()
        filling.stage(bench.stores, bench.scale.jobs)
        ours.take(measured(bench, "publish"))
        bench.stores.clear()
        bench.stores.sql("ALTER TABLE redisjobs.outbox SET (autovacuum_enabled = off)")
        filling.stage(bench.stores, bench.scale.jobs, analyze=False)
        unknown.take(measured(bench, "publish"))
        bench.stores.clear()
        prototype.take(programs.answer_of("prototypes", "relay", bench.scale.jobs))
    yield ours.figure("publish, the relay alone", "rows/s")
    yield prototype.figure("… the prototype: select, add, mark", "rows/s")
    yield ratio("… against the prototype", ours.rates, prototype.rates, Target(0.5, loose=0.1))
    yield ratio("… never analyzed against analyzed", unknown.rates, ours.rates, Target(0.8, loose=0.2))


def settle(bench: Bench) -> Iterator[Figure]:
    """Outcomes that are there already."""
    found = _Rates()
    for _ in bench.rounds:
        bench.stores.clear()
        filling.stage(bench.stores, bench.scale.jobs)
        programs.answer_of("carrier", "publish", bench.scale.jobs)
        with probing(bench.folder, bench.scale.jobs) as probe, programs.worker(100):
            probe.wait_for(bench.scale.jobs)
        found.take(measured(bench, "settle"))
    yield found.figure("settle, the relay alone", "outcomes/s")


def held_snapshot(bench: Bench) -> Iterator[Figure]:
    """Publishing while a transaction stays open that is older than all of the rows."""
    rates: dict[str, list[float]] = {"nothing": [], "a reader": [], "a writer": []}
    for way, found in rates.items():
        bench.stores.clear()
        with ExitStack() as held:
            if way != "nothing":
                held.enter_context(old_snapshot(bench.stores, writes=way == "a writer"))
            filling.stage_in_sql(bench.stores, bench.scale.held)
            found.append(programs.answer_of("carrier", "publish", bench.scale.held)["rate"])
    yield Figure(f"publish {bench.scale.held:,} rows, nothing held", "rows/s", rates["nothing"])
    for way in ("a reader", "a writer"):
        target = Target(0.8, loose=0.2)
        yield ratio(f"… under {way}'s transaction that stays open", rates[way], rates["nothing"], target)


def measured(bench: Bench, what: str) -> dict[str, Any]:
    """Have a relay publish or settle the scale's jobs: its rate, and the CPU a job of it and of the servers."""
    before = bench.stores.cpu()
    answer = programs.answer_of("carrier", what, bench.scale.jobs)
    used = {name: seconds - before[name] for name, seconds in bench.stores.cpu().items()}
    return answer | {f"{name} µs": seconds / bench.scale.jobs * 1e6 for name, seconds in used.items()}


class _Rates:
    """The answers of all rounds."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []

    def take(self, answer: dict[str, Any]) -> None:
        """One more round."""
        self.answers.append(answer)

    @property
    def rates(self) -> list[float]:
        """What counts in them."""
        return [answer["rate"] for answer in self.answers]

    def figure(self, name: str, unit: str) -> Figure:
        """With the CPU of the last round as notes."""
        last = self.answers[-1]
        notes: dict[str, float | str] = {"relay µs": last["cpu_us"]}
        notes |= {key: value for key, value in last.items() if key.endswith("µs")}
        return Figure(name, unit, self.rates, notes=notes)
