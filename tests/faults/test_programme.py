"""The fault programme's trials: a few at each change, every fault at night, many before a release."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.programme.faults import FAULTS
from tests.faults.programme.series import Case, cases
from tests.faults.programme.shard import Shard
from tests.faults.programme.site import Crew
from tests.faults.programme.trial import Size, run_trial
from tests.faults.road import sized

SEED = int(os.environ.get("SEED", "20261130"))
SIZE = sized(Size(jobs=100, seconds=2.0, crew=Crew(relays=2, schedulers=1, workers=2, producers=4)), Size())


def chosen() -> list[Case]:
    """Small: each fault of the small tier once; then every fault, by several seeds."""
    small = [name for name, fault in FAULTS.items() if fault.tier == "small"]
    night = [name for name, fault in FAULTS.items() if fault.tier != "release"]
    faults = sized(small, night, list(FAULTS))
    return cases(sorted(faults), range(SEED, SEED + sized(1, 3, 20)))


@pytest.fixture(scope="module")
def shard() -> Iterator[Shard]:
    """Servers and a nursery for all trials of this module. What failed trials leave stays, in a folder below /tmp."""
    folder = Path(tempfile.mkdtemp(prefix="redisjobs-programme-"))
    with Shard(folder) as opened:
        yield opened
    opened.tidy()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("fault", "seed"), chosen())
async def test_the_promises_hold_through(fault: str, seed: int, shard: Shard):
    verdict = await run_trial(shard, FAULTS[fault], seed, SIZE)
    assert verdict.holds, verdict.told()
    assert verdict.jobs >= SIZE.jobs * 0.6, "hardly anything committed: the trial tried nothing"
