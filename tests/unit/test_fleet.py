"""A parent and its processes: restarts, giving up, exit codes (rule W13)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

import pytest

from redisjobs.cli import fleet as fleet_module
from redisjobs.cli import member
from redisjobs.cli.fleet import Fleet, told, worst
from tests.support.eventually import eventually


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "FIRST_PAUSE_S", 0.01)


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [each.getMessage() for each in caplog.records if getattr(each, "event", "") == name]


@pytest.mark.parametrize(
    ("codes", "code"), [([0, 0], 0), ([0, 75], 75), ([75, 69, 0], 69), ([78, 69], 78), ([1, 78], 1), ([], 0)]
)
def test_the_exit_code_is_the_worst_of_all(codes: list[int], code: int):
    assert worst(codes) == code


@pytest.mark.parametrize(("code", "words"), [(3, "exit code 3"), (-9, "SIGKILL"), (-40, "signal 40")])
def test_an_end_is_told_in_words(code: int, words: str):
    assert told(code) == words


async def test_one_that_dies_at_once_again_and_again_ends_all(caplog: pytest.LogCaptureFixture):
    code = f"import os, time; os._exit(3) if os.environ['{member.VARIABLE}'][0] == '2' else time.sleep(60)"

    assert await asyncio.wait_for(Fleet(python(code), 2).run(), 30) == 3

    assert len(events(caplog, "fleet.process_restarts")) == 4
    (gave_up,) = events(caplog, "fleet.gave_up")
    assert "process=2" in gave_up
    assert 'ended_with="exit code 3"' in gave_up
    assert "5 times in a row within 10 s" in gave_up


async def test_a_wrong_configuration_is_not_tried_again(caplog: pytest.LogCaptureFixture):
    assert await asyncio.wait_for(Fleet(python("raise SystemExit(78)"), 2).run(), 30) == 78
    assert events(caplog, "fleet.process_restarts") == []


async def test_a_killed_one_is_replaced_and_all_stop_together(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    code = f"import os, pathlib, time; (pathlib.Path({str(tmp_path)!r}) / str(os.getpid())).touch(); time.sleep(60)"
    fleet = Fleet(python(code), 2)

    def pids() -> list[int]:
        return [int(each.name) for each in tmp_path.iterdir()]

    running = asyncio.create_task(fleet.run())
    await eventually(lambda: len(pids()) == 2, "both run")

    os.kill(pids()[0], signal.SIGKILL)
    await eventually(lambda: len(pids()) == 3, "another one runs")
    os.kill(os.getpid(), signal.SIGTERM)

    assert await asyncio.wait_for(running, 30) == 0
    (line,) = events(caplog, "fleet.process_restarts")
    assert "ended_with=SIGKILL" in line


async def test_those_that_have_done_their_work_are_not_started_again():
    assert await asyncio.wait_for(Fleet(python("pass"), 2, ends=True).run(), 30) == 0


async def test_one_that_waits_for_a_change_is_tried_again_only_then(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    mended = tmp_path / "mended"
    code = f"""
import os, time
os.path.exists({str(mended)!r}) or os._exit(78)
open({str(mended)!r}, 'w').write('runs')
time.sleep(60)"""
    fleet = Fleet(python(code), 1, waits_for_change=True)
    running = asyncio.create_task(fleet.run())
    await eventually(lambda: len(events(caplog, "fleet.waiting_for_change")) == 1, "it waits")

    fleet.restart()
    await eventually(lambda: len(events(caplog, "fleet.waiting_for_change")) == 2, "it is broken still")
    mended.touch()
    fleet.restart()
    await eventually(lambda: mended.read_text() == "runs", "it runs")

    fleet.stop()
    assert await asyncio.wait_for(running, 30) == 0


def test_a_process_whose_parent_is_gone_already_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(member.VARIABLE, "2 1 99")
    monkeypatch.setattr(member, "_joined", [])
    assert member.number() == 2
    with pytest.raises(SystemExit):
        member.join()


def test_a_process_of_its_own_has_no_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(member.VARIABLE, raising=False)
    assert member.number() is None
    member.join()
