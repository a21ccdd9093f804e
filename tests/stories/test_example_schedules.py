"""The example of schedules works as its README says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.support.eventually import eventually_now
from tests.support.processes import CHECKOUT, Processes

EXAMPLE = CHECKOUT / "examples" / "schedules"


@pytest.mark.timeout(240)
def test_declared_schedules_and_those_made_at_run_time_are_run(tmp_path: Path):
    folder = tmp_path / "schedules"
    shutil.copytree(EXAMPLE, folder)
    with Processes(folder, {"REDISJOBS_DATABASE_URL": "", "REDISJOBS_REDIS_URL": ""}) as terminals:
        first = terminals.redisjobs("dev", "--app", "app:app")
        first.says_now("cleaned at", within=90)
        urls = dict(re.findall(r"^export (\w+)='(.*)'$", first.log(), re.MULTILINE))
        second = terminals.python("customers.py", "acme", "globex", env=urls)
        assert second.wait() == 0, second.log()
        first.says_now("looked at acme", within=30)
        first.says_now("looked at globex", within=30)
        for command in re.findall(r"^    redisjobs (schedules .*)$", (EXAMPLE / "README.md").read_text(), re.MULTILINE):
            told = terminals.redisjobs(*command.split(), env=urls)
            assert told.wait() == 0, told.log()
        pattern = re.compile(r"cleaned at (\S+)")
        seen = pattern.findall(first.log())
        assert len(seen) == len(set(seen)), "each occurrence once"
        eventually_now(lambda: first.stop() == 0, "dev ends", within=60)
