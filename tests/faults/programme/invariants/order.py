"""Publication: in the order of commits, by the holder of the queue alone; and one dispatch an occurrence."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from tests.faults.programme.facts import Asked, Facts, Run, told
from tests.faults.programme.plan import Kind

_STRAIGHT: tuple[Kind, ...] = (
    "plain", "threaded", "failing", "doomed", "snoozing", "durable", "paying", "awaiting", "parent", "long", "dying",
)  # fmt: skip
"""Kinds whose jobs go straight into their stream, and start from the entry that they were published with."""
LATE_S = 0.5
"""Between the look at the lease and the mark, in one statement."""


def publications_keep_the_order_of_commits(facts: Facts) -> list[str]:
    """Promise 4, by the entries in Redis: what had committed before another began stands before it, in its queue.

    Only first deliveries of first publications count: what was published again, or started again, has another entry.
    """
    wrong = []
    for queue, placed in _placed(facts).items():
        by_deal: defaultdict[str, list[tuple[Asked, Run]]] = defaultdict(list)
        for ask, run in placed:
            by_deal[ask.deal].append((ask, run))
        for pairs in by_deal.values():
            pairs.sort(key=lambda pair: pair[0].place)
            wrong += [
                f"{queue}: {one.id} was staged before {other.id} in one transaction, and stands behind it"
                for (one, before), (other, behind) in pairwise(pairs)
                if _entry(before) > _entry(behind)
            ]
        wrong += _out_of_line(queue, placed)
    return [told(wrong)] if wrong else []


def _placed(facts: Facts) -> dict[str, list[tuple[Asked, Run]]]:
    found: defaultdict[str, list[tuple[Asked, Run]]] = defaultdict(list)
    for ask in facts.committed(*_STRAIGHT):
        for run in facts.runs_by_job.get(ask.id, ())[:1]:
            if (run.start, run.number, run.attempt, run.life) == (1, 1, 1, 0):
                found[ask.queue].append((ask, run))
    return found


def _out_of_line(queue: str, placed: list[tuple[Asked, Run]]) -> list[str]:
    """Those that stand behind one whose transaction began after theirs had committed."""
    done = sorted(
        (pair for pair in placed if pair[0].ended is not None and pair[0].fate == "committed"),
        key=lambda pair: pair[0].ended or 0,
    )
    begun = sorted(placed, key=lambda pair: pair[0].began)
    wrong: list[str] = []
    furthest: tuple[Asked, Run] | None = None
    at = 0
    for ask, run in begun:
        while at < len(done) and (done[at][0].ended or 0) < ask.began:
            if furthest is None or _entry(done[at][1]) > _entry(furthest[1]):
                furthest = done[at]
            at += 1
        if furthest is not None and _entry(furthest[1]) > _entry(run):
            wrong.append(f"{queue}: {furthest[0].id} had committed before {ask.id} began, and stands behind it")
    return wrong


def _entry(run: Run) -> tuple[int, int]:
    ms, _, number = run.entry.partition("-")
    return int(ms), int(number)


def no_stale_relay_marks(facts: Facts) -> list[str]:
    """R3: who marks a row holds its queue, and its lease has not lapsed."""
    wrong = []
    for mark in facts.marked:
        pids = facts.pids.get(mark.by, set())
        holder = int(mark.holder.split("-")[-2]) if mark.holder else None
        if holder not in pids:
            wrong.append(f"{mark.id} was marked by {mark.by} ({sorted(pids)}), and {mark.queue} was {mark.holder}'s")
        elif mark.late > LATE_S:
            wrong.append(f"{mark.id} was marked by {mark.by} {mark.late:.1f} s after its lease had ended")
    return [told(wrong)] if wrong else []


def each_occurrence_is_dispatched_once(facts: Facts) -> list[str]:
    """Promise 8: of a schedule that is due each second and catches up, none twice and none missing."""
    found = Counter(row.occurrence for row in facts.staged if row.occurrence is not None)
    times = sorted(found)
    wrong = [f"{at:.0f} was dispatched {count} times" for at, count in found.items() if count > 1]
    wrong += [f"none between {one:.0f} and {other:.0f}" for one, other in pairwise(times) if other - one > 1]
    return [told(wrong)] if wrong else []
