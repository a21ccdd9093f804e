"""How fast: draining a full queue, working while a producer produces, the latency of single jobs, durable runs."""

from __future__ import annotations

import time

from benchmarks.figures import quantile
from benchmarks.peers.stage import Found, Stage, started
from benchmarks.probe import Probe

SLOTS = 100
FEW_SLOTS = 10
WARM = 10
"""Jobs before the first sample of a latency."""
LOOK_S = 0.02


def drain(stage: Stage, count: int | None = None) -> Found:
    """No-op jobs that are there already, one worker: jobs between the first start and the last, by the time."""
    return _drained(stage, count or stage.scale.jobs, "many", SLOTS)


def steps(stage: Stage) -> Found:
    """Durable runs of five steps that are there already: ends of runs, by the time."""
    return _drained(stage, stage.scale.runs, "runs", stage.scale.slots)


def _drained(stage: Stage, count: int, what: str, slots: int) -> Found:
    stage.clear()
    filled = stage.fill(count, what=what)
    with stage.probing(filled) as probe, stage.fleet(slots) as fleet:
        stage.wait_for_first(probe)
        cpu = fleet.cpu() + stage.servers.cpu()
        wait_for_all(probe, filled, stage.scale.seconds)
        used, resident = fleet.cpu() + stage.servers.cpu() - cpu, fleet.resident_mb()
        starts = probe.starts()
    found = rate_of(starts)
    ran = sum(moment > 0 for moment in starts)
    return {"rate": found, "ran": ran, "count": filled, "cpu_us": used / ran * 1e6, "resident_mb": resident}


def flow(stage: Stage) -> Found:
    """A producer that enqueues a hundred at a time as fast as it can, beside a worker: starts, by the time."""
    stage.clear()
    room = 60_000
    with stage.probing(room) as probe, stage.fleet(SLOTS):
        stage.programs.ask("produce", "--count", WARM)
        stage.wait_for_first(probe, WARM)
        words = ("--first", WARM, "--count", room - WARM, "--batch", 100, "--seconds", stage.scale.flow_s)
        answer = stage.programs.ask("produce", *words)
        made = int(answer["count"])
        wait_for_all(probe, WARM + made, stage.scale.seconds)
        starts = probe.starts()[WARM : WARM + made]
    return {"rate": rate_of(starts), "produced": made / float(answer["seconds"]), "ran": sum(m > 0 for m in starts)}


def latency(stage: Stage) -> Found:
    """Single jobs at a fixed moderate rate: ms from before the call to the first line of the body."""
    stage.clear()
    count = WARM + stage.scale.samples
    with (
        stage.probing(count) as probe,
        stage.fleet(FEW_SLOTS),
    ):
        stage.programs.ask("produce", "--count", 1)
        stage.wait_for_first(probe)
        sent = Probe(stage.folder / "sent", count)
        words = ("--what", "one", "--first", 1, "--count", count - 1, "--pause", 1 / stage.scale.rate)
        stage.programs.ask("produce", *words, "--sent", sent.path)
        wait_for_all(probe, count, stage.scale.seconds)
        pairs = list(zip(probe.starts(), sent.starts(), strict=True))[WARM:]
        sent.close()
    taken = [(start - before) * 1000 for start, before in pairs if start]
    found: Found = {f"p{share * 100:g}": quantile(taken, share) for share in (0.5, 0.95, 0.99)}
    return found | {"samples": len(taken), "missing": len(pairs) - len(taken)}


def rate_of(starts: list[float]) -> float | None:
    """Jobs a second between the first start and the last; None where fewer than two started."""
    moments = [moment for moment in starts if moment > 0]
    if len(moments) < 2 or max(moments) == min(moments):
        return None
    return (len(moments) - 1) / (max(moments) - min(moments))


def wait_for_all(probe: Probe, count: int, seconds: float) -> None:
    """Wait until so many have started, or so long."""
    ends_at = time.monotonic() + seconds
    while started(probe) < count and time.monotonic() < ends_at:
        time.sleep(LOOK_S)
