"""How a waiting backlog weighs: on the rate, and in bytes."""

from __future__ import annotations

from benchmarks.peers import speed
from benchmarks.peers.stage import Found, Stage


def backlog(stage: Stage) -> Found:
    """Drain a small and a large backlog; bytes of the stores for each job of the large one, and the worker's memory."""
    small = speed.drain(stage, stage.scale.small)["rate"]
    stage.clear()
    before = stage.servers.sizes(stage.contestant)
    waiting = stage.fill(stage.scale.large)
    grown = {name: size - before[name] for name, size in stage.servers.sizes(stage.contestant).items()}
    large = _drain_what_waits(stage, waiting)
    found: Found = {"small": small, "large": large["rate"], "waiting": waiting, "worker_mb": large["resident_mb"]}
    if isinstance(small, float) and isinstance(rate := large["rate"], float):
        found["ratio"] = rate / small
    return found | {f"{name}_bytes": size / waiting for name, size in grown.items()}


def _drain_what_waits(stage: Stage, count: int) -> Found:
    with stage.probing(count) as probe, stage.fleet(speed.SLOTS) as fleet:
        stage.wait_for_first(probe)
        speed.wait_for_all(probe, count, stage.scale.seconds)
        return {"rate": speed.rate_of(probe.starts()), "resident_mb": fleet.resident_mb()}
