"""The verdict: what the ledger says about every order, and whether the faults explain every extra start."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from redisjobs.cli.demo.faults import Fault
from redisjobs.cli.demo.ledger import Entry
from redisjobs.cli.demo.plan import MAX_ATTEMPTS

REPORTED_NS = 2_000_000_000
"""How long the end of a body may be under way to Postgres; a fault after that explains no second start."""
DELIVERED_NS = 1_000_000_000
"""How long a job may be under way from Redis to the start of its body: it was taken before the fault."""
WHY = {
    "killed": ("whose worker was killed", "whose worker was killed before it reported"),
    "emptied": ("that ran when Redis was emptied", "whose end was not in Postgres yet then"),
}
"""Why a body started again, where its run before was cut off, and where that run had ended."""
TAKEN = "that a worker had just taken when Redis was emptied"


@dataclass(slots=True)
class Run:
    """One start of a body.

    Args:
        ended_ns: None: it wrote no end.
        how: returned or raised; empty: neither.
    """

    order_id: int
    attempt: int
    pid: int
    started_ns: int
    ended_ns: int | None = None
    how: str = ""


@dataclass(slots=True)
class Verdict:
    """What became of the orders, by the ledger alone.

    Args:
        doubled: extra starts that a fault explains, by its explanation.
        unexplained: extra starts that none explains.
        ghosts: orders whose mail ran though they were rolled back.
        latencies_ms: from COMMIT to the first line of the body's first start, sorted.
        seconds: from the first COMMIT to the last end.
        pace: orders committed a second.
        unsettled: jobs that are still live in Postgres, though nothing moves any more.
    """

    committed: int
    done: int = 0
    dead: int = 0
    retried: int = 0
    lost: list[int] = field(default_factory=list[int])
    ghosts: list[int] = field(default_factory=list[int])
    doubled: Counter[str] = field(default_factory=Counter[str])
    unexplained: list[Run] = field(default_factory=list[Run])
    latencies_ms: list[float] = field(default_factory=list[float])
    seconds: float = 0.0
    pace: float = 0.0
    unsettled: int = 0

    @property
    def holds(self) -> bool:
        """Nothing was lost, nothing ran that was rolled back, and every extra start has its fault."""
        return not (self.lost or self.ghosts or self.unexplained or self.unsettled)

    @property
    def jobs_per_s(self) -> float:
        """Mails ended a second, from the first COMMIT to the last end."""
        return (self.done + self.dead) / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float | None:
        """The latency in ms that so many stay under; None: nothing started."""
        if not self.latencies_ms:
            return None
        return self.latencies_ms[min(len(self.latencies_ms) - 1, int(share * len(self.latencies_ms)))]


def judge(
    committed: Collection[int], sent_ns: Mapping[int, int], entries: Iterable[Entry], faults: Sequence[Fault]
) -> Verdict:
    """Compare what committed with what ran.

    Args:
        sent_ns: an order's commit.
    """
    runs = runs_of(entries)
    verdict = Verdict(len(committed), ghosts=sorted(runs.keys() - set(committed)))
    for order in committed:
        of_order = runs.get(order, [])
        if any(run.how == "returned" for run in of_order):
            verdict.done += 1
        elif any(run.how == "raised" and run.attempt == MAX_ATTEMPTS for run in of_order):
            verdict.dead += 1
        else:
            verdict.lost.append(order)
        if of_order and order in sent_ns:
            verdict.latencies_ms.append((of_order[0].started_ns - sent_ns[order]) / 1e6)
    for order, of_order in runs.items():
        _look_at_starts(of_order, sent_ns.get(order, 0), faults, verdict)
    verdict.latencies_ms.sort()
    verdict.pace = _pace(sent_ns.values())
    ends = [run.ended_ns for of_order in runs.values() for run in of_order if run.ended_ns]
    if ends and sent_ns:
        verdict.seconds = (max(ends) - min(sent_ns.values())) / 1e9
    return verdict


def _pace(sent_ns: Collection[int]) -> float:
    span_ns = max(sent_ns, default=0) - min(sent_ns, default=0)
    return len(sent_ns) * 1e9 / span_ns if span_ns else 0.0


def runs_of(entries: Iterable[Entry]) -> dict[int, list[Run]]:
    """The runs of each order, in the order of their starts."""
    found: dict[int, Run] = {}
    ends: list[Entry] = []
    for entry in entries:
        if entry.word == "started":
            found[entry.run] = Run(entry.order_id, entry.attempt, entry.pid, entry.at_ns)
        else:
            ends.append(entry)
    for entry in ends:
        found[entry.run].ended_ns, found[entry.run].how = entry.at_ns, entry.word
    runs: defaultdict[int, list[Run]] = defaultdict(list)
    for run in sorted(found.values(), key=lambda each: each.started_ns):
        runs[run.order_id].append(run)
    return runs


def _look_at_starts(runs: Sequence[Run], sent_ns: int, faults: Sequence[Fault], verdict: Verdict) -> None:
    unspent = list(faults)  # one fault explains one more start of an order and not two
    for at, run in enumerate(runs[1:], start=1):
        if _is_retry(run, runs[:at]):
            verdict.retried += 1
        elif found := _why(run, runs[at - 1], sent_ns, unspent):
            fault, why = found
            unspent.remove(fault)
            verdict.doubled[why] += 1
        else:
            verdict.unexplained.append(run)


def _is_retry(run: Run, before: Sequence[Run]) -> bool:
    """The attempt before it raised, none returned, and this attempt was not started before."""
    if any(each.how == "returned" or each.attempt >= run.attempt for each in before):
        return False
    return run.attempt <= MAX_ATTEMPTS and any(
        each.how == "raised" and each.attempt == run.attempt - 1 for each in before
    )


def _why(run: Run, before: Run, sent_ns: int, faults: Sequence[Fault]) -> tuple[Fault, str] | None:
    """The fault between two starts that made the second one necessary."""
    for fault in faults:
        if fault.pid and fault.pid != before.pid:
            continue
        if run.started_ns < fault.from_ns:
            continue
        if before.started_ns > fault.to_ns:
            if fault.kind == "emptied" and sent_ns < fault.to_ns and before.started_ns < fault.to_ns + DELIVERED_NS:
                return fault, TAKEN
            continue
        if before.ended_ns is None or before.ended_ns > fault.from_ns:
            return fault, WHY[fault.kind][0]
        if before.ended_ns > fault.from_ns - REPORTED_NS:
            return fault, WHY[fault.kind][1]
    return None
